# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Which rows are in which step: asked for, gone to, left out."""
