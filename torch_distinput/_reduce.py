# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Arithmetic of `Strategy.reduce`: one value from the replicas' values."""

import enum
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torch_distinput._C import InvalidArgumentError

# Integers are averaged in floating point: the small ones in single precision, as tf.distribute does.
_SMALL_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.uint16)

Axis = int | Sequence[int] | None


class ReduceOp(enum.Enum):
    """How `reduce` combines values. The strings "SUM" and "MEAN", in any case, mean the same."""

    SUM = "SUM"
    MEAN = "MEAN"

    @classmethod
    def of(cls, op: "ReduceOp | str") -> "ReduceOp":
        """The operation that `op` names; raises ValueError for another name."""
        if isinstance(op, cls):
            return op
        try:
            return cls[op.upper()]
        except (AttributeError, KeyError):
            raise ValueError(f"reduce: `op` must be 'SUM' or 'MEAN', but is {op!r}.") from None


def combine(
    op: ReduceOp, values: Sequence[Any], axis: Axis, call: str = "reduce", device: torch.device | None = None
) -> Tensor:
    """Reduces each value over `axis` (None: not at all), then over the replicas, on `device` (None: the first's).

    MEAN divides by the number of items summed, so that short and empty values weigh what they hold. `call` begins
    the messages.
    """
    _check_tensors(values, axis, call)
    counts = len(values)
    if axis is not None:
        axes = [_axes_of(axis, value, replica) for replica, value in enumerate(values)]
        counts = sum(math.prod(value.shape[dim] for dim in dims) for value, dims in zip(values, axes))
        values = [value.sum(dims, dtype=value.dtype) if dims else value for value, dims in zip(values, axes)]
    total = _sum(values, call, values[0].device if device is None else device)
    return total if op is ReduceOp.SUM else _floating(total) / counts


def _check_tensors(values: Sequence[Any], axis: Axis, call: str) -> None:
    for replica, value in enumerate(values):
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{call}: `value` must hold tensors, but replica {replica} has a {type(value).__name__}; return "
                "tensors from `run`, and reduce each leaf of a structure."
            )
        if value.dtype == torch.bool:
            error = InvalidArgumentError if axis is None else TypeError
            raise error(f"{call}: `value` of replica {replica} is bool, which has no sum; convert it to an integer.")


def _axes_of(axis: Axis, value: Tensor, replica: int) -> list[int]:
    axes = list(axis) if isinstance(axis, (list, tuple)) else [axis]
    if not all(isinstance(one, int) and not isinstance(one, bool) for one in axes):
        raise TypeError(f"reduce: `axis` must be an integer, or a tuple or list of integers, but is {axis!r}.")
    rank = value.dim()
    for one in axes:
        if not -rank <= one < rank:
            raise ValueError(f"reduce: `axis` = {one} is out of range for `value` of rank {rank} (replica {replica}).")
    dims = [one % rank for one in axes]
    if len(set(dims)) < len(dims):
        raise ValueError(f"reduce: `axis` = {axis!r} names a dimension of `value` twice.")
    return dims


def _sum(values: Sequence[Tensor], call: str, device: torch.device) -> Tensor:
    first = values[0]
    total = first.to(device)
    for replica, value in enumerate(values[1:], start=1):
        if value.shape != first.shape or value.dtype != first.dtype:
            raise InvalidArgumentError(
                f"{call}: the values to add must have one shape and dtype, but replica 0 has {_describe(first)} and "
                f"replica {replica} {_describe(value)}; reduce over rows first, as `strategy.reduce` does with `axis`."
            )
        total = total + value.to(device)
    return total


def _floating(value: Tensor) -> Tensor:
    if value.is_floating_point() or value.is_complex():
        return value
    return value.to(torch.float32 if value.dtype in _SMALL_INTEGERS else torch.float64)


def _describe(value: Tensor) -> str:
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
