# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What the owner of some streams tells the other members about a step: its rows, and where its streams then stand."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from torch_distinput import _C
from torch_distinput.distribute import _peer_values
from torch_distinput.loader.members._place import Place

DIGEST_BYTES = 16
# A position has four open streams with their windows as numbers: some KB. Rows that it holds would go to all members.
MOST_BYTES = 2**20

_HEAD = struct.Struct(f"<qqqq?{DIGEST_BYTES}s")


class OwnerReport(NamedTuple):
    """`place`: of the step. `before`: rows of this owner in the epoch before the step; `rows`: in it. `ended`: no row
    of its streams follows. `base`: the digest of the position from which the step began. `position`: of its streams
    after the step, as `_peer_values` write it."""

    place: Place
    before: int
    rows: int
    ended: bool
    base: bytes
    position: bytes

    def encode(self) -> bytes:
        """Raises ValueError for a position of more than `MOST_BYTES`."""
        if len(self.position) > MOST_BYTES:
            raise ValueError(
                "DataLoader: with `membership`, the position of a member's streams goes to all members after each "
                f"step, and must have at most {MOST_BYTES} bytes, but has {len(self.position)}: an op holds rows in it."
            )
        return _HEAD.pack(*self.place, self.before, self.rows, self.ended, self.base) + self.position


def report_in(data: bytes, index: int) -> OwnerReport:
    """The report of member `index`. Raises DistributedDatasetError for bytes that `encode` cannot have made."""
    if not _HEAD.size < len(data) <= _HEAD.size + MOST_BYTES:
        raise _damaged(index, f"it must have {_HEAD.size} to {_HEAD.size + MOST_BYTES} bytes, but has {len(data)}")
    epoch, step, before, rows, ended, base = _HEAD.unpack_from(data)
    if min(epoch, step, before, rows) < 0:
        raise _damaged(index, "its numbers must not be negative")
    return OwnerReport(Place(epoch, step), before, rows, ended, base, data[_HEAD.size :])


def position_in(data: bytes, index: int) -> dict[str, Any]:
    """The position of the streams of member `index`."""
    position = _peer_values.decode(data, _whose(index), None)
    if not isinstance(position, dict):
        raise _damaged(index, "its position must be a dict")
    return position


def _whose(index: int) -> str:
    return f"DataLoader: the report of member {index} on a step"


def _damaged(index: int, rule: str) -> _C.DistributedDatasetError:
    return _C.DistributedDatasetError(f"{_whose(index)}: {rule}. {_peer_values.STRANGER}")
