# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What a DataLoader keeps between its iterators."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch_distinput.loader.state._draws import Draws
from torch_distinput.loader.state._order import Start
from torch_distinput.loader.state._position import Position, restore
from torch_distinput.observe._stats import Stats
from torch_distinput.recognize import _hugging_face as hugging_face

if TYPE_CHECKING:
    from torch_distinput._C import StepInfo
    from torch_distinput.loader._data_loader import DataLoader
    from torch_distinput.loader._iterators import LoaderIter
    from torch_distinput.loader.ranks._steps import StepPosition, Steps


class Memory:
    """Counts epochs, and knows the position of the iterator made last, also when that iterator is gone.

    `epoch`: of the iterator made last. `used`: whether that yielded a batch; then the next iterator has the next epoch.
    `pinned`: the epoch that `set_epoch` gave to the next iterator. `seed`: for those random ops of a native dataset
    that have none. `draws`: the generators from which orders are drawn. `info`: of the step last yielded over
    processes. `loaded`: a state with which the next iterator begins. `pending`: an iterator that `state_dict` made for
    the next `iter`. `start`: where the iterator made last begins. `position`: where it stands. `live`: all iterators
    that exist. What the iterator made last has counted is kept, too.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.used = False
        self.pinned: int | None = None
        self.seed: int | None = None
        self.draws = Draws()
        self.info: StepInfo | None = None
        self.loaded: dict[str, Any] | None = None
        self.pending: LoaderIter | Steps | None = None
        self.start = Start()
        self.position: Position | StepPosition | None = None
        self.live: weakref.WeakSet[LoaderIter | Steps] = weakref.WeakSet()
        self._latest: weakref.ref[LoaderIter | Steps] | None = None
        self._kept = Stats()
        self._ended = False  # whether the epoch had ended when its state was saved
        self._moved = False  # the dataset was given a state

    @contextlib.contextmanager
    def opening(self, loader: DataLoader) -> Iterator[None]:
        """The block makes an iterator of `loader`. If it raises, all fields are restored, also a loaded state."""
        loaded, before = self.loaded, (self.epoch, self.used, self.pinned, self.start, self.position, self._ended)
        try:
            self._begin(loader)
            self.loaded = None
            with self.draws.lent():
                yield
        except BaseException:
            self.loaded = loaded
            self.epoch, self.used, self.pinned, self.start, self.position, self._ended = before
            raise

    def _begin(self, loader: DataLoader) -> None:
        self.draws.begin(loader)
        if self.loaded is not None:
            start = self._restored(loader, self.loaded)
            self._moved = self._moved or self.loaded.get("dataset") is not None
        else:
            start = Start(self.epoch + self.used, at_end=self._ended)
        if self.pinned is not None:
            start.epoch = self.pinned
            self.pinned = None
        if self._moved and start.state is None:
            hugging_face.rewind(loader.dataset)
            self._moved = False
        self._ended = start.state is not None and start.state.get("ended", False)
        start.begin = self.draws.snapshot()
        self.epoch, self.used = start.epoch, start.batches > 0
        self.start, self.position = start, None

    def _restored(self, loader: DataLoader, state: dict[str, Any]) -> Start:
        self.seed = state["seed"]
        if "distributed" not in state:
            return restore(loader, state, self.draws)
        if state["finished"]:
            return Start(state["epoch"] + 1, saved=state)
        return Start(state["epoch"], state["batches"], saved=state, state=state)

    def attach(self, iterator: LoaderIter | Steps, position: Position | StepPosition) -> None:
        """Notes `iterator` as the one made last, with its position."""
        self.position, self._latest = position, weakref.ref(iterator)
        self.live.add(iterator)

    def seed_of(self, given: int | None, drawn: int) -> int:
        """The seed, modulo 2**64, for those random ops of a native dataset that have none: the user's, else the first
        `drawn`, so that `torch.manual_seed` decides about them as about torch's samplers."""
        if given is not None or self.seed is None:
            self.seed = (drawn if given is None else given) % 2**64
        return self.seed

    def for_copy(self) -> Memory:
        """The memory of a copy of the loader: epoch, pinned epoch and seed only."""
        return _memory_of(self.epoch + self.used, self.pinned, self.seed)

    def __reduce__(self) -> tuple[Any, ...]:
        return _memory_of, (self.epoch + self.used, self.pinned, self.seed)

    def stats(self) -> Stats:
        """What the iterator made last has counted, also when it is gone; all 0 before the first one."""
        latest = None if self._latest is None else self._latest()
        return self._kept if latest is None else latest.stats()

    def keep_stats(self, position: Position | StepPosition, stats: Stats) -> None:
        """Keeps what an iterator that ends has counted, if it is the one made last, which `position` tells."""
        if position is self.position:
            self._kept = stats

    def state(self) -> dict[str, Any] | None:
        """The position of the iterator made last, or the state loaded after it; None before the first one."""
        if self.loaded is not None:
            return self.loaded
        return None if self.position is None else self.position.state()

    def load(self, state: dict[str, Any] | None) -> None:
        """Lets the next iterator begin with `state`; None: with epoch 0. Forgets everything else."""
        fresh = Memory()
        fresh.live, fresh._moved = self.live, self._moved
        self.__dict__.update(fresh.__dict__)
        self.loaded = state


def _memory_of(epoch: int, pinned: int | None, seed: int | None) -> Memory:
    memory = Memory()
    memory.epoch, memory.pinned, memory.seed = epoch, pinned, seed
    return memory
