# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Laws that every pipeline obeys, and the building blocks of distribution, for tests."""

from torch_distinput import _C
from torch_distinput._C import AutoShardPolicy
from torch_distinput.dataset import Dataset

__all__ = [
    "assert_lanes_agree",
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
    _C.testing.assert_resumable(dataset._native, ordered, max_elements)


def assert_lanes_agree(dataset: Dataset, max_elements: int = 200) -> None:
    """Random access and reading element by element give identical elements; raises AssertionError if not."""
    _C.testing.assert_lanes_agree(dataset._native, max_elements)


def batch_sizes_for_worker(
    global_batch_size: int, num_workers: int, num_replicas_per_worker: int, worker_index: int
) -> list[int]:
    """The sizes that a worker cuts global batches into, taken in turn."""
    return _C.testing.batch_sizes_for_worker(global_batch_size, num_workers, num_replicas_per_worker, worker_index)


def infer_batch_size(dataset: Dataset) -> int:
    """The global batch size as tf.distribute infers it, or -1."""
    return _C.testing.infer_batch_size(dataset._native)


def legacy_rebatch(dataset: Dataset, num_replicas: int) -> Dataset:
    """Every batch cut into `num_replicas` parts of ceil(rows / num_replicas)."""
    return Dataset(_C.testing.legacy_rebatch(dataset._native, num_replicas))


def auto_shard(
    dataset: Dataset, num_workers: int, worker_index: int, policy: AutoShardPolicy = AutoShardPolicy.AUTO
) -> Dataset:
    """What a worker reads under `policy`, without splitting batches over its replicas."""
    return Dataset(_C.testing.auto_shard(dataset._native, num_workers, worker_index, AutoShardPolicy(policy)))


def worker_stream(
    dataset: Dataset,
    num_workers: int,
    num_replicas_per_worker: int,
    worker_index: int,
    policy: AutoShardPolicy = AutoShardPolicy.AUTO,
) -> Dataset:
    """The stream of parts of a worker of R replicas: part k goes to local replica k mod R at step k div R."""
    parts = _C.testing.worker_stream(
        dataset._native, num_workers, num_replicas_per_worker, worker_index, AutoShardPolicy(policy)
    )
    return Dataset(parts)
