# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Steps of a map-style dataset whose rows may fail: the strategy assigns indices, and the ranks agree on the rows that
are left."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from torch_distinput import _C
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.distribute._distributed import native_of
from torch_distinput.distribute._input_options import InputOptions
from torch_distinput.loader.ranks._index_steps import IndexSteps
from torch_distinput.recognize._fetch import Sifted, Sifting
from torch_distinput.recognize._stateful import Taken

_COUNTS = _C.TensorSpec([None], torch.int8)  # as many entries as rows


class _Loaded(NamedTuple):
    """A step whose rows were loaded: what is left of them, what was planned, and the position after it."""

    sifted: Sifted
    planned: _C.StepInfo
    after: Any


class SiftedSteps(IndexSteps):
    """Steps of the rows that do not fail. How many of a step are left is known when they were loaded, so the ranks
    exchange the numbers, as those of streams of their own."""

    _agreed: _C.DistributedIterator | None = None

    def _open(self) -> _C.DistributedIterator:
        native = super()._open()
        self._open_exchange()
        return native

    def exclude(self, rows: list[int]) -> None:
        super().exclude(rows)
        self._open_exchange()  # whose next step was loaded with the rows

    def _open_exchange(self) -> None:
        if self._agreed is not None:
            self._agreed.close()
        self._loaded: collections.deque[_Loaded] = collections.deque()
        counts = Dataset(_C.Dataset.from_generator(self._counts, _COUNTS, "DataLoader", lists_are_structure=False))
        options = InputOptions(
            per_replica_buffer_size=0,  # in the caller's thread, where the inner loader is read
            tail="zero_rows",
            peer_timeout=self._config.peer_timeout,
            host_timeout=self._config.host_timeout,
        )
        strategy = self._feed.strategy(self._config)
        assigned = strategy.distribute_datasets_from_function(lambda context: counts, options)
        self._agreed = native_of(assigned).iterate(epoch=self._start.epoch)

    def _counts(self) -> Iterator[torch.Tensor]:
        """The rows that are left of each step of this rank, one step at a time."""
        while self._queue.pulled or self._queue.pull() or self._goes_on():
            rows, planned, after = self._queue.pulled.popleft()
            sifted = self._load() if rows else Sifted(None, 0, ())
            self._loaded.append(_Loaded(sifted, planned, after))
            yield torch.zeros(sifted.rows, dtype=torch.int8)

    def _take(self) -> tuple[Any, _C.StepInfo] | None:
        assert self._agreed is not None, "set by _open"
        self._times.begin()
        step = self._agreed.next(None)
        if step is None:
            return None
        _, left = step
        sifted, planned, after = self._loaded.popleft()
        self._position.native = Taken(after)
        self._delivered += 1
        self._progress.failed.add(sifted.failures, planned.global_valid - left.global_valid)
        batch = self._moved(self._kept(sifted.batch) if sifted.rows else self._dummy(0))
        self._times.end()
        return batch, _C.StepInfo(
            planned.epoch,
            planned.step,
            planned.row_start,
            left.valid,
            left.global_valid,
            left.num_replicas,
            left.loss_scale,
            planned.is_last,
            tuple(rows > 0 for rows in left.valid),
        )

    def leave(self) -> None:
        super().leave()
        if self._agreed is not None:
            self._agreed.close()

    def _example(self) -> Any:
        rows = [[row] for row in range(len(self._config.dataset))]
        collate_fn = Sifting(self._config.collate_fn)
        for sifted in self._feed.plain(self._config, batch_sampler=rows, num_workers=0, collate_fn=collate_fn):
            if sifted.rows:
                return sifted.batch
        raise ValueError("DataLoader: no row of the dataset can be read, so that a batch without rows cannot be made.")
