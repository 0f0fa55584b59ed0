# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The slabs in which a reader's batches lie that its followers copy to their devices at once."""

from __future__ import annotations

import functools
import os
from collections import deque
from typing import Any

from torch_distinput.base._batch_format import pack, view
from torch_distinput.base._slab_memory import ReadSlab, WrittenSlab


class SlabRing:
    """The slabs of a reader, for batches of which followers need at most `count`. One thread at a time."""

    def __init__(self, count: int):
        self._slabs: list[WrittenSlab | None] = [None] * count
        self._next = 0

    def write(self, value: Any, names: tuple[str, ...] = ()) -> int:
        """A descriptor of a slab that holds `value`, which the caller closes. Writes over the value that was written
        `count` calls before. Errors as `write_sealed`."""
        packed = pack(value, names=names)
        place, self._next = self._next, (self._next + 1) % len(self._slabs)
        slab = self._slabs[place]
        if slab is None or slab.size < packed.whole_size:
            slab = self._slabs[place] = WrittenSlab(packed.whole_size)
        slab.write(packed)
        return os.dup(slab.descriptor)

    def renew(self) -> None:
        """Leaves all slabs to whoever still reads them, and writes to others from now on."""
        self._slabs = [None] * len(self._slabs)


class SlabViews:
    """The slabs that a follower has been given, of which it keeps the last `count`. One thread at a time, but what it
    has made may be freed by any."""

    def __init__(self, count: int):
        self._slabs: deque[tuple[int, ReadSlab]] = deque(maxlen=count)
        self._read = self._answered = 0
        self._freed: deque[int] = deque()
        self._early: set[int] = set()

    def read(self, fd: int) -> Any:
        """The value in the slab behind `fd`, which this function closes. Its tensors are views of the slab; all else is
        copied. Raises DistributedDatasetError for what `SlabRing` has not written."""
        slab = self._slab_of(fd)
        memory = slab.lent(functools.partial(self._freed.append, self._read))
        self._read += 1
        return view(memory.numpy(), memory)

    @property
    def unanswered(self) -> int:
        """How many values `answers` has not counted yet."""
        return self._read - self._answered

    def answers(self) -> int:
        """How many more values have been freed, of those whose earlier ones have been, too."""
        while self._freed:
            self._early.add(self._freed.popleft())
        before = self._answered
        while self._answered in self._early:
            self._early.remove(self._answered)
            self._answered += 1
        return self._answered - before

    def _slab_of(self, fd: int) -> ReadSlab:
        try:
            number = os.fstat(fd).st_ino
            for known, slab in self._slabs:
                if known == number:
                    return slab
            slab = ReadSlab(fd)
        finally:
            os.close(fd)
        self._slabs.append((number, slab))
        return slab
