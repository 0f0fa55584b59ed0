# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The iterators of a DataLoader: the common base, and the two whose rows Python makes.

They are torch's own iterators with three changes: the same indices with the same draws are made faster; profiling costs
nothing unless a profiler runs; and they know their position.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.profiler import record_function
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.dataloader import (
    _BaseDataLoaderIter,
    _DatasetKind,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)

from torch_distinput import _C
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.loader._batches import DeviceMover, accelerator_of
from torch_distinput.loader._clock import CallTimes
from torch_distinput.loader.state._order import Start, open_indices, peek_seed
from torch_distinput.loader.state._position import Position
from torch_distinput.loader.state._stateful import has_state
from torch_distinput.loader.workers._pool import WorkerPool
from torch_distinput.loader.workers._process import collate_into_message
from torch_distinput.loader.workers._states import View, WorkerStates
from torch_distinput.observe._stats import Stats
from torch_distinput.recognize._collation import is_stock_collate

if TYPE_CHECKING:
    from torch_distinput.loader._data_loader import DataLoader

profiler_enabled = torch.autograd._profiler_enabled


class LoaderIter(_BaseDataLoaderIter):
    """The base of the iterators of all paths: the order of the epoch and the position in it."""

    _workers: Any = ()
    _base_seed: int

    def __init__(self, loader: DataLoader):
        self._seed = loader._loader_config.seed
        self._device = accelerator_of(loader._loader_config.device)
        self._begin(loader)
        super().__init__(loader)
        if self._start.base_seed is not None:
            self._base_seed = self._start.base_seed
        if self._num_workers > 0:
            self._position.base_seed = self._base_seed
        self._draws.opened(loader)
        self._draws.note(self._start)
        self._open_order()

    def __next__(self) -> Any:
        self._times.begin()
        try:
            if self._dataset_kind == _DatasetKind.Iterable:
                data = super().__next__()  # torch's, which warns where a dataset is longer than its `len`
            elif profiler_enabled():
                with record_function(self._profile_name):
                    data = self._next_data()
                self._num_yielded += 1
            else:
                data = self._next_data()
                self._num_yielded += 1
        except StopIteration:
            self._position.finished = True
            raise
        except Exception:
            self._position.passed()
            raise
        self._memory.used = True
        self._position.handed_out()
        if self._device is not None:
            data = self._moved(data)
        self._times.end()
        return data

    def _moved(self, batch: Any) -> Any:
        """`batch`, which Python made, on the loader's device."""
        return batch if self._mover is None else self._mover(batch)

    @functools.cached_property
    def _mover(self) -> DeviceMover | None:
        return None if self._device is None else DeviceMover(self._device)

    def _next_index(self) -> Any:
        index = next(self._sampler_iter)
        self._position.pulled(index)
        return index

    def _reset(self, loader: DataLoader, first_iter: bool = False) -> None:
        if first_iter:
            super()._reset(loader, first_iter)
            self._open_order()
            return
        with loader._memory.opening(loader):
            self._begin(loader)
            self._position.reused = True
            super()._reset(loader, first_iter)
            self._draws.note(self._start)
            self._open_order()

    def _begin(self, loader: DataLoader) -> None:
        memory = self._memory = loader._memory
        self._num_yielded = 0
        self._times = CallTimes()
        self._start: Start = memory.start
        self._draws = memory.draws
        self._position = Position(loader, self._start, self._draws, reads_ahead=loader.num_workers > 0)
        self._position.seed = None if self._seed is None else self._seed % 2**64
        memory.attach(self, self._position)

    def _open_order(self) -> None:
        if self._dataset_kind == _DatasetKind.Map:
            if self._start.reuses:
                self._draws.restore(self._start.begin)
                self._sampler_iter = iter(self._index_sampler)
            self._sampler_iter = open_indices(
                self._index_sampler, self._sampler_iter, self._start, self._draws, self._seed
            )

    def stats(self) -> Stats:
        """What this iterator has counted. Python makes the batches, so that all of the wait is Python's work."""
        times = self._times.fields()
        return Stats(batches=self._num_yielded, rows=None, bytes=None, python_seconds=times["wait_seconds"], **times)

    def close(self) -> None:
        """Ends the iteration; the loader keeps its position."""
        self._let_go()
        self._sampler_iter = iter(())
        self._position = copy.copy(self._position)  # `next` marks the copy as finished, not the loader's position

    def _let_go(self) -> None:
        with contextlib.suppress(Exception):  # the iterator may be half made, or the interpreter may be exiting
            self._memory.keep_stats(self._position, self.stats())
            self._position.let_go()

    def __del__(self) -> None:
        self._let_go()


class CallerIter(_SingleProcessDataLoaderIter, LoaderIter):
    """Python makes the rows, in the caller's thread, at the time of the request."""

    def __init__(self, loader: DataLoader):
        super().__init__(loader)
        if self._dataset_kind == _DatasetKind.Iterable:
            self._open_stream(loader)
        elif not self._pin_memory and not self._position.follows_sampler:
            self._fetch_by(self._shorter(self._sampler_iter))

    def _open_stream(self, loader: DataLoader) -> None:
        fetcher = self._dataset_fetcher
        self._draws.before_first(self._start)
        if isinstance(loader.dataset, Dataset):
            self._position.seed = self._memory.seed_of(given_seed(loader), self._base_seed)
            fetcher.dataset_iter = loader.dataset._native.iterate(self._start.epoch, self._position.seed)
        self._position.follow(fetcher.dataset_iter)
        fetcher.ended = self._position.ended
        self._start.at_end = self._start.at_end and has_state(loader.dataset)

    def _next_data(self) -> Any:
        if self._dataset_kind == _DatasetKind.Map:
            return super()._next_data()
        try:
            return self._next_of_stream()
        except StopIteration:
            if not self._start.at_end:
                raise
        # That was the rest of the epoch before; the next one follows.
        self._dataset_fetcher = _DatasetKind.create_fetcher(
            self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn, self._drop_last
        )
        self._position.watch(self._dataset_fetcher.dataset_iter)
        self._start.at_end = False
        return self._next_of_stream()

    def _next_of_stream(self) -> Any:
        data = self._draws.call(super()._next_data, self._start)
        self._position.ended = self._dataset_fetcher.ended
        self._start.at_end = False
        return data

    def _shorter(self, indices: Iterator[Any]) -> Callable[[], Any]:
        """A function that does what `_next_data` does, in half the time."""
        rows, collate, fetch = None, self._collate_fn, self._dataset_fetcher.fetch
        if self._auto_collation:
            rows = getattr(self._dataset, "__getitems__", None)
        return (lambda: collate(rows(next(indices)))) if rows else (lambda: fetch(next(indices)))

    def close(self) -> None:
        super().close()
        self._fetch_by(self._sampler_iter.__next__)

    def _fetch_by(self, fetch: Callable[[], Any]) -> None:
        self._next_data = fetch  # type: ignore[method-assign]  # one call less for each batch


class WorkersIter(_MultiProcessingDataLoaderIter, LoaderIter):
    """Python makes the rows, in worker processes: of `pool`, or of torch's where it is None."""

    _pool: WorkerPool | None = None
    _pins_here = False  # batches lie in page-locked memory, except for what torch must put there

    def __init__(self, loader: DataLoader, pool: WorkerPool | None):
        start = loader._memory.start
        self._pool = pool
        view: Any = loader
        if pool is not None:
            view = View(view, multiprocessing_context=pool)
            if pool.page_locked:
                self._pins_here = loader.pin_memory
                view = View(view, pin_memory=False)
            if is_stock_collate(loader.collate_fn):
                view = View(view, collate_fn=collate_into_message)
            this = weakref.ref(self)
            pool.expects = lambda worker: (iterator := this()) is not None and iterator._workers_status[worker]
        self._states = WorkerStates(loader, start) if has_state(loader.dataset) else None
        self._passed_over = 0 if self._states is None else self._states.last + 1
        if self._states is not None:
            view = self._states.view(view)
        if isinstance(loader.dataset, Dataset):
            view = View(view, dataset=_for_workers(loader, start.epoch))
        super().__init__(view)
        if pool is not None:
            pool.started(self)
        self._skip_batches()

    def _begin(self, loader: DataLoader) -> None:
        super()._begin(loader)
        self._position.workers = self._states
        self._position.base_seed = getattr(self, "_base_seed", None)
        if isinstance(loader.dataset, Dataset):
            self._position.seed = self._memory.seed

    def _reset(self, loader: DataLoader, first_iter: bool = False) -> None:
        if not first_iter and self._states is not None:
            self._states.next_epoch()
        super()._reset(loader, first_iter)
        if not first_iter:
            self._skip_batches()

    def _try_put_index(self) -> None:
        for _ in range(self._passed_over):  # workers that made the batches before the position in this round
            next(self._worker_queue_idx_cycle)
        self._passed_over = 0
        super()._try_put_index()

    def _skip_batches(self) -> None:
        """Reads and drops the batches before the position: workers must read a stream without a state again."""
        if self._dataset_kind == _DatasetKind.Iterable and self._states is None:
            with contextlib.suppress(StopIteration):
                for _ in range(self._start.batches):
                    self._next_data()

    def _next_data(self) -> Any:
        if self._pool is not None:
            self._pool.check_owner()
        data = super()._next_data()
        if self._states is not None:
            data = self._states.unwrap(data)
        return pin_memory(data) if self._pins_here else data

    def close(self) -> None:
        super().close()
        self._shutdown_workers()

    def _shutdown_workers(self) -> None:
        if self._pool is None:
            super()._shutdown_workers()
        else:
            self._pool.shut_down(self)

    def __del__(self) -> None:
        self._let_go()
        super().__del__()


def given_seed(loader: DataLoader) -> int | None:
    """The seed that the user gave for those random ops of a dataset of this library that have none of their own."""
    return loader.dataset._native.options().seed if loader._loader_config.seed is None else loader._loader_config.seed


def _for_workers(loader: DataLoader, epoch: int) -> Dataset:
    """The dataset for workers, each of which reads its share: one seed for all, epochs counted from `epoch` on."""
    drawn = peek_seed(torch.default_generator if loader.generator is None else loader.generator)
    seed = loader._memory.seed_of(given_seed(loader), drawn)
    signed = seed if seed < 2**63 else seed - 2**64
    dataset = loader.dataset.with_options(_C.Options(seed=signed))
    dataset.set_epoch(epoch)
    return dataset
