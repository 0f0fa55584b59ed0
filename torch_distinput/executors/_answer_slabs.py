# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Slabs for the answers of a worker, at its end and at the end of the process that asks."""

from __future__ import annotations

import functools
import os
from collections import deque
from collections.abc import Iterable

import torch

from torch_distinput import _C
from torch_distinput.base._batch_format import Packed
from torch_distinput.base._slab_memory import ReadSlab, WrittenSlab


class OwnSlabs:
    """Those that a worker writes to: as many as there are answers at a time that somebody views."""

    def __init__(self) -> None:
        self._slabs: list[WrittenSlab] = []
        self._free: list[int] = []

    def write(self, packed: Packed) -> tuple[int, int | None]:
        """The number of the slab that now holds `packed`, and its descriptor, which stays the slab's, where the other
        end does not know this memory by that number. OSError where there is no memory."""
        place = max(self._free, key=lambda free: self._slabs[free].size, default=len(self._slabs))
        is_new = place == len(self._slabs) or self._slabs[place].size < packed.whole_size
        if is_new:
            self._slabs[place : place + 1] = [WrittenSlab(packed.whole_size)]
        self._slabs[place].write(packed)
        self._free = [free for free in self._free if free != place]
        return place, self._slabs[place].descriptor if is_new else None

    def free(self, slabs: Iterable[int]) -> None:
        """Nobody views these any more."""
        self._free += slabs


class GivenSlabs:
    """Those of one worker that this process has been given. One thread at a time, but what was lent may be freed by
    any."""

    def __init__(self) -> None:
        self._slabs: dict[int, ReadSlab] = {}
        self._freed: deque[int] = deque()

    def lent(self, slab: int, fd: int | None = None) -> torch.Tensor:
        """The memory of a slab as a tensor of bytes. `fd`, which this function closes, where the number is that of
        other memory from now on. Raises DistributedDatasetError for what `OwnSlabs` has not written."""
        if fd is not None:
            try:
                self._slabs[slab] = ReadSlab(fd)
            finally:
                os.close(fd)
        if slab not in self._slabs:
            raise _C.DistributedDatasetError(f"DataLoader: a worker of `executor` has given no slab {slab} yet.")
        return self._slabs[slab].lent(functools.partial(self._freed.append, slab))

    def freed(self) -> list[int]:
        """The slabs that nothing views any more, each once."""
        return [self._freed.popleft() for _ in range(len(self._freed))]
