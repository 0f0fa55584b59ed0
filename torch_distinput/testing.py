# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Laws that every pipeline obeys, and the building blocks of distribution, for tests."""

from torch_distinput import _C
from torch_distinput._arguments import flag, instance, integer
from torch_distinput._C import AutoShardPolicy
from torch_distinput.dataset import Dataset

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
    """Runs one epoch, saves after every element, restores each save in a fresh iterator and compares the rest.

    Raises AssertionError at the first position that differs. Order matters unless `ordered` is False; at most
    `max_elements` are looked at.
    """
    op = "assert_resumable"
    ordered, most = flag(op, "ordered", ordered), integer(op, "max_elements", max_elements)
    _C.testing.assert_resumable(_native(op, dataset), ordered, most)


def assert_paths_agree(dataset: Dataset, max_elements: int = 200) -> None:
    """Random access and reading element by element give identical elements; raises AssertionError if not."""
    op = "assert_paths_agree"
    _C.testing.assert_paths_agree(_native(op, dataset), integer(op, "max_elements", max_elements))


def batch_sizes_for_worker(
    global_batch_size: int, num_workers: int, num_replicas_per_worker: int, worker_index: int
) -> list[int]:
    """The sizes that a worker cuts global batches into, taken in turn."""
    op = "batch_sizes_for_worker"
    return _C.testing.batch_sizes_for_worker(
        integer(op, "global_batch_size", global_batch_size),
        integer(op, "num_workers", num_workers),
        integer(op, "num_replicas_per_worker", num_replicas_per_worker),
        integer(op, "worker_index", worker_index),
    )


def infer_batch_size(dataset: Dataset) -> int:
    """The global batch size as tf.distribute infers it, or -1."""
    return _C.testing.infer_batch_size(_native("infer_batch_size", dataset))


def legacy_rebatch(dataset: Dataset, num_replicas: int) -> Dataset:
    """Every batch cut into `num_replicas` parts of ceil(rows / num_replicas)."""
    op = "legacy_rebatch"
    return Dataset(_C.testing.legacy_rebatch(_native(op, dataset), integer(op, "num_replicas", num_replicas)))


def auto_shard(
    dataset: Dataset, num_workers: int, worker_index: int, policy: AutoShardPolicy = AutoShardPolicy.AUTO
) -> Dataset:
    """What a worker reads under `policy`, without splitting batches over its replicas."""
    op = "auto_shard"
    workers, worker = integer(op, "num_workers", num_workers), integer(op, "worker_index", worker_index)
    return Dataset(_C.testing.auto_shard(_native(op, dataset), workers, worker, AutoShardPolicy(policy)))


def worker_stream(
    dataset: Dataset,
    num_workers: int,
    num_replicas_per_worker: int,
    worker_index: int,
    policy: AutoShardPolicy = AutoShardPolicy.AUTO,
) -> Dataset:
    """The stream of parts of a worker of R replicas: part k goes to local replica k mod R at step k div R."""
    op = "worker_stream"
    parts = _C.testing.worker_stream(
        _native(op, dataset),
        integer(op, "num_workers", num_workers),
        integer(op, "num_replicas_per_worker", num_replicas_per_worker),
        integer(op, "worker_index", worker_index),
        AutoShardPolicy(policy),
    )
    return Dataset(parts)


def _native(op: str, dataset: Dataset) -> _C.Dataset:
    return instance(op, "dataset", dataset, Dataset)._native
