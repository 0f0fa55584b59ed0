# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The sampler that a DataLoader with `distributed` shows to frameworks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch.utils.data import BatchSampler, DistributedSampler

from torch_distinput.loader.order import StockOrder, native_indices

if TYPE_CHECKING:
    from torch_distinput.loader.memory import Memory


class ExactSampler(DistributedSampler):
    """A DistributedSampler that repeats and drops no row. Frameworks that find one do not replace the loader's sampler.

    The loader does not read it, because the strategy assigns rows. Iterating it yields the indices of this rank's rows.
    `queue`: while an iterator of the loader is opened, the indices that its steps are assigned.
    """

    dataset: Any  # of the user's
    queue: Iterable[list[int]] | None = None
    _ahead = 0  # epochs that were over when whoever counts them began at 0

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
        for part in self.parts():
            yield from part

    def parts(self) -> Iterator[list[int]]:
        """The indices of this rank's part of each step."""
        order = StockOrder(len(self.dataset), self._batch, False, self.shuffle, None)
        for first in range(0, order.size, order.batch_size):
            rows = min(order.batch_size, order.size - first)
            begin = first + self.rank * (rows // self.num_replicas) + min(self.rank, rows % self.num_replicas)
            count = self._share(rows)
            if self.shuffle:
                chosen = native_indices(order, self.seed, begin).take(count)
                yield [index.item() for index in chosen.iterate(epoch=self.epoch)]
            else:
                yield list(range(begin, begin + count))

    def set_epoch(self, epoch: int) -> None:
        """Pins the epoch of the loader's next iterator.

        Fabric counts the epochs of a process, not of a training: a number below that of the state that the next
        iterator begins with is the first of such a count.
        """
        loaded = self._memory.loaded
        if loaded is not None and epoch < loaded["epoch"] + loaded["finished"]:
            self._ahead = loaded["epoch"] + loaded["finished"] - epoch
        super().set_epoch(epoch + self._ahead)
        self._memory.pinned = self.epoch


class ExactBatches(BatchSampler):
    """The batch sampler of an exact DataLoader: the indices of this rank's part of each step.

    A framework that wants to know them makes one anew, wraps it and passes it to a new loader, which then reads it.
    """

    def __iter__(self) -> Iterator[list[int]]:
        if not isinstance(self.sampler, ExactSampler):  # a framework has exchanged it
            return super().__iter__()
        return self.sampler.parts() if self.sampler.queue is None else iter(self.sampler.queue)


def group_size_and_rank(group: Any) -> tuple[int, int]:
    """Size and rank of a process group, a one-dimensional mesh, or True for the default group (one process without
    one)."""
    if isinstance(group, dist.DeviceMesh):
        group = group.get_group()
    if group is True:
        return (dist.get_world_size(), dist.get_rank()) if dist.is_initialized() else (1, 0)
    return group.size(), group.rank()
