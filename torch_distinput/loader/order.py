# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The order of an epoch: which draws it takes from which generator, and its lists of indices."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

from torch_distinput import _C

# Up to here torch.randperm takes 32 random bits for an element, from there on 64.
_SMALL_PERMUTATION = (2**32 - 1) // 20
_BURN = 1 << 16


@dataclass
class Start:
    """Where an iterator begins: an epoch, and what was handed out of it before.

    `drawn`: the seed that a RandomSampler without a generator drew; None until it is drawn. `rng`: torch's own state
    before another sampler was asked for its first index. `state`: what was loaded, if anything.
    """

    epoch: int = 0
    batches: int = 0
    rows: int = 0
    drawn: int | None = None
    rng: torch.Tensor | None = None
    state: dict[str, Any] | None = None


@dataclass(frozen=True)
class StockOrder:
    """What torch's own BatchSampler over its own SequentialSampler or RandomSampler stands for."""

    size: int
    batch_size: int
    drop_last: bool
    shuffle: bool
    generator: torch.Generator | None

    @property
    def batches(self) -> int:
        return self.size // self.batch_size if self.drop_last else -(-self.size // self.batch_size)


def stock_order(index_sampler: Any) -> StockOrder | None:
    """`index_sampler` in numbers; None for samplers of other types."""
    if type(index_sampler) is not BatchSampler:
        return None
    sampler = index_sampler.sampler
    shuffle = type(sampler) is RandomSampler
    if not shuffle and type(sampler) is not SequentialSampler:
        return None
    if shuffle and (sampler.replacement or sampler._num_samples is not None):
        return None
    size = len(sampler.data_source)
    generator = sampler.generator if shuffle else None
    return StockOrder(size, index_sampler.batch_size, index_sampler.drop_last, shuffle, generator)


def draw_seed(generator: torch.Generator | None = None) -> int:
    """The draw with which torch seeds something."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


def drawn_generator(start: Start) -> torch.Generator:
    """The generator that RandomSampler makes for an epoch where it has none."""
    drawn = draw_seed()
    start.drawn = drawn if start.drawn is None else start.drawn
    return torch.Generator().manual_seed(start.drawn)


def peek_seed(generator: torch.Generator) -> int:
    """What `draw_seed` would draw; `generator` stays as it is."""
    other = torch.Generator(generator.device)
    other.set_state(generator.get_state())
    return draw_seed(other)


def burn_permutation(generator: torch.Generator, size: int) -> None:
    """Advances `generator` as `torch.randperm(size)` does, in a tenth of its time."""
    dtype = torch.int32 if size < _SMALL_PERMUTATION else torch.int64
    left = size - 1
    buffer = torch.empty(max(0, min(left, _BURN)), dtype=dtype)
    while left > 0:
        buffer[:left].random_(generator=generator)
        left -= _BURN


def open_indices(index_sampler: Any, sampler_iter: Iterator, start: Start, seed: int | None) -> Iterator[Any]:
    """What torch would get from `iter(index_sampler)`, from `start` on, with the same draws at the same time.

    Args:
        sampler_iter: `iter(index_sampler)`, fresh.
        seed: the loader's own; orders the rows of a RandomSampler instead of a generator.
    """
    order = stock_order(index_sampler)
    if order is None:
        return _sampled(index_sampler, sampler_iter, start)
    if not order.shuffle:
        return _sequential(order, start)
    return _seeded(order, start, seed) if seed is not None else _shuffled(order, start)


def native_indices(order: StockOrder, seed: int, rows: int) -> _C.Dataset:
    """The indices of a shuffled epoch in the native order, from row `rows` on."""
    return _C.Dataset.range(0, order.size).shuffle(None, seed, True).skip(rows)


def _sequential(order: StockOrder, start: Start) -> Iterator[list[int]]:
    for begin, end in _bounds(order, start.rows):
        yield list(range(begin, end))


def _shuffled(order: StockOrder, start: Start) -> Iterator[list[int]]:
    """As RandomSampler, but batches are cut from a tensor."""
    generator = order.generator
    if generator is None:
        generator = drawn_generator(start)
    permutation = torch.randperm(order.size, generator=generator).numpy()  # faster to cut
    whole = True
    for begin, end in _bounds(order, start.rows):
        if end - begin < order.batch_size:
            whole = False
            _end_permutation(order)
        yield permutation[begin:end].tolist()
    if whole:
        _end_permutation(order)


def _end_permutation(order: StockOrder) -> None:
    """torch's sampler draws another order to find that it has ended."""
    if order.generator is not None:
        burn_permutation(order.generator, order.size)


def _seeded(order: StockOrder, start: Start, seed: int) -> Iterator[list[int]]:
    batches = native_indices(order, seed, start.rows).batch(order.batch_size, order.drop_last)
    for batch in batches.iterate(epoch=start.epoch):
        yield batch.tolist()


def _bounds(order: StockOrder, first: int) -> Iterator[tuple[int, int]]:
    """Where the batches from row `first` on begin and end."""
    first = min(first, order.size)
    size, last = order.batch_size, order.size - (order.size - first) % order.batch_size
    begins = range(first, last, size)
    whole = zip(begins, range(first + size, last + size, size))
    rest = () if order.drop_last or last == order.size else ((last, order.size),)
    return itertools.chain(whole, rest)


def _sampled(index_sampler: Any, sampler_iter: Iterator, start: Start) -> Iterator[Any]:
    """Any sampler. Without a state of its own it is asked for what was handed out before, under the random numbers
    of then."""
    sampler = index_sampler.sampler if type(index_sampler) is BatchSampler else index_sampler
    if type(sampler) is RandomSampler and sampler.generator is None:
        index_sampler = _with_drawn_generator(index_sampler, sampler, start)
        sampler_iter = iter(index_sampler)
    state = start.state or {}
    if state.get("sampler") is not None:
        if not state["ended"]:
            yield from sampler_iter
        return
    if start.rng is None:
        start.rng = torch.get_rng_state()
        yield from sampler_iter
        return
    now = torch.get_rng_state()
    torch.set_rng_state(start.rng)
    indices = _skipped(index_sampler, sampler_iter, start)
    first = next(indices, None)
    torch.set_rng_state(now)
    if first is not None:
        yield first
        yield from indices


def _with_drawn_generator(index_sampler: Any, sampler: RandomSampler, start: Start) -> Any:
    """The sampler with the generator that it would make for itself."""
    sampler = copy.copy(sampler)
    sampler.generator = drawn_generator(start)
    if type(index_sampler) is BatchSampler:
        return BatchSampler(sampler, index_sampler.batch_size, index_sampler.drop_last)
    return sampler


def _skipped(index_sampler: Any, sampler_iter: Iterator, start: Start) -> Iterator[Any]:
    if type(index_sampler) is BatchSampler:
        rows = itertools.islice(iter(index_sampler.sampler), start.rows, None)
        return iter(BatchSampler(rows, index_sampler.batch_size, index_sampler.drop_last))
    return itertools.islice(sampler_iter, start.batches, None)
