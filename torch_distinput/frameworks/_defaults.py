# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What the adapters choose where the framework leaves it open."""

# Models and metrics written for a framework rarely accept a batch without rows.
TAIL = "merge"
