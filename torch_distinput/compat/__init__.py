# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Names of earlier interfaces."""

from torch_distinput.compat import v1

__all__ = ["v1"]
