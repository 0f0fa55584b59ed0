# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The iterators of the native path: native code copies the rows, in threads of its own or in the caller's thread."""

import contextlib
import functools
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch.autograd.profiler import record_function
from torch.utils.data._utils.pin_memory import pin_memory

from torch_distinput import _C
from torch_distinput.datasets._dataset import Dataset, pop_pinned_epoch
from torch_distinput.distribute._distributed import native_of
from torch_distinput.distribute._strategy import OneDeviceStrategy
from torch_distinput.loader._config import LoaderConfig
from torch_distinput.loader.orders._order import (
    StockOrder,
    burn_permutation,
    checked_batch_size,
    draw_permutation,
    native_indices,
    permuted,
    stock_order,
)
from torch_distinput.loader.paths._batches import rows_of
from torch_distinput.loader.paths._iterators import LoaderIter, given_seed, profiler_enabled
from torch_distinput.loader.state._native_state import reads_in_order
from torch_distinput.loader.state._progress import Progress, excluded_in
from torch_distinput.loader.state._step_log import StepLog, StepLogs
from torch_distinput.observe._stats import Stats
from torch_distinput.recognize._collation import Convert, collated
from torch_distinput.recognize._live_rows import IN_CALLERS_THREAD, LiveRows
from torch_distinput.recognize._native_source import Source


def reads_ahead(config: LoaderConfig) -> bool:
    """Whether the user allowed reading ahead of data that can be written to."""
    return config.num_workers > 0 or config.prefetch_bytes is not None


def options_of(config: LoaderConfig) -> _C.Options:
    """Threads and read-ahead of a native pipeline: with workers, as many threads as workers (at most one a CPU), and as
    many batches ahead as torch's workers would have."""
    if config.num_workers == 0:
        return _C.Options(prefetch_bytes=config.prefetch_bytes)
    return _C.Options(
        num_threads=min(config.num_workers, _C.available_cpus()),
        prefetch=config.num_workers * (config.prefetch_factor or 0),
        prefetch_bytes=config.prefetch_bytes,
    )


def native_rows(
    config: LoaderConfig,
    source: Source,
    batch_size: int,
    drop_last: bool = False,
    *,
    shuffles: bool,
    permutation: int | torch.Tensor | None = None,
    begin: int | None = None,
) -> _C.Dataset:
    """Batches of the rows of `source`: in order, shuffled, or drawn by the weights of `config`. Rows are copied ahead
    if they cannot be written to or the user allowed it, else on request, in the caller's thread.

    Args:
        permutation: with `shuffles`: torch's, the seed of the native one, or None for the pipeline's seed. Of draws by
            weight: their seed.
        begin: the first row; None: all rows.
    """
    if config.weighted is not None:
        rows = source.ordered(lambda all_rows: config.weighted.of(all_rows, permutation))
    else:
        rows = permuted(source.native, permutation) if shuffles else source.native
    if begin is not None:
        rows = rows.skip(begin)
    options = options_of(config) if source.steady or reads_ahead(config) else IN_CALLERS_THREAD
    return rows.batch(batch_size, drop_last).with_options(options)


class OnDevice:
    """An iterator over the batches of a native pipeline that copies them to an accelerator."""

    # What is called when the last batch of an epoch that came over a network is taken.
    at_remote_end: weakref.WeakMethod[Callable[[], None]] | None = None

    def __init__(self, batches: _C.Dataset, device: torch.device, epoch: int, seed: int | None):
        assigned = OneDeviceStrategy(device).distribute_dataset(Dataset(batches))
        self._native, self._seed = native_of(assigned).iterate(epoch=epoch, seed=seed), seed
        self.state_dict, self.load_state_dict = self._native.state_dict, self._native.load_state_dict
        self.stats, self.close, self.set_weights = self._native.stats, self._native.close, self._native.set_weights
        self.exclude = self._native.exclude

    def __next__(self) -> Any:
        step = self._native.next(None)
        if step is None:
            raise StopIteration
        batch, info = step
        if info.is_last and self.at_remote_end is not None and self._native.is_remote:
            begin_next_epoch = self.at_remote_end()
            if begin_next_epoch is not None:
                begin_next_epoch()
        return batch

    def begin_reading(self) -> None:
        """As that of an iterator over batches on the CPU. REQUIRES: a seed. Copies to the device begin later."""
        assert self._seed is not None, "as the docstring says"
        self._native.begin_reading(self._seed)


def open_batches(
    batches: _C.Dataset, device: torch.device | None, epoch: int, seed: int | None = None, pin_memory: bool = False
) -> _C.DatasetIterator | OnDevice:
    """An iterator over `batches`: on the accelerator `device`, or, if that is None, on the CPU; `pin_memory`: there in
    page-locked memory."""
    if device is None:
        return batches.iterate(epoch=epoch, seed=seed, pin_memory=bool(pin_memory))
    return OnDevice(batches, device, epoch, seed)


class NativeIter(LoaderIter):
    """Batches of a native pipeline. `_take` returns the next one.

    Once a native iterator exists, its own method replaces `_take`: a bound method of this object would be a reference
    cycle, which only the garbage collector frees.
    """

    _convert: Convert = None
    _last = -1  # the number of the epoch's last batch, where the next epoch begins to be read when it is taken
    _native: _C.DatasetIterator | OnDevice | None = None

    def __init__(self, config: LoaderConfig, progress: Progress):
        self._progress = progress
        super().__init__(config)

    def __next__(self) -> Any:
        if self._native is None:
            return self._next_measured()
        if profiler_enabled():
            with record_function(self._profile_name):
                return self._next_batch()
        return self._next_batch()

    def _next_measured(self) -> Any:
        """The next batch, measured here, because no native iterator outlives a batch to measure itself."""
        self._times.begin()
        if profiler_enabled():
            with record_function(self._profile_name):
                batch = self._next_batch()
        else:
            batch = self._next_batch()
        self._times.end()
        return batch

    def _next_batch(self) -> Any:
        try:
            batch = self._take()
        except StopIteration:
            self._end()
            raise
        self._num_yielded += 1
        self._position.yielded = self._num_yielded
        if self._num_yielded == self._last:
            self._begin_next_epoch()
        if self._convert is not None:
            batch = self._convert(batch)
        on_host = self._device is None
        return pin_memory(batch, self._pin_memory_device) if self._pin_memory and on_host else batch

    def _opened(self, rows: _C.Dataset, source: Source | None, epoch: int = 0) -> _C.DatasetIterator | OnDevice:
        """An iterator over batches of rows of `source`, in the loader's memory: a device's, page-locked, or plain."""
        seed = None
        if source is not None and source.draws:
            # The loader's seed and epoch, or the seed that torch draws for each epoch's workers.
            self._position.base_seed = self._base_seed
            seed, epoch = (self._base_seed, 0) if self._seed is None else (self._seed, self._start.epoch)
            seed %= 2**64
        return open_batches(rows, self._device, epoch, seed, pin_memory=self._pin_memory)

    def _open_order(self) -> None:
        self._native = None
        self.__dict__.pop("_take", None)

    def _take(self) -> Any:
        return self._open()

    def _open(self) -> Any:
        """Opens the pipeline and returns its first batch."""
        raise NotImplementedError

    def _begin_next_epoch(self) -> None:
        raise NotImplementedError

    def _end(self) -> None:
        self._position.finished = True

    def _path(self) -> str:
        return "native"

    def stats(self) -> Stats:
        if self._native is None:
            times = self._times.fields()
            return Stats(batches=self._num_yielded, rows=None, bytes=None, build_seconds=times["wait_seconds"], **times)
        return replace(self._native.stats(), batches=self._num_yielded)

    def close(self) -> None:
        super().close()
        if self._native is not None:
            self._native.close()
        self._take_by(self._sampler_iter.__next__)

    def _take_by(self, take: Callable[[], Any]) -> None:
        self._take = take  # type: ignore[method-assign]  # as the class says

    def _shutdown_workers(self) -> None:
        """`close`, by torch's name on iterators with workers."""
        self.close()


class RowsIter(NativeIter):
    """Rows of a map-style dataset in the order of torch's own samplers: in sequence, or shuffled by a permutation that
    is computed, not stored.

    A new batch size, and new tensors or indices in the dataset, take effect at the next batch, as in torch.
    """

    def __init__(self, config: LoaderConfig, progress: Progress, source: Source, order: StockOrder):
        self._rows = LiveRows(config.dataset, config.collate_fn, source)
        self._order, self._config = order, config
        super().__init__(config, progress)

    def _open_order(self) -> None:
        super()._open_order()
        self._permutation: int | torch.Tensor | None = None
        self._owes_permutation = self._is_open = False
        self._indices: _C.DatasetIterator | None = None
        self._row = self._start.rows
        if self._num_workers > 0:
            self._draw()  # as torch, which now sends its workers their first indices

    def _draw(self) -> None:
        """Takes the same draws from the generators as torch's RandomSampler."""
        order = self._order
        if not order.shuffle or self._permutation is not None:
            return
        if self._seed is not None:
            self._draws.before_first(self._start)
            self._permutation = self._seed
            return
        self._permutation = draw_permutation(order, self._start, self._draws, self._config.order or "native")
        self._owes_permutation = order.generator is not None

    def _draw_end(self) -> None:
        """Takes the draws at an epoch's end, where torch's sampler draws another order and uses none of it."""
        generator = self._order.generator
        if self._owes_permutation and generator is not None:
            self._owes_permutation = False
            burn_permutation(generator, self._order.size)

    def _open(self) -> Any:
        self._order = stock_order(self._index_sampler) or self._order
        self._draw()
        self._open_rows()
        batch = self._take()
        self._progress.used = True
        return batch

    def _take(self) -> Any:
        return self._open() if self._indices is None else self._take_at(next(self._indices))

    def _open_rows(self) -> None:
        """Opens the rows from `_row` on: in one pipeline, or batch by batch where indices in the dataset may change."""
        source, order = self._rows.source, self._order
        epoch = self._start.epoch if self._seed is not None else 0
        changed = source is None or source.native.cardinality() != order.size
        if source is None or changed or not (source.choose is None or reads_ahead(self._config)):
            indices = native_indices(order, self._permutation, self._row).batch(order.batch_size, order.drop_last)
            self._indices = indices.with_options(IN_CALLERS_THREAD).iterate(epoch=epoch)
            self._convert = None
            self.__dict__.pop("_take", None)
        else:
            batches = native_rows(
                self._config,
                source,
                order.batch_size,
                order.drop_last,
                shuffles=order.shuffle,
                permutation=self._permutation,
                begin=self._row if self._row or source.draws else None,  # `skip` changes the numbers of random ops
            )
            self._native = self._opened(batches, source, epoch)
            self._convert = collated(source.spec)
            self._take_by(self._native.__next__)
        self._is_open = True

    def _take_at(self, indices: torch.Tensor) -> Any:
        batch = self._rows.batch(indices, lambda rows: self._opened(rows, self._rows.source))
        return self._moved(self._rows.batch_of_torch(indices)) if batch is None else batch

    def _follow_changes(self) -> None:
        order, size = self._order, self._index_sampler.batch_size
        changed = self._rows.look()
        if size != order.batch_size and not (order.drop_last and self._is_open):
            self._order = replace(order, batch_size=checked_batch_size(size))
            self._start.resized.append((self._num_yielded, self._row, size))
            changed = True
        if changed and self._is_open:
            if self._native is not None:
                self._native.close()
                self._native = None
            self._open_rows()

    def _next_batch(self) -> Any:
        self._follow_changes()
        batch = super()._next_batch()
        self._row += self._order.batch_size
        if self._row > self._order.size:
            self._draw_end()
        return batch

    def _end(self) -> None:
        self._is_open = False
        self._draw_end()
        super()._end()

    def close(self) -> None:
        self._is_open = False
        super().close()


class SampledRowsIter(NativeIter):
    """Rows of a map-style dataset at the indices of any sampler, copied in the caller's thread."""

    def __init__(self, config: LoaderConfig, progress: Progress, source: Source):
        self._rows = LiveRows(config.dataset, config.collate_fn, source)
        # As many batches of indices as torch sends to its workers at once.
        self._lead = config.num_workers * (config.prefetch_factor or 0)
        super().__init__(config, progress)

    def _open_order(self) -> None:
        LoaderIter._open_order(self)
        self._indices: deque[Any] = deque()
        for _ in range(self._lead):
            self._pull()

    def _pull(self) -> None:
        with contextlib.suppress(StopIteration):
            self._indices.append(self._next_index())

    def _take(self) -> Any:
        if self._lead:
            self._pull()
        indices = self._indices.popleft() if self._indices else self._next_index()
        try:
            batch = self._rows.batch(indices, lambda rows: self._opened(rows, self._rows.source))
            if batch is None:
                batch = self._moved(self._rows.batch_of_torch(indices))
        finally:  # the position moves past a batch that fails, as in torch
            self._position.passed()
        self._progress.used = True
        return batch


class PipelineIter(NativeIter):
    """Batches of a dataset of this library."""

    def __init__(self, config: LoaderConfig, progress: Progress, batches: _C.Dataset, convert: Convert):
        self._batches = batches
        self._convert = convert
        self._most_rows = config.batch_size if config.auto_collation else None
        self._made_with = (
            config.batch_size,
            config.drop_last,
            config.num_workers,
            config.prefetch_factor,
            config.prefetch_bytes,
            config.pin_memory,
        )
        super().__init__(config, progress)

    def _begin(self, config: LoaderConfig) -> None:
        epoch = pop_pinned_epoch(config.dataset)
        if epoch is not None:
            self._progress.start.epoch = self._progress.epoch = epoch
        super()._begin(config)
        self._given_seed = given_seed(config)

    def _open_order(self) -> None:
        super()._open_order()
        seed = self._position.seed = self._progress.seed_of(self._given_seed, self._base_seed)
        self._native = self._progress.next_epoch.take((self._made_with, self._start.epoch, seed))
        if self._native is None:
            self._native = open_batches(self._batches, self._device, self._start.epoch, seed)
        if self._start.state is not None:
            self._native.load_state_dict(self._start.state["native"])
        else:
            if self._progress.weights is not None:
                self._native.set_weights(self._progress.weights)
            if self._progress.excluded:
                self._native.load_state_dict(self._native.state_dict() | {"excluded": self._progress.excluded})
        self._position.native, self._position.total = self._native.state_dict, self._batches.cardinality
        if isinstance(self._native, OnDevice):
            self._native.at_remote_end = weakref.WeakMethod(self._begin_next_epoch)
        else:
            left = self._native.remote_elements_left()
            self._last = -1 if left is None else left

    def _begin_next_epoch(self) -> None:
        progress, epoch, seed = self._progress, self._start.epoch + 1, self._position.seed
        if not progress.may_read_after(self._position):
            return
        batches, device, pins = self._batches, self._device, bool(self._pin_memory)

        def begun() -> _C.DatasetIterator | OnDevice:
            native = open_batches(batches, device, epoch, seed, pins)
            native.begin_reading()
            return native

        progress.next_epoch.begin((self._made_with, epoch, seed), begun)

    def set_weights(self, weights: list[float], step: int | None) -> None:
        """As `DataLoader.set_weights`."""
        assert self._native is not None, "opened with the order"
        self._native.set_weights(weights, step)

    def exclude(self, rows: list[int]) -> None:
        """As `DataLoader.exclude`."""
        assert self._native is not None, "opened with the order"
        self._native.exclude(rows)

    def excluded(self) -> list[Any]:
        """The entries of the position for all that was excluded."""
        assert self._native is not None, "opened with the order"
        return excluded_in(self._native.state_dict())

    def _open(self) -> Any:
        assert self._native is not None, "opened with the order"
        self._take_by(self._native.__next__)
        batch = self._take()
        self._progress.used = True
        if reads_in_order(self._native.state_dict()):
            log = self._progress.logs.begin(self._start.epoch, self._start.batches, self._start.rows)
            note = functools.partial(_note_rows, self._progress.logs, log, self._most_rows)
            note(batch)
            self._take_by(_noting(self._native.__next__, note))
        return batch


def _note_rows(logs: StepLogs, log: StepLog, most: int | None, batch: Any) -> None:
    """Keeps which rows a batch of at most `most` rows has; `most` is None: it is an element, which counts as one."""
    logs.add(log, 1 if most is None else min(most, rows_of(batch)))


def _noting(take: Callable[[], Any], note: Callable[[Any], None]) -> Callable[[], Any]:
    def take_and_note() -> Any:
        batch = take()
        note(batch)
        return batch

    return take_and_note
