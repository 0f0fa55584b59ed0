# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Checks of the laws that every pipeline obeys, and the building blocks of distribution, for tests.

Each function raises TypeError for an argument of the wrong type and ValueError for one out of range.
"""

from torch_distinput import _C
from torch_distinput._C import AutoShardPolicy
from torch_distinput.base._arguments import flag, integer
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.ops._base import checked_native
from torch_distinput.ops._description import described

__all__ = [
    "assert_paths_agree",
    "assert_resumable",
    "auto_shard",
    "batch_sizes_for_worker",
    "infer_batch_size",
    "legacy_rebatch",
    "worker_stream",
]


def assert_resumable(dataset: Dataset, ordered: bool = True, max_elements: int = 200) -> None:
    """Checks the resume law: saves after every element, restores each save in a fresh iterator, compares the rest.

    Args:
        dataset: read several times.
        ordered: whether the order counts; False compares the rest as a multiset.
        max_elements: how many elements of the epoch are read at most.

    Raises AssertionError that names the first position after which the rest differs.

    >>> tdi.testing.assert_resumable(tdi.Dataset.range(5).shuffle(seed=7).batch(2))
    """
    op = "assert_resumable"
    ordered, most = flag(op, "ordered", ordered), integer(op, "max_elements", max_elements)
    _C.testing.assert_resumable(checked_native(op, "dataset", dataset), ordered, most)


def assert_paths_agree(dataset: Dataset, max_elements: int = 200) -> None:
    """Checks that random access and the sequential path yield identical elements; compares the first `max_elements`.

    Raises AssertionError at the first difference.

    >>> tdi.testing.assert_paths_agree(tdi.Dataset.range(5).shuffle(seed=7).batch(2))
    """
    op = "assert_paths_agree"
    _C.testing.assert_paths_agree(checked_native(op, "dataset", dataset), integer(op, "max_elements", max_elements))


def batch_sizes_for_worker(
    global_batch_size: int, num_workers: int, num_replicas_per_worker: int, worker_index: int
) -> list[int]:
    """The sizes, taken in turn, into which a worker cuts its rows for its replicas.

    As tf.distribute's `batch_sizes_for_worker` (`tensorflow/python/data/experimental/ops/distribute.py`).

    >>> tdi.testing.batch_sizes_for_worker(5, num_workers=1, num_replicas_per_worker=2, worker_index=0)
    [3, 2]
    """
    op = "batch_sizes_for_worker"
    return _C.testing.batch_sizes_for_worker(
        integer(op, "global_batch_size", global_batch_size),
        integer(op, "num_workers", num_workers),
        integer(op, "num_replicas_per_worker", num_replicas_per_worker),
        integer(op, "worker_index", worker_index),
    )


def infer_batch_size(dataset: Dataset) -> int:
    """The global batch size as tf.distribute infers it from the ops of `dataset`; -1 where the ops do not tell.

    Raises ValueError for elements without rows.

    >>> tdi.testing.infer_batch_size(tdi.Dataset.range(5).batch(2))
    2
    """
    return _C.testing.infer_batch_size(checked_native("infer_batch_size", "dataset", dataset))


@described
def legacy_rebatch(dataset: Dataset, num_replicas: int) -> Dataset:
    """Each batch cut into `num_replicas` parts of ceil(rows / num_replicas), as tf.distribute's legacy splitter does.

    >>> list(tdi.testing.legacy_rebatch(tdi.Dataset.range(3).batch(3), 2))
    [tensor([0, 1]), tensor([2])]
    """
    op = "legacy_rebatch"
    return Dataset(
        _C.testing.legacy_rebatch(checked_native(op, "dataset", dataset), integer(op, "num_replicas", num_replicas))
    )


@described
def auto_shard(
    dataset: Dataset, num_workers: int, worker_index: int, policy: AutoShardPolicy = AutoShardPolicy.AUTO
) -> Dataset:
    """The elements that a worker reads under `policy`, before batches are split over its replicas.

    >>> list(tdi.testing.auto_shard(tdi.Dataset.range(4), num_workers=2, worker_index=1))
    [tensor(1), tensor(3)]
    """
    op = "auto_shard"
    workers, worker = integer(op, "num_workers", num_workers), integer(op, "worker_index", worker_index)
    return Dataset(
        _C.testing.auto_shard(checked_native(op, "dataset", dataset), workers, worker, AutoShardPolicy(policy))
    )


@described
def worker_stream(
    dataset: Dataset,
    num_workers: int,
    num_replicas_per_worker: int,
    worker_index: int,
    policy: AutoShardPolicy = AutoShardPolicy.AUTO,
) -> Dataset:
    """The stream of parts of a worker with R replicas: part k goes to local replica k mod R at step k div R.

    >>> list(tdi.testing.worker_stream(tdi.Dataset.range(4).batch(4), 1, num_replicas_per_worker=2, worker_index=0))
    [tensor([0, 1]), tensor([2, 3])]
    """
    op = "worker_stream"
    parts = _C.testing.worker_stream(
        checked_native(op, "dataset", dataset),
        integer(op, "num_workers", num_workers),
        integer(op, "num_replicas_per_worker", num_replicas_per_worker),
        integer(op, "worker_index", worker_index),
        AutoShardPolicy(policy),
    )
    return Dataset(parts)
