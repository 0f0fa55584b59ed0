# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Checks the arguments of a DataLoader that torch does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.utils.data import DistributedSampler
from torch.utils.data.dataloader import _DatasetKind

from torch_distinput.base._arguments import flag, instance, optional_integer
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.distribute._input_options import InputOptions
from torch_distinput.distribute._strategy import OneDeviceStrategy
from torch_distinput.loader._batches import device_of
from torch_distinput.loader.ranks._exchanged import exchanged, followed
from torch_distinput.loader.ranks._sampler import group_size_and_rank

if TYPE_CHECKING:
    from torch_distinput.loader._data_loader import DataLoader

_DEFAULTS = {"global_batch_size": None, "split": "balanced", "tail": "zero_rows", "with_info": False}


def is_own_stream(loader: DataLoader) -> bool:
    """Whether each rank reads a stream of its own: a Python `IterableDataset`, or a sampler that the user gave, to the
    constructor or later."""
    later = exchanged(loader) is not None and followed(loader) is None
    if isinstance(loader.dataset, Dataset):
        return False
    return loader._dataset_kind == _DatasetKind.Iterable or loader._own_sampler or later


def check_arguments(loader: DataLoader) -> None:
    """Raises ValueError or TypeError for arguments that are wrong or do not go together.

    torch's constructor has checked its own arguments before.
    """
    config = loader._loader_config
    _check_device(config.device)
    InputOptions(split=config.split, tail=config.tail, peer_timeout=config.peer_timeout)
    optional_integer("DataLoader", "prefetch_bytes", config.prefetch_bytes)
    flag("DataLoader", "with_info", config.with_info)
    if loader.generator is not None:
        instance("DataLoader", "generator", loader.generator, torch.Generator)
    _check_order(loader)
    ours = isinstance(loader.dataset, Dataset)
    if config.seed is not None and not ours and (not loader._shuffle or loader._own_sampler):
        raise ValueError(
            "DataLoader: `seed` orders the rows of `shuffle=True`; what else is random follows `torch.manual_seed`."
        )
    if ours and loader.batch_size is not None:
        size = loader.dataset._batch_size()
        if size is not None:
            raise ValueError(
                f"DataLoader: the dataset has batches of {size} rows already; pass `batch_size=None`, or the dataset "
                "before `batch`."
            )
    if config.distributed:
        _check_group(config.distributed)
        check_ranks_arguments(loader)
        return
    for name, default in _DEFAULTS.items():
        if getattr(config, name) != default:
            raise ValueError(
                f"DataLoader: `{name}` needs `distributed=True`, but is {getattr(config, name)!r} without it."
            )


def _check_order(loader: DataLoader) -> None:
    config = loader._loader_config
    if config.order is None:
        return
    if config.order != "torch":
        raise ValueError(f'DataLoader: `order` must be None or "torch", but is {config.order!r}.')
    excluded = {
        "`seed`, by which this library draws": config.seed is not None,
        "`distributed`, where the ranks agree on this library's order": bool(config.distributed),
        "a dataset of this library, whose own ops say its order": isinstance(loader.dataset, Dataset),
    }
    for what, given in excluded.items():
        if given:
            raise ValueError(f'DataLoader: `order="torch"` excludes {what}.')


def _check_device(given: Any) -> None:
    device = device_of(given)
    if device.type == "cpu":
        return
    try:
        OneDeviceStrategy(device)
    except ValueError as error:
        raise ValueError(f"DataLoader: `device` is {str(given)!r}: {str(error).partition(': ')[2]}") from None


def _check_group(distributed: Any) -> None:
    if distributed is not True and not isinstance(distributed, (dist.ProcessGroup, dist.DeviceMesh)):
        raise TypeError(
            "DataLoader: `distributed` must be True, a process group or a one-dimensional DeviceMesh, but is a "
            f"{type(distributed).__name__}."
        )


def check_ranks_arguments(loader: DataLoader) -> None:
    """Raises ValueError for arguments that do not go together where rows are assigned to ranks."""
    config = loader._loader_config
    given = (loader._user_sampler, getattr(loader._user_batch_sampler, "sampler", None))
    if any(isinstance(sampler, DistributedSampler) for sampler in given):
        raise ValueError(
            "DataLoader: with `distributed`, the loader itself assigns the rows to ranks, so that a DistributedSampler "
            "would shard them a second time; leave `sampler` out (and pass `shuffle=True` if it shuffled), or leave "
            "`distributed=None`."
        )
    if not loader.in_order:
        raise ValueError("DataLoader: `in_order=False` would let the ranks take their steps in different orders.")
    if loader.drop_last and config.tail not in ("zero_rows", "drop"):
        raise ValueError(f'DataLoader: `drop_last=True` means `tail="drop"`, but `tail` is {config.tail!r}.')
    if config.global_batch_size is not None:
        _check_global_batch_size(loader)
    indexed = loader._dataset_kind == _DatasetKind.Map and not loader._own_sampler
    if indexed and loader.batch_size is None:
        raise ValueError("DataLoader: with `distributed`, a map-style dataset needs `batch_size`.")


def _check_global_batch_size(loader: DataLoader) -> None:
    config = loader._loader_config
    size = config.global_batch_size
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ValueError(f"DataLoader: `global_batch_size` must be a positive integer, but is {size!r}.")
    # `batch_size` is this share where a framework makes a new loader from the attributes of an old one.
    share = -(-size // group_size_and_rank(config.distributed)[0])
    if loader.batch_size not in (1, share):
        raise ValueError(
            f"DataLoader: `global_batch_size` and `batch_size` exclude each other, but are {size} and "
            f"{loader.batch_size}."
        )
    if is_own_stream(loader):
        raise ValueError("DataLoader: `global_batch_size` has no meaning where each rank reads a stream of its own.")
