# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The iterators of a DataLoader: what all share, and the two whose rows Python makes.

They are torch's own iterators with three things changed: indices come in the same order with the same draws, but
faster; a profiler costs nothing unless one runs; and they know their position.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.profiler import record_function
from torch.utils.data.dataloader import (
    _BaseDataLoaderIter,
    _DatasetKind,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)

from torch_distinput.loader.batches import DeviceMover, accelerator_of
from torch_distinput.loader.order import Start, open_indices
from torch_distinput.loader.position import Position
from torch_distinput.loader.worker_states import WorkerStates

if TYPE_CHECKING:
    from torch_distinput.data_loader import DataLoader

profiler_enabled = torch.autograd._profiler_enabled


class LoaderIter(_BaseDataLoaderIter):
    """What the iterators of all lanes share: the order of the epoch and the position in it."""

    _workers: Any = ()

    def __init__(self, loader: DataLoader):
        self._memory = loader._memory
        self._seed = loader.seed
        self._device = accelerator_of(loader.device)
        self._begin(loader)
        super().__init__(loader)
        self._open_order()

    def __next__(self) -> Any:
        try:
            if self._dataset_kind == _DatasetKind.Iterable:
                data = super().__next__()  # warns where a dataset is longer than its length
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
        self._memory.used = True
        if self._position.sampler is not None:
            self._position.handed_out()
        return data if self._device is None else self._moved(data)

    def _moved(self, batch: Any) -> Any:
        """`batch`, which Python made, where the loader's batches arrive."""
        return batch if self._device is None else self._mover(batch)

    @functools.cached_property
    def _mover(self) -> DeviceMover:
        return DeviceMover(self._device)

    def _next_index(self) -> Any:
        index = next(self._sampler_iter)
        if self._position.sampler is not None:
            self._position.pulled(index)
        return index

    def _reset(self, loader: DataLoader, first_iter: bool = False) -> None:
        if not first_iter:
            self._begin(loader)
        super()._reset(loader, first_iter)
        self._open_order()

    def _begin(self, loader: DataLoader) -> None:
        self._num_yielded = 0
        self._start: Start = loader._memory.begin(loader, self)
        self._position = Position(loader, self._start)

    def _open_order(self) -> None:
        if self._dataset_kind == _DatasetKind.Map:
            self._sampler_iter = open_indices(self._index_sampler, self._sampler_iter, self._start, self._seed)

    def state(self) -> dict[str, Any]:
        """The position after the batch last handed out."""
        return self._position.state(self._num_yielded)

    def stats(self) -> dict[str, Any]:
        """Counters of this iterator."""
        return {"batches": self._num_yielded}

    def close(self) -> None:
        """Ends the iteration."""
        self._remember()
        self._sampler_iter = iter(())

    def _remember(self) -> None:
        """Leaves the position to the loader, whose iterator is about to go."""
        with contextlib.suppress(Exception):  # half made, or the interpreter is going too
            self._memory.leave(self)

    def __del__(self) -> None:
        self._remember()


class CallerIter(_SingleProcessDataLoaderIter, LoaderIter):
    """Python makes the rows, in the caller's thread, when they are asked for."""

    def __init__(self, loader: DataLoader):
        super().__init__(loader)
        if self._dataset_kind == _DatasetKind.Iterable:
            self._position.follow(self._dataset_fetcher)
        elif not self._pin_memory and self._position.sampler is None:
            self._next_data = self._shorter(self._sampler_iter)

    def _shorter(self, indices: Iterator[Any]) -> Callable[[], Any]:
        """What `_next_data` does, in half the time."""
        rows, collate, fetch = None, self._collate_fn, self._dataset_fetcher.fetch
        if self._auto_collation:
            rows = getattr(self._dataset, "__getitems__", None)
        return (lambda: collate(rows(next(indices)))) if rows else (lambda: fetch(next(indices)))

    def close(self) -> None:
        super().close()
        self._next_data = self._sampler_iter.__next__


class WorkersIter(_MultiProcessingDataLoaderIter, LoaderIter):
    """Python makes the rows, in torch's worker processes."""

    def __init__(self, loader: DataLoader):
        self._states = WorkerStates.of(loader)
        self._passed_over = 0 if self._states is None else self._states.last + 1
        super().__init__(loader if self._states is None else self._states.view(loader))
        self._skip_batches()

    def _reset(self, loader: DataLoader, first_iter: bool = False) -> None:
        super()._reset(loader, first_iter)
        if not first_iter:
            self._skip_batches()

    def state(self) -> dict[str, Any]:
        states = None if self._states is None else self._states.state()
        return super().state() | {"dataset": None, "workers": states}

    def _try_put_index(self) -> None:
        for _ in range(self._passed_over):  # the workers whose turn it was before the position
            next(self._worker_queue_idx_cycle)
        self._passed_over = 0
        super()._try_put_index()

    def _skip_batches(self) -> None:
        """Workers read a stream again that cannot be told where to start."""
        if self._dataset_kind == _DatasetKind.Iterable and self._states is None:
            for _ in range(self._start.batches):
                self._next_data()

    def _next_data(self) -> Any:
        data = super()._next_data()
        return data if self._states is None else self._states.unwrap(data)

    def close(self) -> None:
        super().close()
        self._shutdown_workers()

    def __del__(self) -> None:
        self._remember()
        super().__del__()
