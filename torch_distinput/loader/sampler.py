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
        self,
        dataset: Any,
        world: int,
        rank: int,
        batch: int,
        shuffle: bool,
        seed: int | None,
        tail: str,
        memory: Memory,
    ):
        super().__init__(dataset, world, rank, shuffle, seed or 0, drop_last=False)
        self._batch, self._tail, self._memory = batch, tail, memory
        whole, last = self._split()
        self.num_samples = whole * len(self._places(0, batch)) + len(self._places(whole, last))
        self.total_size = min(whole * batch + last, len(dataset))

    def _split(self) -> tuple[int, int]:
        """How many steps are whole batches; the rows, over all ranks, of a last step that is none (0: there is none).

        With those that `tail="repeat"` adds.
        """
        whole, rest = divmod(len(self.dataset), self._batch)
        if rest == 0 or self._tail == "drop":
            return whole, 0
        if self._tail == "merge" and whole and rest < self.num_replicas:
            return whole - 1, self._batch + rest
        return whole, self._batch if self._tail == "repeat" else rest

    def num_steps(self) -> int:
        whole, last = self._split()
        return whole + (last > 0)

    def _places(self, step: int, rows: int) -> range:
        """Where this rank's part of a step of `rows` lies in the order of the epoch, without repeated rows."""
        size = len(self.dataset)
        share, more = divmod(rows, self.num_replicas)
        begin = step * self._batch + self.rank * share + min(self.rank, more)
        return range(min(begin, size), min(begin + share + (self.rank < more), size))

    def __iter__(self) -> Iterator[int]:
        for part in self.parts():
            yield from part

    def parts(self) -> Iterator[list[int]]:
        """The indices of this rank's part of each step."""
        order = StockOrder(len(self.dataset), self._batch, False, self.shuffle, None)
        whole, last = self._split()
        for step in range(self.num_steps()):
            places = self._places(step, self._batch if step < whole else last)
            if self.shuffle:
                chosen = native_indices(order, self.seed, places.start).take(len(places))
                yield [index.item() for index in chosen.iterate(epoch=self.epoch)]
            else:
                yield list(places)

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

    def __len__(self) -> int:
        return self.sampler.num_steps() if isinstance(self.sampler, ExactSampler) else super().__len__()


def group_size_and_rank(group: Any) -> tuple[int, int]:
    """Size and rank of a process group, a one-dimensional mesh, or True for the default group (one process without
    one)."""
    if isinstance(group, dist.DeviceMesh):
        group = group.get_group()
    if group is True:
        return (dist.get_world_size(), dist.get_rank()) if dist.is_initialized() else (1, 0)
    return group.size(), group.rank()
