# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What workers of an executor do for a pipeline: they make this process's parts of any step.

A request is the position before the step, as `state_dict` has it: epoch, seed and place, so that its answer depends on
nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from torch_distinput import _C
from torch_distinput.base._structure import children, rebuild
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.distribute._input_options import InputOptions, native_options
from torch_distinput.distribute._values import PerReplica
from torch_distinput.ops._base import native_of

_OWN = {"executor": None, "fetch_to_device": False, "per_replica_buffer_size": 0}


class ReplicaLeaves(NamedTuple):
    """A leaf of a value: those of the replicas, in a tuple."""

    values: Any


def per_replica(value: Any) -> Any:
    """`value` with `PerReplica` in place of `ReplicaLeaves`."""
    if isinstance(value, ReplicaLeaves):
        return PerReplica(value.values)
    return rebuild(value, [per_replica(part) for part in children(value) or ()])


@dataclass(frozen=True)
class PipelineWork:
    """The steps of `dataset`, in batches of `batch` where that is not None, for part `index` of `count` with `replicas`
    replicas. `wraps`:
    whether leaves of values are `ReplicaLeaves`. `policy`, `seed`: what the iterators get as options of the pipeline,
    None where that has its own."""

    dataset: Dataset
    batch: int | None
    options: InputOptions
    index: int
    count: int
    replicas: int = 1
    wraps: bool = False
    policy: _C.AutoShardPolicy | None = None
    seed: int | None = None

    def open(self) -> Callable[[Any], Any]:
        pipeline = native_of(self.dataset)
        if self.batch is not None:
            pipeline = pipeline.batch(self.batch)
        own = _C.Options(auto_shard_policy=self.policy, seed=self.seed, num_threads=0, prefetch=0)
        given = {field.name: getattr(self.options, field.name) for field in fields(self.options)}
        options = native_options(InputOptions(**given | _OWN))
        strategy = _C.PartStrategy(self.index, self.count, ["cpu"] * self.replicas)
        assigned = strategy.distribute_dataset(pipeline.with_options(own), options)
        return _Maker(assigned, ReplicaLeaves if self.wraps else None).value


class _Maker:
    """Goes to the position of each request, unless it stands there."""

    def __init__(self, assigned: _C.DistributedDataset, wrap: type | None):
        self._assigned, self._wrap = assigned, wrap
        self._native: _C.DistributedIterator | None = None
        self._at: Any = None

    def value(self, position: dict[str, Any]) -> Any:
        """The value of the step after `position`."""
        try:
            return self._value(position)
        except BaseException:
            self._native = None  # an iterator that has raised stays where it is
            raise

    def _value(self, position: dict[str, Any]) -> Any:
        if self._native is None:
            self._native, self._at = self._assigned.iterate(epoch=0, seed=0), None
        if position != self._at:
            self._native.load_state_dict(position)
        step = self._native.next(self._wrap)
        if step is None:
            raise RuntimeError("executor: a worker's copy of the dataset ends before the program's does.")
        self._at = self._native.state_dict()
        return step[0]
