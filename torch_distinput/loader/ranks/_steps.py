# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Iterators of a DataLoader with `distributed`: each takes the same number of steps on all ranks."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.profiler import record_function
from torch.utils.data._utils.pin_memory import pin_memory

from torch_distinput import _C
from torch_distinput.datasets._dataset import Dataset, pop_pinned_epoch
from torch_distinput.distribute._distributed import empty_parts_of, native_of
from torch_distinput.distribute._empty_parts import EmptyParts
from torch_distinput.loader._config import LoaderConfig, accelerator_of
from torch_distinput.loader._observers import Observer
from torch_distinput.loader.orders._order import Start
from torch_distinput.loader.paths._batches import DeviceMover, repeated, without_rows
from torch_distinput.loader.paths._iterators import profiler_enabled
from torch_distinput.loader.ranks._feed import Feed
from torch_distinput.loader.state._place import described_iterator
from torch_distinput.loader.state._position import batches_of
from torch_distinput.loader.state._progress import Progress
from torch_distinput.observe._stats import Stats
from torch_distinput.recognize._stateful import Taken

_TWO_DATASETS = ("dataset", "pipeline", "length", "content", "type of the elements")


class StepPosition:
    """The position of an iterator of steps; it outlives the iterator. `native`: returns the native iterator's position.
    `total`: returns the steps of an epoch. `order`: see `order_of`. `start`: where the iterator began."""

    native: Callable[[], Any]
    total: Callable[[], int | None] = staticmethod(lambda: None)

    def __init__(self, start: Start, kind: str, order: dict[str, Any]):
        self.start, self._kind, self._order = start, kind, order
        self.finished = False
        self.yielded = 0

    @property
    def num_batches(self) -> int | None:
        """The steps of this epoch; None if unknown."""
        return batches_of(self.total(), self.start.state)

    def state(self) -> dict[str, Any]:
        """The position after the step last yielded, as plain values."""
        native = self.native()
        seed = native.get("seed")
        return {
            "epoch": self.start.epoch,
            "finished": self.finished,
            "batches": self.start.batches + self.yielded,
            "num_batches": self.num_batches,
            "seed": None if seed is None else seed % 2**64,
            "kind": self._kind,
            "distributed": native,
            **self._order,
        }


class Steps:
    """An iterator over the steps of this rank. All ranks have the same number of steps."""

    _workers: Any = ()

    def __init__(self, config: LoaderConfig, progress: Progress, feed: Feed, observer: Observer | None):
        self._config, self._progress, self._feed, self._observer = config, progress, feed, observer
        plan = self._plan = feed.plan(config)
        if plan.dataset is not None:
            empty_parts_of(plan.dataset).at_start(native_of(plan.dataset), stacklevel=5)
        self._with_info = config.with_info
        self._pin = config.pin_memory and torch.accelerator.is_available()
        self._profile_name = f"enumerate(DataLoader)#{type(self).__name__}.__next__"
        with self._progress.opening(config):
            self._start: Start = self._progress.start
            epoch = pop_pinned_epoch(config.dataset) if isinstance(config.dataset, Dataset) else None
            if epoch is not None:
                self._start.epoch = self._progress.epoch = epoch
            self._position = StepPosition(self._start, plan.kind, plan.order)
            if plan.dataset is not None:
                assigned = native_of(plan.dataset)
                self._position.total = lambda: assigned.num_steps
            if self._start.state is not None:
                feed.check_kind(config, self._start.state["kind"])
            self._native = self._open()
            self._empty_parts = (
                EmptyParts(config.tail, given=True) if plan.dataset is None else empty_parts_of(plan.dataset)
            )
            if config.skip:
                self._pass_over(config.skip)
            self._progress.attach(self, self._position)

    def __iter__(self) -> Steps:
        return self

    def __len__(self) -> int:
        return self._feed.length(self._config)

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")

    def __next__(self) -> Any:
        if profiler_enabled():
            with record_function(self._profile_name):
                return self._next_step()
        return self._next_step()

    def _next_step(self) -> Any:
        if self._progress.pinned is not None and not self._position.yielded:
            self._follow_pinned_epoch()
        try:
            step = self._take()
        except _C.DistributedDatasetError as error:
            raise explained(error) from error
        if step is None:
            self._finish()
            raise StopIteration
        batch, info = step
        self._progress.used, self._progress.info = True, info
        self._position.yielded += 1
        self._empty_parts.after_step(info, stacklevel=3)
        if self._observer is not None:
            self._observer.step(info)
        return (batch, info) if self._with_info else batch

    def _follow_pinned_epoch(self) -> None:
        """Begins the epoch that `set_epoch` pinned after this iterator was made and before its first step."""
        progress = self._progress
        if progress.position is not self._position:
            return
        epoch, progress.pinned = progress.pinned, None
        assert epoch is not None, "checked by the caller"
        if epoch == self._start.epoch:
            return
        seed = self._position.native().get("seed")
        self._native.close()
        progress.seed = progress.seed if seed is None else seed % 2**64
        progress.epoch, progress.start = epoch, Start(epoch)
        self._start = self._position.start = progress.start
        self._native = self._open()

    def _finish(self) -> None:
        self._position.finished = True
        if self._observer is not None:
            self._observer.end()

    def _open(self) -> _C.DistributedIterator:
        # Without a seed of the user's, the seed of a loaded state decides the order of all later epochs.
        seed = self._progress.seed if self._config.seed is None else None
        assert self._plan.dataset is not None, "only a stream has none"
        by_number = self._skip_is_arithmetic()
        if by_number and seed is None and self._config.seed is None:
            seed = 0  # nothing is random, but positions hold a seed that ranks have agreed on
        native = native_of(self._plan.dataset).iterate(epoch=self._start.epoch, seed=seed, facts=self._plan.facts)
        if self._start.state is not None:
            native.load_state_dict(self._start.state["distributed"])
        if by_number:
            native.load_state_dict(native.state_at(min(self._config.skip, len(self._plan.dataset))))
        self._position.native = native.state_dict
        return native

    def _skip_is_arithmetic(self) -> bool:
        """Whether the position after skipped steps follows from their number. An order without a seed does not exist
        before the first step."""
        config = self._config
        if not config.skip or self._plan.dataset is None or isinstance(config.dataset, Dataset):
            return False
        return not config.is_random or config.seed is not None or self._progress.seed is not None

    def _pass_over(self, steps: int) -> None:
        """Goes to the position after the first `steps` steps of the epoch, also after a state was loaded."""
        if not self._skip_is_arithmetic():
            if self._start.batches > steps:
                raise ValueError(
                    f"skip_first_batches: `num_batches` must be at least {self._start.batches}, where the loaded state "
                    f"stands, because this data cannot be read backwards, but is {steps}."
                )
            for _ in range(steps - self._start.batches):
                if self._take() is None:
                    break
        self._start.batches, self._progress.used = steps, True

    def _take(self) -> tuple[Any, _C.StepInfo] | None:
        step = self._native.next(None)
        if step is None:
            return None
        batch, info = step
        if self._plan.convert is not None:
            batch = self._plan.convert(batch)
        return (pin_memory(batch) if self._pin else batch), info

    def __repr__(self) -> str:
        found = self.__dict__
        kind = f"distributed, {getattr(found.get('_plan'), 'kind', 'unknown')}"
        return described_iterator(self, kind, found.get("_start"), found.get("_position"))

    def stats(self) -> Stats:
        """What this iterator has counted."""
        return self._native.stats()

    def close(self) -> None:
        """Ends the iteration, and reports that to the other ranks."""
        self._let_go()

    def _let_go(self) -> None:
        if self._observer is not None:
            self._observer.end()
        self._position.native = Taken(self._position.native())
        self._native.close()
        self._progress.keep_stats(self._position, self.stats())

    def __del__(self) -> None:
        # The iterator may be half made or a forked child's copy, or the interpreter may be exiting.
        with contextlib.suppress(Exception):
            self._let_go()


class PythonSteps(Steps):
    """Steps whose batches an inner loader makes: zero-row parts, padding, copies to the device."""

    _last: Any = None

    def _dummy(self, rows: int) -> Any:
        """The batch for a step in which this rank has no rows: `rows` rows of padding."""
        if self._last is None:
            self._last = self._example()
        return self._moved(repeated(self._last, rows) if rows else without_rows(self._last))

    def _example(self) -> Any:
        """A batch to cut rows from, for a rank that has had none."""
        raise NotImplementedError

    def _kept(self, batch: Any) -> Any:
        self._last = batch
        return self._moved(batch)

    @functools.cached_property
    def _moved(self) -> DeviceMover:
        return DeviceMover(accelerator_of(self._config.device))

    def close(self) -> None:
        super().close()
        self._plan.inner.close()


def explained(error: _C.DistributedDatasetError) -> _C.DistributedDatasetError:
    """`error`, with advice if ranks passed different datasets."""
    if error.disagreed_on not in _TWO_DATASETS:
        return error
    advised = _C.DistributedDatasetError(
        "DataLoader: each rank passed another dataset: pass the whole one on every rank, or leave `distributed=None`. "
        f"{error}"
    )
    advised.disagreed_on = error.disagreed_on
    return advised
