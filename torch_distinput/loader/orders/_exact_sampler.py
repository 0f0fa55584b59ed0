# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The sampler that a DataLoader with `distributed` shows to frameworks."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch.utils.data import BatchSampler, DistributedSampler

from torch_distinput import _C
from torch_distinput.loader.orders._order import StockOrder, native_indices
from torch_distinput.loader.orders._weighted import WeightedDraws


class Epochs(Protocol):
    """The state with which a loader's next iterator begins, and the epoch that is pinned for it."""

    loaded: dict[str, Any] | None
    pinned: int | None


class ExactSampler(DistributedSampler):
    """The indices of this rank's steps, as a DistributedSampler, so that frameworks do not replace the loader's
    sampler.

    The loader does not read it, because the strategy assigns rows. Its length is that of the rank with the most rows,
    and so equal on all ranks: scripts decide by it whether to run an extra pass. `queue`: the indices that the strategy
    assigned, while a batch sampler around the loader's own is read. `weighted`: what draws the rows, if weights do.
    `listed`: whether indices follow from their number; if their costs decide, only the strategy knows them.
    """

    dataset: Any
    queue: Iterable[list[int]] | None = None
    _ahead = 0  # epochs that had ended when the caller of `set_epoch` began to count at 0

    def __init__(
        self,
        dataset: Any,
        world: int,
        rank: int,
        step_rows: _C.StepRows,
        shuffle: bool,
        seed: int | None,
        epochs: Epochs,
        weighted: WeightedDraws | None = None,
        listed: bool = True,
    ):
        super().__init__(dataset, world, rank, shuffle, seed or 0, drop_last=False)
        self._step_rows, self._epochs, self.weighted, self._listed = step_rows, epochs, weighted, listed
        steps = step_rows.num_steps
        alike = max(steps - 2, 0)  # a tail changes the last two only
        times = {step: alike if step < alike else 1 for step in (0, *range(alike, steps)) if step < steps}
        self.num_samples = sum(count * len(step_rows.rows(step, 0)) for step, count in times.items())
        rows = len(dataset) if weighted is None else weighted.num_samples
        self.total_size = min(sum(count * step_rows.global_valid(step) for step, count in times.items()), rows)

    def num_steps(self) -> int:
        return self._step_rows.num_steps

    def __iter__(self) -> Iterator[int]:
        for part in self.parts():
            yield from part

    def parts(self) -> Iterator[list[int]]:
        """The indices of this rank's part of each step, including those that the tail repeats."""
        if not self._listed:
            raise ValueError(
                "DataLoader: with `balance`, rows are assigned by their costs, which the sampler cannot list."
            )
        order = StockOrder(len(self.dataset), 1, False, self.shuffle, None)
        indices = native_indices(order, self.seed, 0)
        if self.weighted is not None:
            indices = self.weighted.of(indices, self.seed)
        for step in range(self.num_steps()):
            rows = self._step_rows.rows(step, self.rank)
            if (self.shuffle or self.weighted is not None) and rows:
                chosen = indices.select(torch.tensor(rows)).batch(len(rows))
                rows = next(chosen.iterate(epoch=self.epoch)).tolist()
            yield rows

    def set_epoch(self, epoch: int) -> None:
        """Pins the epoch of the loader's next iterator.

        Fabric counts from 0 in each process, also in a resumed training: an epoch below that of the loaded state begins
        such a count.
        """
        loaded = self._epochs.loaded
        if loaded is not None and epoch < loaded["epoch"] + loaded["finished"]:
            self._ahead = loaded["epoch"] + loaded["finished"] - epoch
        super().set_epoch(epoch + self._ahead)
        self._epochs.pinned = self.epoch


class ExactBatches(BatchSampler):
    """The batch sampler of an exact DataLoader: the indices of this rank's part of each step.

    A framework that wants to see them makes a new one, wraps it and passes it to a new loader, which then reads it.
    """

    def __iter__(self) -> Iterator[list[int]]:
        if not isinstance(self.sampler, ExactSampler):  # a framework has exchanged it
            return super().__iter__()
        return self.sampler.parts() if self.sampler.queue is None else iter(self.sampler.queue)

    def __len__(self) -> int:
        return self.sampler.num_steps() if isinstance(self.sampler, ExactSampler) else super().__len__()


def step_rows(rows: int, batch: int, world: int, split: str, tail: str) -> _C.StepRows:
    """The rows that each of `world` ranks gets in each step: of `rows` rows an epoch, `batch` a step over all ranks."""
    return _C.StepRows(_C.Dataset.range(0, rows, 1).batch(batch), world, _C.InputOptions(split=split, tail=tail))


def group_size_and_rank(group: Any) -> tuple[int, int]:
    """Size and rank of a process group; True: of the default group, or 1 and 0 without it."""
    if group is True:
        return (dist.get_world_size(), dist.get_rank()) if dist.is_initialized() else (1, 0)
    return group.size(), group.rank()
