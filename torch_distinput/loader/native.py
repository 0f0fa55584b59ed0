# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The iterators of the native lane: rows are copied by native threads, or natively in the caller's thread."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.profiler import record_function
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.dataloader import _DatasetKind

from torch_distinput import _C
from torch_distinput.dataset import Dataset
from torch_distinput.loader.collation import Convert, collated
from torch_distinput.loader.iterators import LoaderIter, profiler_enabled
from torch_distinput.loader.order import StockOrder, burn_permutation, drawn_generator, peek_seed
from torch_distinput.loader.sources import Source
from torch_distinput.strategy import OneDeviceStrategy

if TYPE_CHECKING:
    from torch_distinput.data_loader import DataLoader

IN_CALLERS_THREAD = _C.Options(num_threads=0, prefetch=0)


def options_of(loader: DataLoader) -> _C.Options:
    """Threads and read-ahead: with workers, so many threads and as many batches as torch would have on the way."""
    if loader.num_workers == 0:
        return _C.Options(prefetch_bytes=loader.prefetch_bytes)
    return _C.Options(
        num_threads=min(loader.num_workers, len(os.sched_getaffinity(0))),
        prefetch=loader.num_workers * loader.prefetch_factor,
        prefetch_bytes=loader.prefetch_bytes,
    )


class OnDevice:
    """Batches of a native pipeline as they arrive on an accelerator."""

    def __init__(self, batches: _C.Dataset, device: torch.device, epoch: int, seed: int | None):
        dealt = OneDeviceStrategy(device).distribute_dataset(Dataset(batches))
        self._native = dealt._native.iterate(epoch=epoch, seed=seed)
        self.state_dict, self.load_state_dict = self._native.state_dict, self._native.load_state_dict
        self.stats, self.close = self._native.stats, self._native.close

    def __next__(self) -> Any:
        step = self._native.next(None)
        if step is None:
            raise StopIteration
        return step[0]


def open_batches(
    batches: _C.Dataset, device: torch.device | None, epoch: int, seed: int | None = None, pin_memory: bool = False
) -> _C.DatasetIterator | OnDevice:
    """A cursor over `batches`, on `device` where that is an accelerator, else perhaps in page-locked memory."""
    if device is None:
        return batches.iterate(epoch=epoch, seed=seed, pin_memory=pin_memory)
    return OnDevice(batches, device, epoch, seed)


class NativeIter(LoaderIter):
    """Batches of a native pipeline. `_take` returns the next one; at first it opens the pipeline."""

    _convert: Convert = None
    _watched: tuple[torch.Tensor, ...] = ()
    _native: _C.DatasetIterator | OnDevice | None = None

    def __next__(self) -> Any:
        if profiler_enabled():
            with record_function(self._profile_name):
                return self._next_batch()
        return self._next_batch()

    def _next_batch(self) -> Any:
        if self._watched and self._versions() != self._seen:
            self._read_again()
        try:
            batch = self._take()
        except StopIteration:
            self._end()
            raise
        self._num_yielded += 1
        if self._convert is not None:
            batch = self._convert(batch)
        return pin_memory(batch, self._pin_memory_device) if self._pin_memory else batch

    def _opened(self, rows: _C.Dataset, epoch: int) -> _C.DatasetIterator | OnDevice:
        """A cursor over batches of rows, which are gathered where they have to be in the end."""
        return open_batches(rows, self._device, epoch, pin_memory=self._pin_memory)

    def _open_order(self) -> None:
        self._native = None
        self._take = self._open

    def _open(self) -> Any:
        """Opens the pipeline; its first batch."""
        raise NotImplementedError

    def _versions(self) -> int:
        return sum([tensor._version for tensor in self._watched])

    def _read_again(self) -> None:
        raise NotImplementedError

    def _end(self) -> None:
        self._position.finished = True

    def stats(self) -> dict[str, Any]:
        return super().stats() if self._native is None else self._native.stats()

    def close(self) -> None:
        super().close()
        if self._native is not None:
            self._native.close()
        self._take = self._sampler_iter.__next__

    def _shutdown_workers(self) -> None:
        """What torch's iterators with workers have."""
        self.close()


class RowsIter(NativeIter):
    """Rows of a map-style dataset in the order of torch's own samplers: in turn, or shuffled by a permutation that is
    computed, not stored."""

    def __init__(self, loader: DataLoader, source: Source, order: StockOrder):
        self._source, self._order = source, order
        self._convert = collated(source.spec)
        self._watched = source.watched
        self._ahead = source.steady or loader.num_workers > 0
        self._options = options_of(loader)
        super().__init__(loader)

    def _open_order(self) -> None:
        super()._open_order()
        self._permutation: int | None = None
        self._last = -1
        self._seen = self._versions()
        if self._num_workers > 0:
            self._draw()  # torch's workers are sent their first indices now

    def _draw(self) -> None:
        """Takes the draws that torch's RandomSampler takes."""
        order = self._order
        if not order.shuffle or self._permutation is not None:
            return
        if self._seed is not None:
            self._permutation = self._seed
        elif order.generator is None:
            self._permutation = drawn_generator(self._start).initial_seed()
        else:
            self._permutation = peek_seed(order.generator)
            burn_permutation(order.generator, order.size)
            left = order.size - self._start.rows
            if left > 0 and left % order.batch_size and not order.drop_last:
                self._last = -(-left // order.batch_size)

    def _open(self) -> Any:
        self._draw()
        rows = self._source.native
        if self._order.shuffle:
            rows = rows.shuffle(None, self._permutation, True)
        if self._start.rows:
            rows = rows.skip(self._start.rows)
        self._batches = rows.batch(self._order.batch_size, self._order.drop_last)
        self._epoch = self._start.epoch if self._seed is not None else 0
        if not self._ahead:
            self._take = self._next_alone
        else:
            self._native = self._opened(self._batches.with_options(self._options), self._epoch)
            self._take = self._native.__next__
        batch = self._take()
        self._memory.used = True
        return batch

    def _next_alone(self) -> Any:
        """The next batch, read now."""
        batch = self._batches.skip(self._num_yielded).take(1).with_options(IN_CALLERS_THREAD)
        return next(self._opened(batch, self._epoch))

    def _read_again(self) -> None:
        """The rows were written to: what was read ahead is stale, and will be from now on."""
        self._seen = self._versions()
        if self._native is not None:
            self._native.close()
            self._native = None
            self._take = self._next_alone

    def _next_batch(self) -> Any:
        batch = super()._next_batch()
        if self._num_yielded == self._last:
            burn_permutation(self._order.generator, self._order.size)
        return batch

    def _end(self) -> None:
        order = self._order
        if not self._position.finished and order.shuffle and order.generator is not None and self._seed is None:
            if self._last < 0:  # torch draws another order to find that it has ended
                burn_permutation(order.generator, order.size)
        super()._end()


class SampledRowsIter(NativeIter):
    """Rows of a map-style dataset at the indices of any sampler, copied in the caller's thread."""

    def __init__(self, loader: DataLoader, source: Source):
        self._source = source
        self._collated = collated(source.spec)
        # torch's workers are sent so many batches of indices at once.
        self._lead = loader.num_workers * (loader.prefetch_factor or 0)
        super().__init__(loader)
        self._fetcher = _DatasetKind.create_fetcher(
            self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn, self._drop_last
        )

    def _open_order(self) -> None:
        LoaderIter._open_order(self)
        self._take = self._next_rows
        self._indices: deque[Any] = deque()
        for _ in range(self._lead):
            self._pull()

    def _pull(self) -> None:
        with contextlib.suppress(StopIteration):
            self._indices.append(self._next_index())

    def _next_rows(self) -> Any:
        if self._lead:
            self._pull()
        indices = self._indices.popleft() if self._indices else self._next_index()
        try:
            chosen = torch.as_tensor(indices)
            if len(chosen) > 0:
                rows = self._source.native.select(chosen).batch(len(chosen)).with_options(IN_CALLERS_THREAD)
                batch = next(self._opened(rows, epoch=0))
                batch = batch if self._collated is None else self._collated(batch)
            else:
                batch = self._moved(self._fetcher.fetch(indices))
        except (IndexError, TypeError, ValueError, RuntimeError, OverflowError):
            # torch takes these indices, or says what is wrong with them.
            batch = self._moved(self._fetcher.fetch(indices))
        self._memory.used = True
        return batch


class PipelineIter(NativeIter):
    """A dataset of this library, batched by it."""

    def __init__(self, loader: DataLoader, batches: _C.Dataset, convert: Convert):
        self._batches = batches
        self._convert = convert
        super().__init__(loader)
        if self._memory.seed is None:
            # So that torch.manual_seed decides about shuffles without a seed, as it does about torch's.
            self._memory.seed = self._base_seed

    def _begin(self, loader: DataLoader) -> None:
        super()._begin(loader)
        epoch = loader.dataset._pop_pinned_epoch()
        if epoch is not None:
            self._start.epoch = self._memory.epoch = epoch

    def _open(self) -> Any:
        self._make_native()
        batch = self._take()
        self._memory.used = True
        return batch

    def _make_native(self) -> None:
        self._native = open_batches(self._batches, self._device, self._start.epoch, self._memory.seed)
        if self._start.state is not None:
            self._native.load_state_dict(self._start.state["native"])
        self._take = self._native.__next__

    def state(self) -> dict[str, Any]:
        if self._native is None:
            self._make_native()
        return super().state() | {"native": self._native.state_dict()}
