# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The part of one process in samplers and streams that every process reads whole."""

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import IterableDataset

from torch_distinput.loader.orders._exact_sampler import step_rows


class SharedOrder:
    """The order of a sampler that is the same on all processes: a function of a seed and the epoch."""

    def __init__(self, sampler: Any, seed: int):
        self._sampler, self._seed = sampler, seed
        self.rows = torch.zeros(len(sampler), dtype=torch.int64)

    def draw(self, epoch: int) -> None:
        """Fills `rows` with the indices of `epoch`. Raises ValueError if the sampler yields more or fewer than its
        length."""
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(self._seed + epoch)
            if isinstance(getattr(self._sampler, "generator", None), torch.Generator):
                self._sampler.generator.manual_seed(self._seed + epoch)
            if callable(getattr(self._sampler, "set_epoch", None)):
                self._sampler.set_epoch(epoch)
            indices = list(self._sampler)
        if len(indices) != len(self.rows):
            raise ValueError(
                "DataLoader: `sampler` must yield as many indices as its length says, but a "
                f"{type(self._sampler).__name__} of length {len(self.rows)} yielded {len(indices)}."
            )
        self.rows.copy_(torch.tensor(indices, dtype=torch.int64))


class Share:
    """The part of one process in a stream or sampler, `dataset`, that all processes read."""

    def __init__(self, dataset: Any, world: int, rank: int):
        self.dataset, self._world, self._rank = dataset, world, rank

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(iter(self.dataset), self._rank, None, self._world)

    def num_steps(self) -> int:
        """The number of parts of the process with the most; TypeError if the data has no length."""
        return -(-len(self.dataset) // self._world)

    def set_epoch(self, epoch: int) -> None:
        """Passes the epoch on to streams and samplers that count epochs."""
        if callable(getattr(self.dataset, "set_epoch", None)):
            self.dataset.set_epoch(epoch)


class EveryNth(Share):
    """The items of a sampler that belong to this process: processes take turns."""


class ElementShare(Share, IterableDataset):
    """The batches of a stream that belong to this process: processes take turns."""


class StreamShare(Share, IterableDataset):
    """The part of one process in each global batch of a stream that all processes read: a list of samples.

    A last global batch with fewer samples than processes is joined to the one before it, so that no process gets an
    empty part, unless it is the only one.
    """

    def __init__(self, dataset: Any, global_batch: int, world: int, rank: int, drop_last: bool):
        super().__init__(dataset, world, rank)
        self._batch, self._drop_last = global_batch, drop_last

    def __iter__(self) -> Iterator[list]:
        for samples in self._global_batches():
            part = _part(len(samples), self._world, self._rank)
            if part:
                yield [samples[row] for row in part]

    def _global_batches(self) -> Iterator[list]:
        stream = iter(self.dataset)
        held = list(itertools.islice(stream, self._batch))
        while len(held) >= self._batch:
            following = list(itertools.islice(stream, self._batch))
            if len(following) >= self._world:
                yield held
                held = following
            else:
                held += [] if self._drop_last else following
                break
        if held and (len(held) >= self._batch or not self._drop_last):
            yield held

    def num_steps(self) -> int:
        tail = "drop" if self._drop_last else "merge"
        return step_rows(len(self.dataset), self._batch, self._world, "balanced", tail).num_steps


@functools.lru_cache(maxsize=8)  # all global batches but the last are of one size
def _part(rows: int, world: int, rank: int) -> list[int]:
    """The rows of one global batch that rank `rank` gets."""
    return step_rows(rows, rows, world, "balanced", "zero_rows").rows(0, rank)
