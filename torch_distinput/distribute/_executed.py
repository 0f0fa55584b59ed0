# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A distributed dataset whose rows workers of an executor make, and its iterator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from torch_distinput import _C
from torch_distinput.base._device_mover import DeviceMover
from torch_distinput.base._structure import map_leaves
from torch_distinput.distribute._base_strategy import Strategy
from torch_distinput.distribute._distributed import DistributedDataset, DistributedIterator, Optional
from torch_distinput.distribute._empty_parts import EmptyParts
from torch_distinput.distribute._executed_work import PipelineWork, per_replica
from torch_distinput.distribute._planned_steps import PlannedSteps
from torch_distinput.distribute._values import PerReplica
from torch_distinput.executors._pool import Pool
from torch_distinput.observe._explanation import Explanation
from torch_distinput.observe._stats import CallTimes, Stats, with_workers


class ExecutedDataset(DistributedDataset):
    """As `DistributedDataset`, whose rows are made by `work` and arrive on `devices`. Its iterators ask the same
    workers, one iterator after the other. Raises ValueError where the rows of a step are not known before they are
    read."""

    _pool: Pool | None = None

    def __init__(
        self,
        native: _C.DistributedDataset,
        strategy: Strategy,
        wraps: bool,
        empty_parts: EmptyParts,
        work: PipelineWork,
        devices: Sequence[torch.device],
    ):
        super().__init__(native, strategy, wraps, len(devices), empty_parts, work.dataset)
        self._work, self._options, self._devices = work, work.options, devices
        self._open()

    def _open(self) -> _C.DistributedIterator:
        try:
            return self._native.iterate(with_rows=False)
        except ValueError as error:
            raise ValueError(f"distribute_dataset: `executor` asks workers for parts of steps: {error}") from None

    def __iter__(self) -> ExecutedIterator:
        self._empty_parts.at_start(self._native, stacklevel=2)
        return ExecutedIterator(self._open(), self)

    def pool(self) -> Pool:
        """The workers."""
        if self._pool is None:
            executor, pipeline = self._options.executor, self._work.dataset
            assert executor is not None, "checked by the caller"
            engine = executor.open(self._work, for_devices=None not in self._copied_to)
            most = executor.most(engine, self._work.count)
            self._pool = Pool(engine, executor.min_workers, most, pipeline.options().prefetch_bytes)
        return self._pool

    def movers(self) -> list[DeviceMover]:
        """What brings the parts of the replicas to their devices."""
        return [*map(DeviceMover, self._copied_to)]

    @property
    def _copied_to(self) -> list[torch.device | None]:
        """For each replica, the device that its part is copied to; None: it stays in host memory."""
        fetches = self._options.fetch_to_device
        return [each if fetches and each.type != "cpu" else None for each in self._devices]

    def explain(self) -> Explanation:
        explained = super().explain()
        fact = f"executor: {self._options.executor}; this process plans the steps, and workers make their rows"
        return Explanation("distributed dataset", [*explained.facts, fact], explained.ops)


class ExecutedIterator(DistributedIterator):
    """As `DistributedIterator`."""

    def __init__(self, native: _C.DistributedIterator, dataset: ExecutedDataset):
        super().__init__(native, dataset)
        self._planned = PlannedSteps(native, dataset.pool())
        self._movers, self._pool = dataset.movers(), dataset.pool()
        self._times, self._steps = CallTimes(), 0

    def __next__(self) -> Any:
        self._check_frame("next(iterator)")
        found, step = self._take()
        if not found:
            raise StopIteration
        return step

    def get_next(self) -> Any:
        self._check_frame("iterator.get_next()")
        found, step = self._take()
        if not found:
            raise _C.OutOfRangeError("DistributedIterator.get_next: end of the data.")
        return step

    def get_next_as_optional(self) -> Optional:
        self._check_frame("iterator.get_next_as_optional()")
        return Optional(*self._take())

    def _take(self) -> tuple[bool, Any]:
        self._times.begin()
        step = self._planned.next()
        if step is None:
            return False, None
        value = self._on_devices(step[0])
        self._steps += 1
        self._times.end()
        return True, self._value((value, step[1]))

    def _on_devices(self, value: Any) -> Any:
        if self._wrap is None:
            return self._movers[0](value)
        value = per_replica(value)
        leaves: list[PerReplica] = []
        map_leaves(leaves.append, value)
        by_replica = zip(*(leaf.values for leaf in leaves), strict=True)
        moved = [mover(list(own)) for mover, own in zip(self._movers, by_replica)]
        arrived = iter(zip(*moved, strict=True))
        return map_leaves(lambda leaf: PerReplica(next(arrived)), value)

    def state_dict(self) -> dict[str, Any]:
        return self._planned.state_dict()

    def load_state_dict(self, state: dict[str, Any] | list[dict[str, Any]]) -> None:
        self._planned.load_state_dict(state)
        self._step_info = None

    def stats(self) -> Stats:
        counted = {"batches": self._steps, "rows": self._planned.rows, "bytes": None}
        return with_workers(replace(self._native.stats(), **counted, **self._times.fields()), self._pool.stats())
