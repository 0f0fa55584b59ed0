# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A loader in one line, for consoles, logs and debuggers.

Nothing here raises, reads data or opens a group: a loader may be half made, and a subclass may have properties of its
own that fail.
"""

from dataclasses import fields
from numbers import Number
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import default_collate, default_convert

from torch_distinput.datasets._dataset import Dataset
from torch_distinput.loader._config import ARGUMENTS, LoaderConfig, OwnArguments, TorchArguments
from torch_distinput.loader.orders._exact_sampler import group_size_and_rank
from torch_distinput.loader.state._place import counted

# torch's arguments and their defaults, except those shown in another way; None is always a default.
_OTHERWISE = ("dataset", "batch_size", "sampler", "batch_sampler", "collate_fn")
_TORCHS = {field.name: field.default for field in fields(TorchArguments) if field.name not in _OTHERWISE}
_TORCHS["prefetch_factor"] = 2  # with workers
_DEFAULTS = {field.name: field.default for field in fields(OwnArguments)}


def described_loader(loader: Any, config: LoaderConfig) -> str:
    """`loader` in one line: its class, its dataset, and the arguments that are not the default."""
    dataset = _asked(loader, "dataset")
    if dataset is None:
        return f"{type(loader).__name__}(not made yet)"
    sampler, batch_sampler = config.given_sampler, config.given_batch_sampler
    given: dict[str, Any] = {"shuffle": True} if config.shuffle else {}
    if batch_sampler is None and config.global_batch_size is None:
        given = {"batch_size": _shown(_asked(loader, "batch_size"))} | given
    parts = {"sampler": sampler, "batch_sampler": batch_sampler, "collate_fn": _own_collate(loader)}
    given |= {name: _shown(part) for name, part in parts.items() if part is not None}
    for name, default in _TORCHS.items():
        value = _asked(loader, name)
        if value is not None and not (isinstance(value, (Number, str)) and value == default):
            given[name] = _shown(value)
    given |= {"distributed": _ranks(config)} if config.distributed and config.membership is None else {}
    for name in ARGUMENTS:
        value = getattr(config, name)
        default = _DEFAULTS[name]
        if name != "distributed" and value is not default and (default is None or value != default):
            given[name] = _shown(value)
    words = [_described_dataset(dataset), *(f"{name}={value}" for name, value in given.items())]
    return f"{type(loader).__name__}({', '.join(words)})"


def _described_dataset(dataset: Any) -> str:
    name = type(dataset).__name__
    if isinstance(dataset, Dataset):  # its length may have to be counted in files
        return name
    try:
        return f"{name} of {counted(len(dataset), 'row')}"
    except Exception:  # noqa: BLE001 - it has no length, or its own code fails
        return name


def _own_collate(loader: Any) -> Any:
    collate = _asked(loader, "collate_fn")
    return None if collate is default_collate or collate is default_convert else collate


def _ranks(config: LoaderConfig) -> str:
    """The rank of this process in its group, if there is one."""
    try:
        if config.distributed is True and not dist.is_initialized():
            return "True"
        size, rank = group_size_and_rank(config.ranks)
        return f"rank {rank} of {size}"
    except Exception:  # noqa: BLE001 - the group is gone
        return type(config.distributed).__name__


def _asked(value: Any, name: str) -> Any:
    try:
        return getattr(value, name)
    except Exception:  # noqa: BLE001 - a property of a subclass may fail, and a half-made loader lacks some
        return None


def _shown(value: Any) -> str:
    """`value` in a word: numbers, texts and devices as they are, functions by name, other objects by class."""
    if value is None or isinstance(value, Number):
        return str(value)
    if isinstance(value, (str, torch.device)):
        return repr(str(value))
    name = _asked(value, "__name__")
    return name if isinstance(name, str) else type(value).__name__
