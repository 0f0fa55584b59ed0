# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What a DataLoader's state holds: orders, draws, positions, and the check of a loaded state."""
