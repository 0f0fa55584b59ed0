# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The iterators of a DataLoader: the common base, and the two whose rows Python makes.

They are torch's own iterators with three changes: the same indices with the same draws are made faster; profiling costs
nothing unless a profiler runs; and they know their position.
"""

import contextlib
import copy
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, cast

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
from torch_distinput.base._device_mover import DeviceMover
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.loader._config import LoaderConfig, accelerator_of
from torch_distinput.loader.orders._order import Start, open_indices, peek_seed
from torch_distinput.loader.paths._batches import rows_of
from torch_distinput.loader.paths._byte_budget import ByteBudget
from torch_distinput.loader.state._place import described_iterator
from torch_distinput.loader.state._position import Position
from torch_distinput.loader.state._progress import Progress
from torch_distinput.loader.state._step_log import StepLog
from torch_distinput.loader.workers import _child_signals as child_signals
from torch_distinput.loader.workers._memory import MemoryOfWorkers
from torch_distinput.loader.workers._pool import WorkerPool
from torch_distinput.loader.workers._process import collate_into_message
from torch_distinput.loader.workers._states import WorkerStates
from torch_distinput.observe._stats import CallTimes, Stats
from torch_distinput.ops._base import native_of
from torch_distinput.recognize._collation import is_stock_collate
from torch_distinput.recognize._fetch import NamingFetcher, Sifted, Sifting
from torch_distinput.recognize._stateful import has_state

profiler_enabled = torch.autograd._profiler_enabled


class LoaderIter(_BaseDataLoaderIter):
    """The base of the iterators of all paths: the order of the epoch and the position in it."""

    _workers: Any = ()
    _base_seed: int
    _log: StepLog | None = None  # of a stream
    _most_rows: int | None = None  # of its batches; None: each is one element
    _sends_memory = False  # workers get indices as memory, and make lists of them
    _progress: Progress  # set before `__init__`, which torch's classes call with the loader alone

    def __init__(self, config: LoaderConfig):
        self._seed = config.seed
        self._device = accelerator_of(config.device)
        self._moved = DeviceMover(self._device)  # for batches that Python made
        self._begin(config)
        super().__init__(cast(Any, config))
        if self._start.base_seed is not None:
            self._base_seed = self._start.base_seed
        if self._num_workers > 0:
            self._position.base_seed = self._base_seed
        self._draws.opened(config)
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
        self._progress.used = True
        self._position.handed_out()
        if self._log is not None:
            rows = 1 if self._most_rows is None else min(self._most_rows, rows_of(data))
            self._progress.logs.add(self._log, rows)
        data = self._moved(data)
        self._times.end()
        return data

    def pass_over(self) -> None:
        """Lets workers pass over the batches that they have not begun. Only the next epoch can follow."""

    def _next_index(self) -> Any:
        index = next(self._sampler_iter)
        self._position.pulled(index)
        return index

    def _reset(self, config: Any, first_iter: bool = False) -> None:
        if first_iter:
            super()._reset(config, first_iter)
            self._open_order()
            return
        with self._progress.opening(config):
            self._begin(config)
            self._position.reused = True
            super()._reset(config, first_iter)
            self._draws.note(self._start)
            self._open_order()

    def _begin(self, config: LoaderConfig) -> None:
        self._num_yielded = 0
        self._times = CallTimes()
        self._start: Start = self._progress.start
        self._draws = self._progress.draws
        self._position = Position(config, self._start, self._draws, reads_ahead=config.num_workers > 0)
        self._position.seed = None if self._seed is None else self._seed % 2**64
        self._progress.attach(self, self._position)

    def _begin_log(self, config: LoaderConfig) -> None:
        """Begins to keep which rows of a stream are in which batch."""
        self._most_rows = config.batch_size if config.auto_collation else None
        self._log = self._progress.logs.begin(self._start.epoch, self._start.batches, self._start.rows)

    def _open_order(self) -> None:
        if self._dataset_kind == _DatasetKind.Map:
            if self._start.reuses:
                self._draws.restore(self._start.begin)
                self._sampler_iter = iter(self._index_sampler)
            self._sampler_iter = open_indices(
                self._index_sampler, self._sampler_iter, self._start, self._draws, self._seed, self._sends_memory
            )

    def stats(self) -> Stats:
        """What this iterator has counted. Python makes the batches, so the whole wait is Python's."""
        times = self._times.fields()
        return Stats(batches=self._num_yielded, rows=None, bytes=None, python_seconds=times["wait_seconds"], **times)

    def __repr__(self) -> str:
        found = self.__dict__
        return described_iterator(self, self._path(), found.get("_start"), found.get("_position"))

    def _path(self) -> str:
        """Who makes the batches."""
        return "Python in the caller's thread"

    def finish(self) -> None:
        """Ends the epoch, even if batches are left."""
        self._position.finished = True

    def close(self) -> None:
        """Ends the iteration; the loader keeps its position."""
        self._let_go()
        self._sampler_iter = iter(())
        self._position = copy.copy(self._position)  # `next` marks the copy as finished, not the loader's position

    def _let_go(self) -> None:
        try:  # not `suppress`: at the interpreter's exit, names of modules are gone
            self._progress.keep_stats(self._position, self.stats())
            self._position.let_go()
        except Exception:  # noqa: BLE001 - the iterator may be half made, or the interpreter exiting
            pass

    def __del__(self) -> None:
        self._let_go()


class CallerIter(_SingleProcessDataLoaderIter, LoaderIter):
    """Python makes the rows, in the caller's thread, at the time of the request."""

    def __init__(self, config: LoaderConfig, progress: Progress):
        self._progress = progress
        super().__init__(cast(Any, config))
        if self._dataset_kind == _DatasetKind.Iterable:
            self._open_stream(config)
            return
        collate_fn = Sifting(config.collate_fn) if config.skips_rows else config.collate_fn
        self._dataset_fetcher = NamingFetcher(self._dataset, self._auto_collation, collate_fn, self._drop_last)
        if not self._pin_memory and not self._position.follows_sampler:
            self._fetch_by(self._shorter(self._sampler_iter))

    def _open_stream(self, config: LoaderConfig) -> None:
        self._begin_log(config)
        fetcher = self._dataset_fetcher
        self._draws.before_first(self._start)
        if isinstance(config.dataset, Dataset):
            self._position.seed = self._progress.seed_of(given_seed(config), self._base_seed)
            fetcher.dataset_iter = native_of(config.dataset).iterate(self._start.epoch, self._position.seed)
        self._position.follow(fetcher.dataset_iter)
        fetcher.ended = self._position.ended
        self._start.at_end = self._start.at_end and has_state(config.dataset)

    def _next_data(self) -> Any:
        if self._dataset_kind == _DatasetKind.Map:
            return super()._next_data()
        try:
            return self._next_of_stream()
        except StopIteration:
            if not self._start.at_end:
                raise
        # The rest of the saved epoch was empty: the next epoch follows.
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
        """A function that does what `_next_data` does, in less time."""
        fetch = self._dataset_fetcher.fetch
        return lambda: fetch(next(indices))

    def close(self) -> None:
        super().close()
        self._fetch_by(self._sampler_iter.__next__)

    def _fetch_by(self, fetch: Callable[[], Any]) -> None:
        self._next_data = fetch  # type: ignore[method-assign]  # one call less for each batch


class WorkersIter(_MultiProcessingDataLoaderIter, LoaderIter):
    """Python makes the rows, in worker processes: those of `pool`, or of torch's pool if it is None."""

    _pool: WorkerPool | None = None
    _budget: ByteBudget | None = None
    _pins_here = False  # the pool's batches lie in page-locked memory; torch pins only the rest

    def __init__(self, config: LoaderConfig, progress: Progress, pool: WorkerPool | None):
        start, seen = progress.start, config  # `seen`: by torch's iterator
        self._pool = pool
        self._sends_memory = pool is not None
        if pool is not None:
            seen = replace(seen, multiprocessing_context=pool)
            if pool.page_locked:
                self._pins_here = config.pin_memory
                seen = replace(seen, pin_memory=False)
            if isinstance(config.collate_fn, Sifting):
                seen = replace(seen, collate_fn=config.collate_fn.collate_fn)
            if is_stock_collate(seen.collate_fn):
                seen = replace(seen, collate_fn=collate_into_message)
            this, pool.owner = weakref.ref(self), id(self)
            pool.expects = lambda worker: (iterator := this()) is not None and iterator._workers_status[worker]
        self._states = WorkerStates(config, start) if has_state(config.dataset) else None
        self._memory = MemoryOfWorkers()
        if config.prefetch_bytes is not None:
            all_tasks = config.num_workers * (config.prefetch_factor or 0)
            self._budget = ByteBudget(config.prefetch_bytes, config.num_workers, all_tasks)
        self._passed_over = 0 if self._states is None else self._states.last + 1
        if self._states is not None:
            if pool is not None and config.on_worker_death == "restart":
                pool.arrived = partial(_arrived, self._states)
                pool.resumed = partial(self._states.resumed_by_worker, seen)
            seen = self._states.seen_by_workers(seen)
        if config.skips_rows or isinstance(config.collate_fn, Sifting):
            seen = replace(seen, collate_fn=Sifting(seen.collate_fn))
        if isinstance(config.dataset, Dataset):
            seen = replace(seen, dataset=_for_workers(config, progress, start.epoch))
        self._progress = progress
        with child_signals.held:
            super().__init__(cast(Any, seen))
            if pool is not None:
                pool.started(self)
        self._skip_batches()

    def stats(self) -> Stats:
        processes = [worker.pid for worker in self._workers if worker.pid is not None]
        return replace(super().stats(), worker_bytes=self._memory.bytes(processes))

    def _path(self) -> str:
        return f"Python in {self.__dict__.get('_num_workers', 0)} workers"

    def _begin(self, config: LoaderConfig) -> None:
        super()._begin(config)
        self._position.workers = self._states
        self._position.base_seed = getattr(self, "_base_seed", None)
        if isinstance(config.dataset, Dataset):
            self._position.seed = self._progress.seed
        if config.is_stream:
            self._begin_log(config)

    def _reset(self, config: Any, first_iter: bool = False) -> None:
        if not first_iter and self._states is not None:
            self._states.next_epoch()
        super()._reset(config, first_iter)
        if not first_iter:
            if self._states is not None:
                self._states.next_epoch()  # results of the epoch before may have arrived
            self._skip_batches()

    def pass_over(self) -> None:
        if self._pool is not None:
            self._pool.pass_over()

    def _get_data(self) -> Any:
        try:
            return super()._get_data()
        except RuntimeError as error:
            if self._pool is not None:
                self._pool.explain(error)
            raise

    def _try_put_index(self) -> None:
        for _ in range(self._passed_over):  # workers that made this round's batches before the position
            next(self._worker_queue_idx_cycle)
        self._passed_over = 0
        if self._budget is None:
            super()._try_put_index()
            return
        sent = -1
        while self._tasks_outstanding < self._budget.tasks and sent != self._send_idx:
            sent = self._send_idx  # which stays if there is nothing to send
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
            data = self._unwrapped(data, self._states)
        if self._budget is not None:
            self._budget.note(data)
        return pin_memory(data) if self._pins_here else data

    def _unwrapped(self, data: Any, states: WorkerStates) -> Any:
        if not isinstance(data, Sifted):
            return states.unwrap(data)
        return Sifted(states.unwrap(data.batch), data.rows, data.failures) if data.rows else data

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


def _arrived(states: WorkerStates, data: Any) -> None:
    """Notes a result of a worker."""
    states.arrived(data.batch if isinstance(data, Sifted) else data)


class _LeavesOut:
    """Hands out the good rows of batches, and notes those that failed. A batch without good rows is passed over."""

    _progress: Progress

    def __next__(self) -> Any:
        while True:
            sifted: Sifted = super().__next__()  # type: ignore[misc]  # of an iterator
            self._progress.failed.add(sifted.failures)
            if sifted.rows:
                return sifted.batch


class SiftingCallerIter(_LeavesOut, CallerIter):
    """`CallerIter` that leaves out rows that fail."""


class SiftingWorkersIter(_LeavesOut, WorkersIter):
    """`WorkersIter` that leaves out rows that fail."""


def given_seed(config: LoaderConfig) -> int | None:
    """The user's seed for those random ops of a dataset of this library that have none of their own."""
    return native_of(config.dataset).options().seed if config.seed is None else config.seed


def _for_workers(config: LoaderConfig, progress: Progress, epoch: int) -> Dataset:
    """The dataset for workers, which read a share each: with one seed for all, epochs counted from `epoch` on."""
    drawn = peek_seed(torch.default_generator if config.generator is None else config.generator)
    seed = progress.seed_of(given_seed(config), drawn)
    signed = seed if seed < 2**63 else seed - 2**64
    dataset = config.dataset.with_options(_C.Options(seed=signed))
    dataset.set_epoch(epoch)
    return dataset
