# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The worker processes of a DataLoader."""
