# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Steps whose rows workers of an executor make. This process plans the steps, and has order, state and errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch_distinput import _C
from torch_distinput.distribute._planned_steps import PlannedSteps
from torch_distinput.loader.ranks._executed_rows import ExecutedBatches
from torch_distinput.loader.ranks._index_steps import IndexSteps
from torch_distinput.loader.ranks._sifted_steps import SiftedSteps
from torch_distinput.loader.ranks._steps import Steps
from torch_distinput.observe._stats import CallTimes, Stats, with_workers


class ExecutedSteps(Steps):
    """Steps of a pipeline of this library."""

    _reads_rows = False

    def _open(self) -> _C.DistributedIterator:
        native = super()._open()
        self._times = CallTimes()
        self._planned = PlannedSteps(native, self._feed.pool(self._config))
        self._position.native = self._planned.state_dict
        return native

    def _read_step(self) -> tuple[Any, _C.StepInfo] | None:
        self._times.begin()
        step = self._planned.next()
        if step is None:
            return None
        batch, info = self._moved(step[0]), step[1]
        self._times.end()
        return (batch if self._plan.convert is None else self._plan.convert(batch)), info

    def set_weights(self, weights: list[float], step: int | None) -> None:
        self._planned.set_weights(weights, step)

    def exclude(self, rows: list[int]) -> None:
        self._planned.exclude(rows)

    def stats(self) -> Stats:
        native, planned = self._native.stats(), self._planned
        counted = {"batches": self._position.yielded, "rows": planned.rows, "bytes": None}
        return with_workers(replace(native, **counted, **self._times.fields()), self._feed.workers_stats())


class CalledSteps(Steps):
    """Steps of a pipeline of this library that this process reads, and whose functions workers call."""

    def _open(self) -> _C.DistributedIterator:
        called = self._plan.called
        assert called is not None, "checked by the caller"
        called.open()
        return super()._open()

    def stats(self) -> Stats:
        return with_workers(super().stats(), self._feed.workers_stats())


class ExecutedIndexSteps(IndexSteps):
    """Steps of a map-style dataset that Python reads: its indices are the requests."""

    def _inner_loader(self) -> Any:
        indices, epoch, queue = self._plan.indices, self._start.epoch, self._queue
        assert indices is not None, "the plan is of indices"
        return ExecutedBatches(indices, self._feed.pool(self._config), lambda: f"{queue.seed} {epoch}")

    def stats(self) -> Stats:
        return with_workers(super().stats(), self._feed.workers_stats())


class ExecutedSiftedSteps(ExecutedIndexSteps, SiftedSteps):
    """`ExecutedIndexSteps` that leave out rows that fail."""
