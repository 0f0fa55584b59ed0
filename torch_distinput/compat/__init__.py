# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Interfaces of earlier versions of tf.distribute."""

from torch_distinput.compat import v1

__all__ = ["v1"]
