# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What rows cost, as users give it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch

from torch_distinput.base._arguments import text

RowCost = torch.Tensor | numpy.ndarray | Sequence[float] | str | Callable[..., Any]


def row_cost(op: str, name: str, cost: RowCost) -> torch.Tensor | str | Callable[..., Any]:
    """`cost` as the native library takes it: numbers as a tensor, the key of a column, or a function."""
    if isinstance(cost, str):
        return text(op, name, cost)
    if callable(cost):
        return cost
    try:
        return torch.as_tensor(cost)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"{op}: `{name}` must be a tensor, an array or a list of numbers, the key of a column, or a function, "
            f"but is a {type(cost).__name__}."
        ) from None
