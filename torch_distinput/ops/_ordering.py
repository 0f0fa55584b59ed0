# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Ops that choose elements by their place and bring them into another order."""

from collections.abc import Sequence

import numpy
import torch

from torch_distinput.base._arguments import flag, integer, optional_integer
from torch_distinput.ops._base import Call, Dataset, Ops, remember
from torch_distinput.ops._description import described


class OrderingOps(Ops[Dataset]):
    """Which elements a `Dataset` has, how often and in which order."""

    @described
    def shuffle(
        self,
        buffer_size: int | None = None,
        seed: int | None = None,
        reshuffle_each_iteration: bool = True,
        *,
        blocks: int | None = None,
    ) -> Dataset:
        """Elements in random order: a pure function of seed, epoch and position, whatever the number of threads.

        Args:
            buffer_size: how far an element may move, in elements, at least 1. None shuffles all elements, in constant
                memory, and needs a known length (else ValueError).
            seed: makes the order reproducible; None uses the seed of the options, else one that is drawn once.
            reshuffle_each_iteration: whether each epoch and each round of `repeat` has another order.
            blocks: shuffles blocks of rows (row groups of Parquet, about 8 MiB of other data), at least 1, without
                `buffer_size`. Blocks are dealt to lanes, 64 to 1,024, which take turns; each lane goes through its
                blocks in random order, and through their rows in windows of so many blocks. So few blocks are in use
                at a time, each is read once an epoch, and `split="lanes"` has it read by one process. `explain`
                prints the lanes, the memory, and how far batches are from those of a full shuffle.

        >>> sorted(int(number) for number in tdi.Dataset.range(5).shuffle(seed=7))
        [0, 1, 2, 3, 4]
        """
        op = "shuffle"
        buffer_size, seed = optional_integer(op, "buffer_size", buffer_size), optional_integer(op, "seed", seed)
        reshuffle = flag(op, "reshuffle_each_iteration", reshuffle_each_iteration)
        blocks = optional_integer(op, "blocks", blocks)
        return self._wrapped(self._native.shuffle(buffer_size, seed, reshuffle, blocks))

    @described
    def sample(
        self,
        weights: torch.Tensor | numpy.ndarray | Sequence[float],
        num_samples: int,
        replacement: bool = True,
        seed: int | None = None,
    ) -> Dataset:
        """`num_samples` elements, each drawn at random with a probability in proportion to its weight.

        Draw k of an epoch is a function of seed, epoch and k alone, so any number of ranks shares the draws, and a
        position is one number. The draws are not those of `torch.multinomial`. With replacement, a table that is made
        once makes each draw O(1); it takes 16 bytes an element. Without, an epoch's first draw orders the elements.
        The dataset must have random access (ValueError): sample before `filter` and the like, and before random ops,
        whose numbers belong to rows: after them a row that is drawn twice is changed twice in the same way.

        Args:
            weights: one for each element, finite and at least 0, not all 0; copied, and used as float64.
            num_samples: elements of an epoch, at least 1; without replacement at most the number of weights above 0.
            replacement: whether an element may be drawn more than once in an epoch.
            seed: makes the draws reproducible; None uses the seed of the options, else one that is drawn once.

        >>> [int(number) for number in tdi.Dataset.range(4).sample([0, 1, 0, 0], num_samples=3)]
        [1, 1, 1]
        """
        num_samples, seed = integer("sample", "num_samples", num_samples), optional_integer("sample", "seed", seed)
        replacement = flag("sample", "replacement", replacement)
        found = _weights(weights)
        sampled = self._wrapped(self._native.sample(found, num_samples, replacement, seed))
        kept = found.clone() if isinstance(weights, (torch.Tensor, numpy.ndarray)) else found
        remember(sampled, Call("sample", (self, kept, num_samples, replacement, seed), {}))
        return sampled

    @described
    def repeat(self, count: int | None = None) -> Dataset:
        """The dataset `count` times; None or -1: without end.

        >>> [int(number) for number in tdi.Dataset.range(2).repeat(2)]
        [0, 1, 0, 1]
        """
        return self._wrapped(self._native.repeat(optional_integer("repeat", "count", count)))

    @described
    def take(self, count: int) -> Dataset:
        """The first `count` elements; -1: all.

        >>> [int(number) for number in tdi.Dataset.range(5).take(2)]
        [0, 1]
        """
        return self._wrapped(self._native.take(integer("take", "count", count)))

    @described
    def skip(self, count: int) -> Dataset:
        """All but the first `count` elements; -1: no element.

        >>> [int(number) for number in tdi.Dataset.range(5).skip(3)]
        [3, 4]
        """
        return self._wrapped(self._native.skip(integer("skip", "count", count)))

    @described
    def shard(self, num_shards: int, index: int) -> Dataset:
        """Every `num_shards`-th element, beginning with element `index`; 0 <= index < num_shards.

        `shard(SHARD_HINT, 0)` marks the place where `AutoShardPolicy.HINT` puts the number of workers and the index of
        each worker.

        >>> [int(number) for number in tdi.Dataset.range(7).shard(3, 1)]
        [1, 4]
        """
        num_shards, index = integer("shard", "num_shards", num_shards), integer("shard", "index", index)
        return self._wrapped(self._native.shard(num_shards, index))

    @described
    def enumerate(self, start: int = 0) -> Dataset:
        """Pairs `(number, element)`; numbers are int64 scalars, counted from `start`.

        >>> list(tdi.Dataset.from_tensor_slices(["a", "b"]).enumerate())
        [(tensor(0), 'a'), (tensor(1), 'b')]
        """
        return self._wrapped(self._native.enumerate(integer("enumerate", "start", start)))

    @described
    def unique(self) -> Dataset:
        """Each distinct element once, where it comes first. Keeps the elements in memory; resuming reads them again.

        >>> list(tdi.Dataset.from_tensor_slices(["a", "b", "a"]).unique())
        ['a', 'b']
        """
        return self._wrapped(self._native.unique())

    @described
    def assert_cardinality(self, expected_cardinality: int) -> Dataset:
        """Declares how many elements there are, or `INFINITE`, so that `len` and `cardinality` know it.

        Reading raises FailedPreconditionError where the data turns out to be longer or shorter.

        >>> len(tdi.Dataset.range(5).filter(lambda n: n < 3).assert_cardinality(3))
        3
        """
        size = integer("assert_cardinality", "expected_cardinality", expected_cardinality)
        return self._wrapped(self._native.assert_cardinality(size))


def _weights(weights: object) -> torch.Tensor:
    """`weights` as a tensor. Raises TypeError for what is none of numbers."""
    try:
        return torch.as_tensor(weights)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"sample: `weights` must be a tensor, an array or a list of numbers, but is a {type(weights).__name__}."
        ) from None
