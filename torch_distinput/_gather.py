# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`gather` and `all_gather`: the replicas' values one after the other."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torch_distinput._C import InvalidArgumentError


def concatenate(values: Sequence[Any], axis: int, call: str, device: torch.device | None = None) -> Tensor:
    """The values along dimension `axis`, in replica order, on `device` (None: that of the first value).

    One value is returned as it is. `call` begins the messages.
    """
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise TypeError(f"{call}: `axis` must be an integer, but is {axis!r}.")
    if len(values) == 1:
        return values[0]
    for replica, value in enumerate(values):
        _check_value(value, replica, axis, call)
    _check_alike(values, axis, call)
    device = values[0].device if device is None else device
    return torch.cat([value.to(device) for value in values], dim=axis)


def _check_value(value: Any, replica: int, axis: int, call: str) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{call}: `value` must hold tensors, but replica {replica} has a {type(value).__name__}.")
    if value.is_nested:
        raise NotImplementedError(f"{call}: nested tensors are not supported, but replica {replica} has one.")
    if not 0 <= axis < value.dim():
        raise ValueError(
            f"{call}: `axis` must be a dimension of the values, counted from 0, but it is {axis} and replica "
            f"{replica} has a tensor of {value.dim()} dimension(s)."
        )


def _check_alike(values: Sequence[Tensor], axis: int, call: str) -> None:
    first = values[0]
    for replica, value in enumerate(values[1:], start=1):
        same = value.dim() == first.dim() and value.dtype == first.dtype
        if not same or any(a != b for dim, (a, b) in enumerate(zip(value.shape, first.shape)) if dim != axis):
            raise InvalidArgumentError(
                f"{call}: the values may differ in dimension {axis} alone, but replica 0 has a {_describe(first)} and "
                f"replica {replica} a {_describe(value)}."
            )


def _describe(value: Tensor) -> str:
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
