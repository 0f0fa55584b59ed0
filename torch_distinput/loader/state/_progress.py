# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Where the iterators of a DataLoader stand: what it keeps between them."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any, Protocol

from torch_distinput._C import StepInfo
from torch_distinput.loader._config import LoaderConfig
from torch_distinput.loader.orders._draws import Draws
from torch_distinput.loader.orders._order import Start
from torch_distinput.loader.state._position import restore
from torch_distinput.observe._stats import Stats
from torch_distinput.recognize import _hugging_face as hugging_face


class Place(Protocol):
    """Where an iterator stands; outlives the iterator."""

    yielded: int
    finished: bool

    def state(self) -> dict[str, Any]: ...


class LiveIterator(Protocol):
    """An iterator of a loader, of one process or of ranks."""

    def stats(self) -> Stats: ...

    def close(self) -> None: ...


class Progress:
    """Counts epochs, and keeps position and counters of the latest iterator, also when that iterator is gone.

    `epoch`: of the latest iterator. `used`: whether that yielded a batch; if so, the next iterator has the next epoch.
    `pinned`: the epoch that `set_epoch` gave to the next iterator. `seed`: for those random ops of a native dataset
    that have none. `draws`: the generators from which orders are drawn. `info`: of the step last yielded with
    `distributed`. `loaded`: a state with which the next iterator begins. `pending`: an iterator that `state_dict` made
    for the next `iter`. `start`: where the latest iterator began. `position`: where it stands. `live`: all iterators
    that exist.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.used = False
        self.pinned: int | None = None
        self.seed: int | None = None
        self.draws = Draws()
        self.info: StepInfo | None = None
        self.loaded: dict[str, Any] | None = None
        self.pending: LiveIterator | None = None
        self.start = Start()
        self.position: Place | None = None
        self.live: weakref.WeakSet[LiveIterator] = weakref.WeakSet()
        self._latest: weakref.ref[LiveIterator] | None = None
        self._kept = Stats()
        self._ended = False  # whether the epoch had ended when its state was saved
        self._moved = False  # whether the dataset was given a state

    @contextlib.contextmanager
    def opening(self, config: LoaderConfig) -> Iterator[None]:
        """The block makes an iterator with `config`. If it raises, all fields are restored, also a loaded state."""
        loaded, before = self.loaded, (self.epoch, self.used, self.pinned, self.start, self.position, self._ended)
        try:
            self._begin(config)
            self.loaded = None
            with self.draws.lent():
                yield
        except BaseException:
            self.loaded = loaded
            self.epoch, self.used, self.pinned, self.start, self.position, self._ended = before
            raise

    def _begin(self, config: LoaderConfig) -> None:
        self.draws.begin(config)
        if self.loaded is not None:
            start = self._restored(config, self.loaded)
            self._moved = self._moved or self.loaded.get("dataset") is not None
        else:
            start = Start(self.epoch + self.used, at_end=self._ended)
        if self.pinned is not None:
            start.epoch = self.pinned
            self.pinned = None
        if self._moved and start.state is None:
            hugging_face.rewind(config.dataset)
            self._moved = False
        self._ended = start.state is not None and start.state.get("ended", False)
        start.begin = self.draws.snapshot()
        self.epoch, self.used = start.epoch, start.batches > 0
        self.start, self.position = start, None

    def _restored(self, config: LoaderConfig, state: dict[str, Any]) -> Start:
        self.seed = state["seed"]
        if "distributed" not in state:
            return restore(config, state, self.draws)
        if state["finished"]:
            return Start(state["epoch"] + 1, saved=state)
        return Start(state["epoch"], state["batches"], saved=state, state=state)

    def attach(self, iterator: LiveIterator, position: Place) -> None:
        """Notes `iterator`, with its position, as the latest one."""
        self.position, self._latest = position, weakref.ref(iterator)
        self.live.add(iterator)

    def seed_of(self, given: int | None, drawn: int) -> int:
        """The seed, modulo 2**64, for those random ops of a native dataset that have none: the user's, else the first
        `drawn`, so that they follow `torch.manual_seed` as torch's samplers do."""
        if given is not None or self.seed is None:
            self.seed = (drawn if given is None else given) % 2**64
        return self.seed

    def for_copy(self) -> Progress:
        """What a copy of the loader begins with: epoch, pinned epoch and seed only."""
        return _progress_of(self.epoch + self.used, self.pinned, self.seed)

    def __reduce__(self) -> tuple[Any, ...]:
        return _progress_of, (self.epoch + self.used, self.pinned, self.seed)

    def stats(self) -> Stats:
        """The counters of the latest iterator, also when it is gone; all 0 before the first one."""
        latest = None if self._latest is None else self._latest()
        return self._kept if latest is None else latest.stats()

    def keep_stats(self, position: Place, stats: Stats) -> None:
        """Keeps the counters of an iterator that ends, if it is the latest: if `position` is."""
        if position is self.position:
            self._kept = stats

    def state(self) -> dict[str, Any] | None:
        """The position of the latest iterator, or the state loaded after it; None before the first one."""
        if self.loaded is not None:
            return self.loaded
        return None if self.position is None else self.position.state()

    def load(self, state: dict[str, Any] | None) -> None:
        """Lets the next iterator begin with `state`; None: with epoch 0. Forgets everything else."""
        fresh = Progress()
        fresh.live, fresh._moved = self.live, self._moved
        self.__dict__.update(fresh.__dict__)
        self.loaded = state


def _progress_of(epoch: int, pinned: int | None, seed: int | None) -> Progress:
    progress = Progress()
    progress.epoch, progress.pinned, progress.seed = epoch, pinned, seed
    return progress
