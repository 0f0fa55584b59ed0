# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The arguments of a DataLoader: where its parts read them, and where others see them.

Subclasses written for torch's class may have attributes with the names of this library's arguments. So the library
reads its arguments from one frozen object under a private name. The public names only show them: a subclass's own
attribute, property or method of the same name takes precedence.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

import torch
import torch.distributed as dist
from torch.utils.data import IterableDataset
from torch.utils.data.dataloader import _DatasetKind

from torch_distinput import _C
from torch_distinput.base._row_cost import RowCost
from torch_distinput.distribute._membership import Membership
from torch_distinput.distribute._mesh import MeshPlace, place_in
from torch_distinput.distribute._multi_worker import group_of
from torch_distinput.distribute._part import Part
from torch_distinput.executors._executor import Executor
from torch_distinput.typing import OnError, OnWorkerDeath, Order, SharedBy, Split, Tail

_KEY = "_loader_config"  # of the attribute of a loader

_Value = TypeVar("_Value")


@dataclass(frozen=True, eq=False)
class TorchArguments:
    """The arguments that torch's class keeps as attributes, which a program may set between two iterators."""

    dataset: Any = None
    batch_size: int | None = 1
    sampler: Any = None
    batch_sampler: Any = None
    num_workers: int = 0
    collate_fn: Any = None
    pin_memory: bool = False
    drop_last: bool = False
    timeout: float = 0
    worker_init_fn: Any = None
    multiprocessing_context: Any = None
    generator: torch.Generator | None = None
    prefetch_factor: int | None = None
    persistent_workers: bool = False
    pin_memory_device: str = ""
    in_order: bool = True


@dataclass(frozen=True, eq=False)
class OwnArguments:
    """The arguments that torch's class does not have. A `tail` of None is stored as "zero_rows"."""

    distributed: bool | Any = None
    membership: Membership | None = None
    data_dims: Sequence[str] | None = None
    share: SharedBy | None = None
    sequence: Mapping[str, Any] | None = None
    stages: Mapping[str, str] | None = None
    global_batch_size: int | None = None
    device: str | torch.device | None = None
    split: Split = "balanced"
    tail: Tail = "zero_rows"
    balance: RowCost | None = None
    balance_window: int = 1
    seed: int | None = None
    with_info: bool = False
    prefetch_bytes: int | None = None
    peer_timeout: float = 300.0
    host_timeout: float = 5.0
    order: Order | None = None
    snapshot_every_n_steps: int | None = None
    on_error: OnError = "raise"
    max_errors: int | None = None
    on_worker_death: OnWorkerDeath = "raise"
    executor: Executor | None = None


@dataclass(frozen=True, eq=False)
class LoaderConfig(OwnArguments, TorchArguments):
    """All arguments of a DataLoader at one moment. Its parts take it, and torch's iterators get it as their loader.

    `shuffle`, `given_sampler`, `given_batch_sampler`, `tail_given`: what the constructor got. `watched_batches`: a
    framework's batch sampler around the shown one. `made_with`: the samplers at the end of the constructor.
    `weighted`: the draws of a WeightedRandomSampler, which the ranks share. `shared_order`: the order of a sampler that
    all ranks share. `stream_part`: this rank's part of a stream or sampler that all ranks read. `skip`: steps that each
    iterator passes over. `copied_to`: the device to which an outer loader copies the batches. `len_called`: the last
    `len` of a stream, for torch's warning.
    """

    shuffle: bool = False
    given_sampler: Any = None
    given_batch_sampler: Any = None
    tail_given: bool = False
    watched_batches: Any = None
    made_with: Any = None
    weighted: Any = None
    shared_order: Any = None
    stream_part: Any = None
    skip: int = 0
    copied_to: Any = None
    len_called: int | None = None

    @property
    def ranks(self) -> Any:
        """As `ranks_of`, of a loader with `distributed`."""
        return ranks_of(self.distributed, self.data_dims)

    @property
    def mesh_place(self) -> MeshPlace | None:
        """Where this process stands in the mesh that `distributed` is; None where it is none."""
        if not isinstance(self.distributed, dist.DeviceMesh):
            return None
        return place_in("DataLoader", "distributed", self.distributed, self.data_dims)

    @property
    def is_stream(self) -> bool:
        """Whether the dataset is iterated, not indexed."""
        return isinstance(self.dataset, IterableDataset)

    @property
    def skips_rows(self) -> bool:
        """Whether rows that fail are left out."""
        return self.on_error == "skip"

    @property
    def auto_collation(self) -> bool:
        """Whether samples are collated into batches."""
        return self.batch_sampler is not None

    @property
    def index_sampler(self) -> Any:
        """The sampler that iterators draw from: lists of indices with `auto_collation`, else single ones."""
        return self.batch_sampler if self.auto_collation else self.sampler

    @property
    def own_sampler(self) -> bool:
        """Whether the user gave a sampler whose indices are read."""
        given = self.given_sampler is not None or self.given_batch_sampler is not None
        return given and self.weighted is None

    @property
    def is_random(self) -> bool:
        """Whether the order in which ranks share rows is drawn."""
        return self.shuffle or self.weighted is not None

    @property
    def num_rows(self) -> int:
        """Rows of an epoch of a map-style dataset."""
        if self.weighted is not None:
            return self.weighted.num_samples
        return len(self.dataset if self.shared_order is None else self.shared_order.rows)

    @property
    def steps_tail(self) -> Tail:
        """What happens to a short last step."""
        return "drop" if self.drop_last else self.tail

    def global_batch(self, world: int) -> int:
        """Rows of a step over all of `world` ranks."""
        if self.global_batch_size is not None:
            return self.global_batch_size
        assert self.batch_size is not None, "see check_arguments"
        return self.batch_size * world

    # The names that torch's iterators read.

    @property
    def _dataset_kind(self) -> int:
        return _DatasetKind.Iterable if self.is_stream else _DatasetKind.Map

    _auto_collation, _index_sampler = auto_collation, index_sampler

    @property
    def _IterableDataset_len_called(self) -> int | None:
        return self.len_called


_TORCHS = tuple(field.name for field in fields(TorchArguments))
ARGUMENTS = tuple(field.name for field in fields(OwnArguments))
_DEFAULTS = LoaderConfig()


def own_arguments(loader: Any) -> LoaderConfig:
    """What the constructor of `loader` got, without torch's arguments; the defaults if only torch's constructor ran."""
    return vars(loader).get(_KEY, _DEFAULTS)


def config_of(loader: Any) -> LoaderConfig:
    """The arguments of `loader` now."""
    config = object.__new__(LoaderConfig)  # `dataclasses.replace` takes ten times as long
    vars(config).update(vars(own_arguments(loader)), len_called=loader._IterableDataset_len_called)
    vars(config).update({name: getattr(loader, name) for name in _TORCHS})
    return config


class Shown(Generic[_Value]):
    """A public name that shows `value(loader)`, and that a subclass may use for itself: without `__set__`, so that an
    attribute of the loader takes precedence."""

    def __init__(self, value: Callable[[Any], _Value]):
        self._value = value
        self.__doc__ = value.__doc__

    def __get__(self, loader: Any, owner: type) -> _Value:
        return self if loader is None else self._value(loader)  # type: ignore[return-value]


def argument(name: str) -> Any:
    """Shows the argument `name`: its default, if only torch's constructor ran."""
    return Shown(lambda loader: getattr(own_arguments(loader), name))


def configure(loader: Any, config: LoaderConfig) -> None:
    """Sets the arguments of `loader`, and shows them as attributes, from which frameworks copy loaders, except where a
    subclass has its own."""
    before = own_arguments(loader)
    for name in ARGUMENTS:
        found = vars(loader).get(name, before)
        shows = found is before or found is getattr(before, name)
        if shows and isinstance(inspect.getattr_static(type(loader), name), Shown):
            vars(loader)[name] = getattr(config, name)
    vars(loader)[_KEY] = config


def ranks_of(distributed: Any, data_dims: Sequence[str] | None = None) -> Any:
    """What shares the rows where `distributed` says so: True for the default group, a process group, or a part."""
    if isinstance(distributed, Part):
        return distributed
    if distributed is True and data_dims is None:
        return True
    return group_of("DataLoader", "distributed", distributed, data_dims)


def refuses(loader: Any, name: str) -> bool:
    """Whether `name` is an argument that must not be set: a user's subclass may set an attribute of that name."""
    return name in ARGUMENTS and type(loader).__module__.partition(".")[0] == "torch_distinput"


def device_of(device: Any) -> torch.device:
    """The device that the argument `device` means. Raises ValueError for an unknown name, TypeError for other types.

    An accelerator without an index is the one of the launcher's local rank, or the only one that this process sees.
    """
    try:
        device = torch.device("cpu" if device is None else device)
    except RuntimeError as error:
        raise ValueError(f"DataLoader: `device` is {device!r}: {error}") from None
    except TypeError:
        raise TypeError(f"DataLoader: `device` must be a torch.device or its name, but is {device!r}.") from None
    if device.type != "cpu" and device.index is None:
        rank = _C.local_rank("DataLoader") or 0
        device = torch.device(device.type, 0 if rank > 0 and _C.device_count() == 1 else rank)
    return device


def accelerator_of(device: Any) -> torch.device | None:
    """The accelerator that the argument `device` means; None where batches stay on the CPU."""
    found = device_of(device)
    return None if found.type == "cpu" else found
