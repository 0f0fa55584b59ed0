# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What a DataLoader remembers between its iterators."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from torch_distinput.loader.order import Start
from torch_distinput.loader.position import restore

if TYPE_CHECKING:
    from torch_distinput._C import StepInfo
    from torch_distinput.data_loader import DataLoader
    from torch_distinput.loader.iterators import LoaderIter


class Memory:
    """Counts epochs, and knows the position of the iterator made last, also when that is gone.

    The epoch goes up with an iterator if the one before handed anything out. `seed`: of a native dataset's random ops
    that have none. `info`: of the step last handed out over processes. `loaded`: a state that the next iterator begins
    with. `pending`: an iterator that was made before it was asked for.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.used = False
        self.pinned: int | None = None
        self.seed: int | None = None
        self.info: StepInfo | None = None
        self.loaded: dict[str, Any] | None = None
        self.pending: LoaderIter | None = None
        self.live: weakref.WeakSet[LoaderIter] = weakref.WeakSet()
        self._latest: weakref.ref[LoaderIter] | None = None
        self._start: Start | None = None
        self._final: dict[str, Any] | None = None

    def begin(self, loader: DataLoader, iterator: LoaderIter) -> Start:
        """Where `iterator`, which is the latest from now on, begins."""
        loaded, self.loaded = self.loaded, None
        if loaded is not None:
            start = restore(loader, loaded)
            self.epoch = start.epoch
        else:
            start = Start(self.epoch + self.used)
        if self.pinned is not None:
            start.epoch = self.pinned
            self.pinned = None
        self.epoch, self.used = start.epoch, start.batches > 0
        self._latest, self._start, self._final = weakref.ref(iterator), start, None
        self.live.add(iterator)
        return start

    def for_copy(self) -> Memory:
        """What a copy of the loader begins with."""
        return _memory_of(self.epoch + self.used, self.pinned, self.seed)

    def __reduce__(self) -> tuple[Any, ...]:
        return _memory_of, (self.epoch + self.used, self.pinned, self.seed)

    def latest(self) -> LoaderIter | None:
        """The iterator made last, while it lives."""
        return None if self._latest is None else self._latest()

    def leave(self, iterator: LoaderIter) -> None:
        """`iterator` is about to go: its position stays."""
        if iterator._start is self._start and self._final is None:
            self._final = iterator.state()

    def state(self) -> dict[str, Any] | None:
        """The position of the latest iterator; None before the first."""
        if self.loaded is not None:
            return self.loaded
        latest = self.latest()
        return self._final if latest is None or self._final is not None else latest.state()

    def load(self, state: dict[str, Any] | None) -> None:
        """The next iterator begins with `state`; None: with a fresh epoch 0."""
        fresh = Memory()
        fresh.live = self.live
        self.__dict__.update(fresh.__dict__)
        self.loaded = state


def _memory_of(epoch: int, pinned: int | None, seed: int | None) -> Memory:
    memory = Memory()
    memory.epoch, memory.pinned, memory.seed = epoch, pinned, seed
    return memory
