# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`reduce` and `gather`: one value from the replicas' values."""

import enum
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torch_distinput import _C
from torch_distinput.typing import Reduction

Axis = int | Sequence[int] | None


class ReduceOp(enum.Enum):
    """How `reduce` and `all_reduce` combine values. The strings "SUM" and "MEAN", in any case, mean the same.

    >>> tdi.ReduceOp.of("mean")
    <ReduceOp.MEAN: 'MEAN'>
    """

    SUM = "SUM"
    MEAN = "MEAN"

    @classmethod
    def of(cls, op: "ReduceOp | Reduction") -> "ReduceOp":
        """The member that `op` is or names; raises ValueError for anything else."""
        if isinstance(op, ReduceOp):
            return op
        try:
            return cls[op.upper()]
        except (AttributeError, KeyError):
            raise ValueError(f"reduce: `op` must be 'SUM' or 'MEAN', but is {op!r}.") from None


def combine(op: ReduceOp, values: Sequence[Any], axis: Axis) -> Tensor:
    """Reduces each value over `axis` (None: over no dim), then over the replicas, on the device of the first value.

    MEAN divides by the number of items summed, so that a short or empty value weighs as many items as it holds.
    """
    check_tensors(values, "reduce")
    return _C.reduce(op is ReduceOp.MEAN, list(values), _axes(axis))


def combine_everywhere(op: ReduceOp, values: Sequence[Any], replicas: slice) -> list[Tensor]:
    """Reduces over the replicas, once on the device of each value in `replicas`."""
    check_tensors(values, "all_reduce")
    return _C.all_reduce(op is ReduceOp.MEAN, list(values), [str(value.device) for value in values[replicas]])


def concatenate(values: Sequence[Any], axis: int, call: str = "gather", device: torch.device | None = None) -> Any:
    """Concatenates `values` along dim `axis`, in replica order, on `device` (None: that of the first value).

    A single value is returned as it is. `call` begins the messages about values that are not tensors.
    """
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise TypeError(f"{call}: `axis` must be an integer, but is {axis!r}.")
    if len(values) == 1:
        return values[0]
    check_tensors(values, call)
    return _C.gather(list(values), axis, None if device is None else str(device))


def check_tensors(values: Sequence[Any], call: str) -> None:
    """Raises TypeError that names the first replica whose value is not a tensor."""
    for replica, value in enumerate(values):
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{call}: `value` must hold tensors, but replica {replica} has a {type(value).__name__}; return "
                "tensors from `run`, and give the leaves of a structure one by one."
            )


def _axes(axis: Axis) -> list[int] | None:
    if axis is None:
        return None
    axes: list[Any] = list(axis) if isinstance(axis, (list, tuple)) else [axis]
    if not all(isinstance(one, int) and not isinstance(one, bool) for one in axes):
        raise TypeError(f"reduce: `axis` must be an integer, or a tuple or list of integers, but is {axis!r}.")
    return axes
