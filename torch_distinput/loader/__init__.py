# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The parts of `torch_distinput.DataLoader`: sources, the choice of a path, orders, iterators, states."""
