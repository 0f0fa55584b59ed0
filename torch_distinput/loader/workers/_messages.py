# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What stands for a worker's result that cannot be read."""

from torch._utils import ExceptionWrapper


def unreadable(error: Exception) -> ExceptionWrapper:
    """The error that replaces a result that cannot be unpickled."""
    return ExceptionWrapper((type(error), error, error.__traceback__), "when a DataLoader read a worker's result")
