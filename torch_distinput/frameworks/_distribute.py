# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Makes a distributed DataLoader from one of a single process, torch's or this library's."""

import copy
from dataclasses import replace
from typing import Any

from torch.utils import data
from torch.utils.data.dataloader import _BaseDataLoaderIter, _DatasetKind

from torch_distinput.datasets._dataset import Dataset
from torch_distinput.frameworks._shares import ElementShare, EveryNth, Share, SharedOrder, StreamShare
from torch_distinput.loader._config import configure, own_arguments, ranks_of
from torch_distinput.loader._data_loader import DataLoader
from torch_distinput.loader.orders._exact_sampler import group_size_and_rank
from torch_distinput.loader.orders._order import stock_order

# Models and metrics written for a framework rarely accept a batch without rows.
TAIL = "merge"

_TORCHS = ("num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "generator", "pin_memory_device")
_OF_WORKERS = ("multiprocessing_context", "prefetch_factor", "persistent_workers")
_OURS = (
    "device",
    "split",
    "seed",
    "with_info",
    "prefetch_bytes",
    "peer_timeout",
    "host_timeout",
    "on_error",
    "max_errors",
    "on_worker_death",
)


def draws_order(loader: data.DataLoader) -> bool:
    """Whether a distributed copy of `loader` needs a seed that all processes share."""
    if isinstance(loader.dataset, Dataset) or loader._dataset_kind != _DatasetKind.Map:
        return False
    order = stock_order(loader.batch_sampler)
    return order.shuffle if order is not None else type(loader.batch_sampler) is data.BatchSampler


def distributed_copy(
    loader: data.DataLoader, group: Any, seed: int | None, device: Any = None, *, whole_batches: bool = False
) -> DataLoader:
    """A copy of `loader` that is distributed over the processes of `group`. Each process passes the same whole data.

    Args:
        group: what `distributed` of a DataLoader takes.
        seed: decides about the order where `draws_order(loader)`.
        device: where batches arrive if `loader` does not say it.
        whole_batches: `batch_size` is that of all processes together.
    """
    _check_iterators(loader)
    arguments = {name: getattr(loader, name) for name in _TORCHS}
    if loader.num_workers:
        arguments |= {name: getattr(loader, name) for name in _OF_WORKERS}
    else:  # a seed for workers, though there are none
        arguments["worker_init_fn"] = None
    if isinstance(loader, DataLoader):
        arguments |= {name: getattr(own_arguments(loader), name) for name in _OURS}
    arguments["device"] = device if arguments.get("device") is None else arguments["device"]
    arguments |= {"distributed": group, "tail": "drop" if loader.drop_last else TAIL}
    dataset, rows, order = _shared(loader, group, seed, whole_batches)
    result = copy.copy(loader) if isinstance(loader, DataLoader) else DataLoader.__new__(DataLoader)
    result.__dict__.pop("_DataLoader__initialized", None)
    shares = (dataset, rows.get("sampler"), rows.get("batch_sampler"))
    share = next((share for share in shares if isinstance(share, Share)), None)
    configure(result, replace(own_arguments(loader), shared_order=order, stream_part=share))
    DataLoader.__init__(result, dataset, **arguments | rows)
    return result


def _check_iterators(loader: data.DataLoader) -> None:
    """Raises ValueError for a loader that keeps an iterator: that would deliver all rows to each process."""
    for name, value in vars(loader).items():
        if name != "_iterator" and isinstance(value, _BaseDataLoaderIter):
            raise ValueError(
                f"DataLoader: a {type(loader).__name__} cannot be distributed later, because its `{name}` is an "
                "iterator over all rows already; give it `distributed=True` where it is made."
            )


def _shared(
    loader: data.DataLoader, group: Any, seed: int | None, whole_batches: bool
) -> tuple[Any, dict[str, Any], SharedOrder | None]:
    """The dataset, the arguments that say how its rows are assigned, and the order of the user's sampler."""
    world, rank = group_size_and_rank(ranks_of(group))
    size, dataset = loader.batch_size, loader.dataset
    batches = {"global_batch_size": size} if whole_batches and size else {"batch_size": size}
    batches["drop_last"] = loader.drop_last
    own = {"tail": "zero_rows"}  # batches that the user makes are not joined
    if isinstance(dataset, Dataset):
        return dataset, batches, None
    if loader._dataset_kind == _DatasetKind.Iterable:
        if size is None:
            return ElementShare(dataset, world, rank), own | {"batch_size": None}, None
        global_batch = size if whole_batches else size * world
        share = StreamShare(dataset, global_batch, world, rank, loader.drop_last)
        return share, own | {"batch_size": None}, None
    order = stock_order(loader.batch_sampler)
    if order is not None:
        return dataset, batches | {"shuffle": order.shuffle} | ({"seed": seed} if order.shuffle else {}), None
    if type(loader.batch_sampler) is data.BatchSampler:
        assert seed is not None, "`draws_order` asked for one"
        return dataset, batches, SharedOrder(loader.sampler, seed)
    if loader.batch_sampler is None:
        return dataset, own | {"batch_size": None, "sampler": EveryNth(loader.sampler, world, rank)}, None
    return dataset, own | {"batch_sampler": EveryNth(loader.batch_sampler, world, rank)}, None
