# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Checks the arguments of a DataLoader that torch does not have."""

from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DistributedSampler

from torch_distinput.base._arguments import count, flag, instance, optional_integer
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.distribute._input_options import InputOptions
from torch_distinput.distribute._part import Part
from torch_distinput.distribute._strategy import OneDeviceStrategy
from torch_distinput.loader._config import LoaderConfig, device_of
from torch_distinput.loader.members._arguments import check_members_arguments
from torch_distinput.loader.orders._exact_sampler import group_size_and_rank
from torch_distinput.loader.orders._exchanged import is_own_stream
from torch_distinput.loader.ranks._sequence_parts import sequence_parts
from torch_distinput.loader.ranks._stages import needs_rows
from torch_distinput.loader.workers._states import has_place
from torch_distinput.ops._base import native_of

_DEFAULTS = {
    "data_dims": None,
    "share": None,
    "sequence": None,
    "stages": None,
    "global_batch_size": None,
    "split": "balanced",
    "tail": "zero_rows",
    "balance_window": 1,
    "with_info": False,
}


def check_arguments(config: LoaderConfig) -> None:
    """Raises ValueError or TypeError for arguments that are wrong or do not go together. torch's constructor has
    checked its own."""
    _check_device(config.device)
    InputOptions(
        split=config.split,
        tail=config.tail,
        balance=config.balance,
        balance_window=config.balance_window,
        peer_timeout=config.peer_timeout,
        host_timeout=config.host_timeout,
    )
    optional_integer("DataLoader", "prefetch_bytes", config.prefetch_bytes)
    flag("DataLoader", "with_info", config.with_info)
    if config.generator is not None:
        instance("DataLoader", "generator", config.generator, torch.Generator)
    _check_share(config)
    _check_order(config)
    _check_on_error(config)
    _check_worker_death(config)
    _check_executor(config)
    ours = isinstance(config.dataset, Dataset)
    if config.seed is not None and not ours and (not config.is_random or config.own_sampler):
        raise ValueError(
            "DataLoader: `seed` orders the rows of `shuffle=True`, and with `distributed` those that a "
            "WeightedRandomSampler draws; all other randomness follows `torch.manual_seed`."
        )
    if ours and config.batch_size is not None:
        size = native_of(config.dataset).batch_size()
        if size is not None:
            raise ValueError(
                f"DataLoader: the dataset has batches of {size} rows already; pass `batch_size=None`, or the dataset "
                "before `batch`."
            )
    if config.membership is not None:
        check_members_arguments(config)
    if config.distributed:
        _check_group(config.distributed)
        check_ranks_arguments(config)
        return
    if config.balance is not None:
        raise ValueError("DataLoader: `balance` needs `distributed=True`; `batch_by_cost` makes batches of equal cost.")
    for name, default in _DEFAULTS.items():
        if getattr(config, name) != default:
            raise ValueError(
                f"DataLoader: `{name}` needs `distributed=True`, but is {getattr(config, name)!r} without it."
            )


def _check_on_error(config: LoaderConfig) -> None:
    if config.on_error not in ("raise", "skip"):
        raise ValueError(f'DataLoader: `on_error` must be "raise" or "skip", but is {config.on_error!r}.')
    if config.max_errors is not None:
        count("DataLoader", "max_errors", config.max_errors)
    if not config.skips_rows:
        if config.max_errors is not None:
            raise ValueError('DataLoader: `max_errors` needs `on_error="skip"`.')
        return
    if isinstance(config.dataset, Dataset):
        raise ValueError(
            'DataLoader: `on_error="skip"` is for datasets in Python; give a dataset of this library '
            "`with_options(Options(on_error=Skip(...)))`."
        )
    if config.is_stream:
        raise ValueError('DataLoader: `on_error="skip"` needs a map-style dataset: a stream ends with its first error.')
    if config.distributed and (config.tail in ("padded", "repeat") or is_own_stream(config)):
        raise ValueError(
            'DataLoader: with `distributed`, `on_error="skip"` needs the loader\'s own order of rows, and a `tail` '
            f"that repeats none, but the tail is {config.tail!r}."
        )


def _check_share(config: LoaderConfig) -> None:
    if config.share is None:
        return
    if config.share not in ("node", "broadcast"):
        raise ValueError(f'DataLoader: `share` must be None, "node" or "broadcast", but is {config.share!r}.')
    if config.distributed and config.skips_rows:
        raise ValueError(
            f'DataLoader: `share={config.share!r}` excludes `on_error="skip"`, where the ranks agree on the rows of '
            "each step."
        )


def _check_executor(config: LoaderConfig) -> None:
    if config.executor is None:
        return
    excluded = {
        "`num_workers`: `Executor(..., max_workers=...)` has their number": config.num_workers > 0,
        '`order="torch"`, which the ranks of a job do not have': config.order is not None,
        "a stream or a sampler of the program's own: of `tdi.Dataset.from_torch(stream).map(function)`, workers call "
        "the function": is_own_stream(config),
        "`share`: workers make a part for each process": config.share is not None,
        "`membership`, whose parts change from step to step": config.membership is not None,
    }
    for what, given in excluded.items():
        if given:
            raise ValueError(f"DataLoader: `executor` excludes {what}.")


def _check_order(config: LoaderConfig) -> None:
    if config.order is None:
        return
    if config.order != "torch":
        raise ValueError(f'DataLoader: `order` must be None or "torch", but is {config.order!r}.')
    excluded = {
        "`seed`, by which this library draws": config.seed is not None,
        "`distributed`, where the ranks agree on this library's order": bool(config.distributed),
        "a dataset of this library, whose own ops say its order": isinstance(config.dataset, Dataset),
    }
    for what, given in excluded.items():
        if given:
            raise ValueError(f'DataLoader: `order="torch"` excludes {what}.')


def _check_worker_death(config: LoaderConfig) -> None:
    if config.on_worker_death not in ("raise", "restart"):
        raise ValueError(
            f'DataLoader: `on_worker_death` must be "raise" or "restart", but is {config.on_worker_death!r}.'
        )
    if config.on_worker_death == "raise" or config.num_workers == 0 or not config.is_stream:
        return
    if not isinstance(config.dataset, Dataset) and not has_place(config.dataset):
        raise ValueError(
            f'DataLoader: `on_worker_death="restart"` needs a stream whose place can be restored, but a '
            f"{type(config.dataset).__name__} has no `state_dict` and `load_state_dict` that leave nothing out."
        )


def _check_device(given: Any) -> None:
    device = device_of(given)
    if device.type == "cpu":
        return
    try:
        OneDeviceStrategy(device)
    except ValueError as error:
        raise ValueError(f"DataLoader: `device` is {str(given)!r}: {str(error).partition(': ')[2]}") from None


def _check_group(distributed: Any) -> None:
    if distributed is not True and not isinstance(distributed, (dist.ProcessGroup, dist.DeviceMesh, Part)):
        raise TypeError(
            "DataLoader: `distributed` must be True, a process group or a DeviceMesh, but is a "
            f"{type(distributed).__name__}."
        )


def check_ranks_arguments(config: LoaderConfig) -> None:
    """Raises ValueError for arguments that do not go together where rows are assigned to ranks."""
    given = (config.given_sampler, getattr(config.given_batch_sampler, "sampler", None))
    if any(isinstance(sampler, DistributedSampler) for sampler in given):
        raise ValueError(
            "DataLoader: with `distributed`, the loader itself assigns the rows to ranks, and a DistributedSampler "
            "would shard them a second time; leave `sampler` out (and pass `shuffle=True` if it shuffled), or leave "
            "`distributed=None`."
        )
    if not config.in_order:
        raise ValueError("DataLoader: `in_order=False` would let the ranks take their steps in different orders.")
    if config.drop_last and config.tail not in ("zero_rows", "drop"):
        raise ValueError(f'DataLoader: `drop_last=True` means `tail="drop"`, but `tail` is {config.tail!r}.')
    if config.global_batch_size is not None:
        _check_global_batch_size(config)
    sequence_parts(config)
    needs_rows(config)
    if config.stages is not None and config.skips_rows:
        raise ValueError('DataLoader: `on_error="skip"` finds out about bad rows by reading them, `stages` reads none.')
    if config.split == "lanes" and not isinstance(config.dataset, Dataset):
        raise ValueError(
            'DataLoader: `split="lanes"` needs the lanes of a dataset of torch_distinput with `shuffle(blocks=...)`, '
            f"but the dataset is a {type(config.dataset).__name__}."
        )
    if config.balance is not None and is_own_stream(config):
        raise ValueError("DataLoader: `balance` has no meaning where each rank reads a stream of its own.")
    if config.balance is not None and config.shared_order is not None:
        raise ValueError("DataLoader: `balance` does not know the rows of a sampler that all ranks share.")
    indexed = not config.is_stream and not config.own_sampler
    if config.weighted is not None and len(config.weighted) != len(config.dataset):
        raise ValueError(
            f"DataLoader: with `distributed`, a WeightedRandomSampler must have a weight for each of the "
            f"{len(config.dataset)} rows of the dataset, but has {len(config.weighted)}."
        )
    if indexed and config.batch_size is None:
        raise ValueError("DataLoader: with `distributed`, a map-style dataset needs `batch_size`.")


def _check_global_batch_size(config: LoaderConfig) -> None:
    size = config.global_batch_size
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ValueError(f"DataLoader: `global_batch_size` must be a positive integer, but is {size!r}.")
    # `batch_size` is this share in a loader that a framework makes from the attributes of an old one.
    share = -(-size // group_size_and_rank(config.ranks)[0])
    if config.batch_size not in (1, share):
        raise ValueError(
            f"DataLoader: `global_batch_size` and `batch_size` exclude each other, but are {size} and "
            f"{config.batch_size}."
        )
    if is_own_stream(config):
        raise ValueError("DataLoader: `global_batch_size` has no meaning where each rank reads a stream of its own.")
