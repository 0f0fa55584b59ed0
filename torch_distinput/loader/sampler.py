# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The sampler that a DataLoader with `distributed` shows to frameworks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch.utils.data import DistributedSampler

from torch_distinput.loader.order import StockOrder, native_indices

if TYPE_CHECKING:
    from torch_distinput.loader.memory import Memory


class ExactSampler(DistributedSampler):
    """A DistributedSampler that repeats and drops no row. Frameworks that find one do not replace the loader's sampler.

    The loader does not read it, because the strategy assigns rows. Iterating it yields the indices of this rank's rows.
    """

    dataset: Any  # of the user's

    def __init__(
        self, dataset: Any, world: int, rank: int, batch: int, shuffle: bool, seed: int | None, memory: Memory
    ):
        super().__init__(dataset, world, rank, shuffle, seed or 0, drop_last=False)
        self._batch, self._memory = batch, memory
        size = len(dataset)
        whole, rest = divmod(size, batch)
        self.num_samples = whole * self._share(batch) + self._share(rest)
        self.total_size = size

    def _share(self, rows: int) -> int:
        return rows // self.num_replicas + (self.rank < rows % self.num_replicas)

    def __iter__(self) -> Iterator[int]:
        order = StockOrder(len(self.dataset), self._batch, False, self.shuffle, None)
        for first in range(0, order.size, order.batch_size):
            rows = min(order.batch_size, order.size - first)
            begin = first + self.rank * (rows // self.num_replicas) + min(self.rank, rows % self.num_replicas)
            count = self._share(rows)
            if self.shuffle:
                chosen = native_indices(order, self.seed, begin).take(count)
                yield from (index.item() for index in chosen.iterate(epoch=self.epoch))
            else:
                yield from range(begin, begin + count)

    def set_epoch(self, epoch: int) -> None:
        """Pins the epoch of the loader's next iterator."""
        super().set_epoch(epoch)
        self._memory.pinned = epoch


def group_size_and_rank(group: Any) -> tuple[int, int]:
    """Size and rank of a process group, a one-dimensional mesh, or True for the default group (one process without
    one)."""
    if isinstance(group, dist.DeviceMesh):
        group = group.get_group()
    if group is True:
        return (dist.get_world_size(), dist.get_rank()) if dist.is_initialized() else (1, 0)
    return group.size(), group.rank()
