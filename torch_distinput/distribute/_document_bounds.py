# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Checks of the bounds of documents in packed rows, before positions follow from them."""

from typing import Any

import torch
from torch import Tensor

from torch_distinput.distribute._peer_positions import multiple_for


def checked_bounds(op: str, name: str, bounds: Any, length: int, size: int) -> Tensor:
    """`bounds`, which must divide rows of `length` positions into documents that `size` peers can share head-tail.

    Bounds are int32 or int64 of shape [bounds] or [rows, bounds], and go from 0 to `length`; a repeated one ends a
    document without positions. Waits for those on an accelerator. Raises TypeError and ValueError, which name the first
    row and document that are wrong.
    """
    if not isinstance(bounds, Tensor) or bounds.dtype not in (torch.int32, torch.int64):
        have = f"of {bounds.dtype}" if isinstance(bounds, Tensor) else f"a {type(bounds).__name__}"
        raise TypeError(f"{op}: {name} must be a tensor of int32 or int64, but is {have}.")
    if bounds.dim() == 2 and len(bounds) == 0:
        return bounds
    if bounds.dim() not in (1, 2) or bounds.shape[-1] == 0:
        raise ValueError(f"{op}: {name} must be of shape [bounds] or [rows, bounds], but is {list(bounds.shape)}.")
    rows = bounds.cpu().reshape(-1, bounds.shape[-1])
    lengths = rows.diff()
    wrong = (rows[:, 0] != 0) | (rows[:, -1] != length) | (lengths < 0).any(1)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise ValueError(
            f"{op}: {name} must go from 0 to {length} without falling, but row {row} has {rows[row].tolist()}."
        )
    multiple = multiple_for("head_tail", size)
    unequal = (lengths % multiple).nonzero()
    if len(unequal):
        row, document = unequal[0].tolist()
        raise ValueError(
            f"{op}: documents must have a multiple of {multiple} positions for {size} peers, but by {name} document "
            f"{document} of row {row} has {int(lengths[row, document])}; pad it to "
            f"{padded(int(lengths[row, document]), multiple)}, as `pack(..., pad_to_multiple_of={multiple})` does."
        )
    return bounds


def padded(length: int, multiple: int) -> int:
    """The multiple that is not less than `length`."""
    return -(-length // multiple) * multiple
