# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What native code needs to know about a dataset to copy its rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from torch_distinput import _C

Check = Callable[[], bool]
Op = Callable[[_C.Dataset], _C.Dataset]


@dataclass(frozen=True)
class Source:
    """The rows of a dataset at one moment.

    `native`: the rows as a native dataset of elements of `spec`, which also says how batches are converted (see
    `collated`). `is_current`: whether `native` still describes the dataset; called for each batch, so that tensors and
    indices may be replaced at any time. `steady`: neither the rows nor their order can be written to. `choose`: returns
    the rows at positions where `native` holds a copy of indices that can be written to; None where `native.select`
    does. `draws`: the transforms, by the user's names, that draw random numbers from this library; those belong to
    rows. `ordered_before_draws`: returns the rows with an op before these transforms; None where there are none.
    """

    native: _C.Dataset
    spec: Any
    is_current: Check
    steady: bool = False
    choose: Callable[[torch.Tensor], _C.Dataset] | None = None
    draws: tuple[str, ...] = ()
    ordered_before_draws: Callable[[Op], _C.Dataset] | None = None

    def at(self, positions: torch.Tensor) -> _C.Dataset:
        """The current rows at `positions`. Raises IndexError, TypeError or ValueError for positions without a row."""
        return self.native.select(positions) if self.choose is None else self.choose(positions)

    def ordered(self, op: Op) -> _C.Dataset:
        """The rows after `op`, which may repeat them: each repetition then has random numbers of its own."""
        return op(self.native) if self.ordered_before_draws is None else self.ordered_before_draws(op)


class NotNative(Exception):
    """Why native code cannot copy the rows of a dataset."""
