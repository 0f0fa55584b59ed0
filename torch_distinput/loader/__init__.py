# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What `torch_distinput.DataLoader` is made of: sources, the choice of a path, orders, iterators, states."""
