# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The strategy over several processes."""

from __future__ import annotations

import atexit
import collections
import hashlib
import logging
import os
import random
import re
import warnings
import weakref
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from torch_distinput import _C
from torch_distinput.base import _arguments
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.distribute import _peer_values
from torch_distinput.distribute._distributed import DistributedDataset
from torch_distinput.distribute._elastic import warn_of_restarts
from torch_distinput.distribute._empty_parts import EmptyParts
from torch_distinput.distribute._input_options import InputOptions
from torch_distinput.distribute._mesh import place_in
from torch_distinput.distribute._reduce import Axis, ReduceOp, combine
from torch_distinput.distribute._strategy import NativeStrategy
from torch_distinput.ops._base import native_of
from torch_distinput.typing import Reduction, Rounds

_logger = logging.getLogger("torch_distinput")

# How many groups have the same ranks, and how many strategies were made over each group, by name: the numbers separate
# their keys in the store.
_made: collections.Counter[str] = collections.Counter()
_processes: weakref.WeakKeyDictionary[dist.ProcessGroup, tuple[_C.ProcessGroup, str]] = weakref.WeakKeyDictionary()


def leave_groups() -> None:
    """Ends the links to other processes that no strategy holds any more."""
    _processes.clear()


# They end before the interpreter does.
atexit.register(leave_groups)


_OF_MESH = "mesh_"


class MultiWorkerMirroredStrategy(NativeStrategy):
    """Several processes, each with the same number of replicas; global batches are assigned over all replicas.

    Every process must make the same strategies and datasets in the same order and take the same steps. Where all
    processes read one stream, the assignment of rows is arithmetic: processes exchange data at the first step of an
    iterator and not afterwards. Rank 0 logs with logger "torch_distinput", at level INFO, how each dataset is assigned
    and why.

    Args:
        process_group: a group of torch.distributed, or a DeviceMesh. None: the default group, or one process where
            there is none. Of a mesh of several dims, rows are dealt along those that are named `batch`, `dp`,
            `dp_replicate`, `dp_shard`, `ddp`, `fsdp`, `data_parallel`, `replicate` or `shard`; processes that differ in
            other dims only (tensor, context and pipeline parallelism) work on one replica together and get the same
            rows. A mesh of one dimension, such as `mesh["dp"]`, is the one that rows are dealt along, unless its name
            is such as `tp`. The groups of a mesh agree on the seeds of random ops that have none; a group that is not
            of a mesh cannot, and warns.
        devices: of this process's replicas, such as `["cuda:0", "cuda:1"]` or `["cpu", "cpu"]`. None: the accelerator
            of the launcher's local rank, or the only one that this process sees, else one CPU.
        data_dims: names of the mesh's dims that rows are dealt along, where they are named otherwise.
        rounds: has no effect and warns: rounds in which processes agree on the end of streams of different length go
            over the group's store, whose load grows with the number of processes and no faster.

    Raises RuntimeError where the environment says that there are several processes, but no group is initialised;
    ValueError for a device that does not exist, a mesh with a dim of unknown meaning, a group without this process, or
    another value of `rounds`; TypeError for another type of `process_group`.

    >>> tdi.MultiWorkerMirroredStrategy(devices=["cpu", "cpu"])
    MultiWorkerMirroredStrategy('cpu', 'cpu')
    """

    def __init__(
        self,
        process_group: dist.ProcessGroup | Any | None = None,
        devices: Sequence[str | torch.device] | None = None,
        *,
        data_dims: Sequence[str] | None = None,
        rounds: Rounds | None = None,
    ):
        if rounds not in (None, "store", "gloo"):
            raise ValueError(
                f"MultiWorkerMirroredStrategy: `rounds` must be None, 'store' or 'gloo', but is {rounds!r}."
            )
        if rounds is not None:
            warnings.warn(
                "MultiWorkerMirroredStrategy: `rounds` has no effect any more; leave it out.",
                FutureWarning,
                stacklevel=2,
            )
        group = group_of("MultiWorkerMirroredStrategy", "process_group", process_group, data_dims)
        names = _arguments.devices("MultiWorkerMirroredStrategy", devices)
        self._group = group
        self._dimension = None if group is None else _name_of_dimension(process_group, group, data_dims)
        self._seeds_agreed = 0
        if group is None:
            native = _C.MultiWorkerMirroredStrategy(_C.ProcessGroup(dist.HashStore(), 0, 1, "one process"), names)
        else:
            warn_of_restarts(group)
            processes, name = _processes_of(group)
            _made[name] += 1
            self._name = f"{name}/{_made[name]}"
            native = _C.MultiWorkerMirroredStrategy(processes, names)
        super().__init__(native)

    def distribute_dataset(self, dataset: Dataset, options: InputOptions | None = None) -> DistributedDataset:
        if isinstance(dataset, Dataset) and native_of(dataset).options().seed is None:
            if self._dimension is not None:
                dataset = dataset.with_options(_C.Options(seed=self._agreed_seed()))
            elif native_of(dataset).unseeded:
                warn_of_peers(self, "draws the order of rows, without a seed", "other orders", "Pass a seed")
        return super().distribute_dataset(dataset, options)

    def _agreed_seed(self) -> int:
        """The seed set first by any rank along this dimension of the mesh. Does not wait for other ranks, because those
        of other pipeline stages may not read data."""
        self._seeds_agreed += 1
        store = dist.distributed_c10d._get_default_store()
        key = f"torch_distinput/seed/{self._dimension}/{self._seeds_agreed}"
        seed = store.compare_set(key, "", str(random.SystemRandom().getrandbits(63)))
        if not re.fullmatch(rb"[0-9]{1,19}", seed) or int(seed) >= 2**63:
            raise _C.DistributedDatasetError(
                f"MultiWorkerMirroredStrategy: the seed under `{key}` must be an integer in [0, 2**63), but is "
                f"{seed[:40]!r}. {_peer_values.STRANGER}"
            )
        return int(seed)

    def reduce(self, op: ReduceOp | Reduction, value: Any, axis: Axis = None) -> torch.Tensor:
        """As `Strategy.reduce`, but a plain tensor counts once for each process."""
        if isinstance(value, torch.Tensor) and axis is None:
            self._check_cross_replica("reduce")
            return combine(ReduceOp.of(op), self._all_values([value]), None)
        return super().reduce(op, value, axis)

    def _distributed(
        self, native: _C.DistributedDataset, empty_parts: EmptyParts, pipeline: Dataset | None = None
    ) -> DistributedDataset:
        if self._group is not None and self._group.rank() == 0:
            _logger.info("auto_shard_policy %s", native.sharding)
        return super()._distributed(native, empty_parts, pipeline)

    def _all_values(self, values: Sequence[Any]) -> list[Any]:
        """A collective of the group: the user's thread calls it on every process. Gradients flow into the values of
        this process only."""
        if self._group is None or self._group.size() == 1:
            return list(values)
        values = list(values)
        everyone: list[Any] = []
        for rank, others in enumerate(_C.all_gather_bytes(self._group, _peer_values.encode(values))):
            everyone += values if rank == self._group.rank() else self._values_of(rank, others, values)
        return everyone

    @staticmethod
    def _values_of(rank: int, data: bytes, mine: list[Any]) -> list[Any]:
        """The values that process `rank` sent, as many as this process's own."""
        whose = f"Strategy: the values of rank {rank}"
        values = _peer_values.decode(data, whose, mine)
        if type(values) is not list or len(values) != len(mine):
            raise _C.DistributedDatasetError(
                f"{whose}: they must be a list of {len(mine)} values, as on this rank. Every process must make the "
                "same calls with the same number of replicas."
            )
        return values


def strategy_group(strategy: MultiWorkerMirroredStrategy) -> dist.ProcessGroup | None:
    """The process group of `strategy`; None for one process."""
    return strategy._group


def warn_of_peers(strategy: MultiWorkerMirroredStrategy, what: str, otherwise: str, advice: str) -> None:
    """Warns that processes outside the group may work on the same rows, if the group is not all processes."""
    if strategy._group is None or strategy._group.size() == dist.get_world_size():
        return
    warnings.warn(
        f"torch_distinput: this group of {strategy._group.size()} of {dist.get_world_size()} processes {what}. Other "
        f"groups get {otherwise}, which nothing compares. {advice}, where processes outside the group (peers of "
        "tensor, context or pipeline parallelism) must get the same rows.",
        stacklevel=3,
    )


def examples_of(strategy: MultiWorkerMirroredStrategy) -> dist.Store | None:
    """The part of the group's store in which a rank posts an example batch for the others; None for one process."""
    if strategy._group is None or strategy._group.size() == 1:
        return None
    return dist.PrefixStore(f"tdi/{strategy._name}", dist.distributed_c10d._get_process_group_store(strategy._group))


def _processes_of(group: dist.ProcessGroup) -> tuple[_C.ProcessGroup, str]:
    """The processes of `group` and their name: the same object at each call, so that all strategies over the group
    share one link to the other processes."""
    if group not in _processes:
        store, name = dist.distributed_c10d._get_process_group_store(group), _name_of(group)
        _processes[group] = _C.ProcessGroup(store, group.rank(), group.size(), name), name
    return _processes[group]


def group_of(op: str, name: str, given: Any, data_dims: Sequence[str] | None = None) -> dist.ProcessGroup | None:
    """The process group that `given` stands for; None where this process is the only one. `op` and `name` are what the
    user called and the argument, for messages. `data_dims`: see MultiWorkerMirroredStrategy."""
    if isinstance(given, dist.DeviceMesh):
        return place_in(op, name, given, data_dims).group
    if data_dims is not None:
        raise ValueError(f"{op}: `data_dims` names dims of a DeviceMesh, which `{name}` is not.")
    if given is dist.GroupMember.NON_GROUP_MEMBER:
        raise ValueError(f"{op}: this process does not belong to `{name}`.")
    if given is not None:
        if not isinstance(given, dist.ProcessGroup):
            raise TypeError(f"{op}: `{name}` must be a ProcessGroup or a DeviceMesh, but is a {type(given).__name__}.")
        return given
    if dist.is_initialized():
        return dist.group.WORLD
    variables = _C.launched_with()
    if variables:
        raise RuntimeError(
            f"{op}: the environment says {variables}, but no process group is initialised, so that every process "
            "would read all rows; call torch_distinput.process_group_from_env() first."
        )
    return None


def _name_of_dimension(given: Any, group: dist.ProcessGroup, data_dims: Sequence[str] | None) -> str | None:
    """The name of the strategy, common to all groups along the mesh dims that `group` belongs to; None for a group that
    is not of a mesh."""
    description = getattr(group, "group_desc", "")  # torch sets it for the groups of a mesh
    if isinstance(given, dist.DeviceMesh) and given.mesh_dim_names is not None:
        place = place_in("", "", given, data_dims)
        if len(place.peers) == place.group.size() == 1:
            return None
        dimension = "_".join(place.dims) or "alone"
    elif description.startswith(_OF_MESH) and description != f"{_OF_MESH}default":
        dimension = description.removeprefix(_OF_MESH)
    else:
        return None
    name = f"{os.environ.get('TORCHELASTIC_RUN_ID', '')}/{dimension}"
    _made[f"mesh {name}"] += 1
    return f"{name}/{_made[f'mesh {name}']}"


def _name_of(group: dist.ProcessGroup) -> str:
    """A name that is equal in all processes of the group, and differs from the names of other groups.

    The name does not separate keys set before a restart from new ones; the rendezvous does. torchrun's restart count
    cannot, because each agent counts its own restarts.
    """
    ranks = ",".join(map(str, dist.get_process_group_ranks(group)))
    name = f"{os.environ.get('TORCHELASTIC_RUN_ID', '')}/{hashlib.sha1(ranks.encode()).hexdigest()[:16]}"
    _made[name] += 1
    return f"{name}/{_made[name]}"
