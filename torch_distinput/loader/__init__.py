# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`DataLoader` and its parts: configuration, choice of a path, iterators, states, ranks, workers."""
