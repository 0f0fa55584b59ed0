# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Where the iterators of a DataLoader stand: what it keeps between them."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar, runtime_checkable

from torch_distinput._C import StepInfo
from torch_distinput.loader._config import LoaderConfig
from torch_distinput.loader.orders._draws import Draws
from torch_distinput.loader.orders._order import Start
from torch_distinput.loader.state._failures import FailedRows
from torch_distinput.loader.state._next_epoch import NextEpoch
from torch_distinput.loader.state._position import restore
from torch_distinput.loader.state._step_log import StepLogs
from torch_distinput.observe._stats import Stats
from torch_distinput.recognize import _hugging_face as hugging_face

Ledger = TypeVar("Ledger")


class Place(Protocol):
    """Where an iterator stands; outlives the iterator."""

    yielded: int
    finished: bool

    @property
    def seed(self) -> int | None: ...

    def state(self) -> dict[str, Any]: ...


class LiveIterator(Protocol):
    """An iterator of a loader, of one process or of ranks."""

    def stats(self) -> Stats: ...

    def close(self) -> None: ...


@runtime_checkable
class ReadsMixture(Protocol):
    """An iterator over a dataset of this library."""

    def set_weights(self, weights: list[float], step: int | None) -> None: ...


@runtime_checkable
class LeavesOut(Protocol):
    """An iterator over rows that have numbers."""

    def exclude(self, rows: list[int]) -> None: ...

    def excluded(self) -> list[Any]: ...


class Progress:
    """Counts epochs, and keeps position and counters of the latest iterator, also when that iterator is gone.

    `epoch`: of the latest iterator. `used`: whether that yielded a batch; if so, the next iterator has the next epoch.
    `pinned`: the epoch that `set_epoch` gave to the next iterator. `seed`: for those random ops of a native dataset
    that have none. `last_seed`: of the iterator before the latest one. `draws`: the generators from which orders are
    drawn. `info`: of the step last yielded with `distributed`. `weights`: what `set_weights` gave, for all later
    epochs, too. `failed`: the rows of this epoch that were left out. `excluded`: what `exclude` left out, as entries of
    positions. `loaded`: a state with which the next iterator begins. `pending`: an iterator that `state_dict` made for
    the next `iter`. `logs`: of data that is read in order. `next_epoch`: what reads the begin of the epoch after the
    latest iterator's. `start`: where the latest iterator began. `position`: where it stands. `live`: all iterators that
    exist.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.used = False
        self.pinned: int | None = None
        self.seed: int | None = None
        self.last_seed: int | None = None
        self.draws = Draws()
        self.info: StepInfo | None = None
        self.weights: list[float] | None = None
        self.excluded: list[Any] = []
        self.failed = FailedRows("", None)
        self.loaded: dict[str, Any] | None = None
        self.pending: LiveIterator | None = None
        self.logs = StepLogs()
        self.next_epoch = NextEpoch()
        self.start = Start()
        self.position: Place | None = None
        self.live: weakref.WeakSet[LiveIterator] = weakref.WeakSet()
        self._ledger: tuple[Any, Any] = (None, None)
        self._latest: weakref.ref[LiveIterator] | None = None
        self._kept = Stats()
        self._ended = False  # whether the epoch had ended when its state was saved
        self._moved = False  # whether the dataset was given a state

    @contextlib.contextmanager
    def opening(self, config: LoaderConfig) -> Iterator[None]:
        """The block makes an iterator with `config`. If it raises, all fields are restored, also a loaded state."""
        loaded, before = self.loaded, (self.epoch, self.used, self.pinned, self.start, self.position, self._ended)
        failed = self.failed
        try:
            self._begin(config)
            self.loaded = None
            with self.draws.lent():
                yield
        except BaseException:
            self.loaded = loaded
            self.epoch, self.used, self.pinned, self.start, self.position, self._ended = before
            self.failed = failed
            raise

    def _begin(self, config: LoaderConfig) -> None:
        self.draws.begin(config)
        if self.position is not None and self.position.seed is not None:
            self.last_seed = self.position.seed
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
        self.failed = FailedRows(type(config.dataset).__name__, config.max_errors)
        if start.state is not None:
            self.failed.load(start.state.get("failed"))
        self.epoch, self.used = start.epoch, start.batches > 0
        self.start, self.position = start, None

    def _restored(self, config: LoaderConfig, state: dict[str, Any]) -> Start:
        self.seed = state["seed"]
        self.weights = _last_weights(state.get("distributed") or state.get("native"))
        self.excluded = excluded_in(state.get("distributed") or state.get("native"))
        if "distributed" not in state:
            return restore(config, state, self.draws)
        if state["finished"]:
            return Start(state["epoch"] + 1, saved=state)
        return Start(state["epoch"], state["batches"], saved=state, state=state)

    def attach(self, iterator: LiveIterator, position: Place) -> None:
        """Notes `iterator`, with its position, as the latest one."""
        self.position, self._latest = position, weakref.ref(iterator)
        self.live.add(iterator)

    def may_read_after(self, position: Place) -> bool:
        """Whether the epoch after that of the iterator at `position` may begin to be read, unless something happens
        before it: that iterator is the latest, and nothing was changed that opening an epoch must look through."""
        return position is self.position and self.weights is None and not self.excluded

    def set_weights(self, weights: list[float], step: int | None) -> None:
        """As `DataLoader.set_weights`."""
        latest = None if self._latest is None else self._latest()
        runs = latest is not None and self.position is not None and not self.position.finished
        if runs and isinstance(latest, ReadsMixture):
            latest.set_weights(weights, step)
        elif step is not None or (runs and self.loaded is None):
            raise ValueError(
                "set_weights: `step` is a step of an epoch that is being read, from a `Dataset` with a "
                "`sample_from_datasets`; between epochs, pass none."
            )
        self.weights = weights

    def exclude(self, rows: list[int]) -> None:
        """As `DataLoader.exclude`, from the next step of the latest iterator on."""
        latest = None if self._latest is None else self._latest()
        if not isinstance(latest, LeavesOut):
            raise ValueError(
                "exclude: rows are left out of a `Dataset` of this library with random access, or of a map-style "
                "dataset with `distributed`."
            )
        latest.exclude(rows)
        self.excluded = latest.excluded()

    def ledger(self, key: Any, make: Callable[[], Ledger]) -> Ledger:
        """What `make` returned last, if for an equal `key`: after `exclude`, it looks through an epoch to make one."""
        if self._ledger[0] != key:
            self._ledger = key, make()
        return self._ledger[1]

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
        if self.position is None:
            return None
        failed = self.failed.state()
        return self.position.state() | ({"failed": failed} if failed["of_all_ranks"] else {})

    def load(self, state: dict[str, Any] | None) -> None:
        """Lets the next iterator begin with `state`; None: with epoch 0. Forgets everything else."""
        self.next_epoch.drop()
        fresh = Progress()
        fresh.live, fresh._moved = self.live, self._moved
        self.__dict__.update(fresh.__dict__)
        self.loaded = state


def _last_weights(native: Any) -> list[float] | None:
    """The weights that hold at the end of the epoch of the native position `native`, if they were set."""
    entries = native.get("weights") if isinstance(native, dict) else None
    return entries[-1][1] if entries else None


def excluded_in(native: Any) -> list[Any]:
    """What was excluded up to the native position `native`: its entries."""
    return native.get("excluded", []) if isinstance(native, dict) else []


def _progress_of(epoch: int, pinned: int | None, seed: int | None) -> Progress:
    progress = Progress()
    progress.epoch, progress.pinned, progress.seed = epoch, pinned, seed
    return progress
