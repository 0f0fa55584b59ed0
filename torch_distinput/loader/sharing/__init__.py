# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""How ranks of a mesh that get the same rows read them once: a reader hands its batches to the others."""
