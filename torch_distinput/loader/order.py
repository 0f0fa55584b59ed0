# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The order of an epoch: which draws it takes from which generator, and its lists of indices."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

from torch_distinput import _C
from torch_distinput.loader.draws import Drawn, Draws, draw_seed
from torch_distinput.loader.stateful import has_state

# Up to here torch.randperm takes 32 random bits for an element, from there on 64.
_SMALL_PERMUTATION = (2**32 - 1) // 20
_BURN = 1 << 16


@dataclass
class Start:
    """Where an iterator begins: an epoch, and what was handed out of it before.

    `begin`, `first`: the generators before the iterator was made, and before its order was drawn. `after`: torch's own
    after the last draw. `base_seed`: of the workers, where that is known. `saved`: the state that was loaded, if any.
    `state`: the same if the epoch goes on in it. `at_end`: a state of the dataset or the sampler was loaded that was
    saved when an epoch had ended, or before it began. Some then stand at the end, and have one more iteration without
    anything. `reuses`: the sampler is iterated as by an iterator that is used again, which torch does once and without
    drawing a seed for workers before; a sampler may draw right then. `resized`: for each change of the batch size, the
    batches of the iterator before it, the row after them and the new size.
    """

    epoch: int = 0
    batches: int = 0
    rows: int = 0
    begin: Drawn = Drawn()
    first: Drawn | None = None
    after: torch.Tensor | None = None
    base_seed: int | None = None
    saved: dict[str, Any] | None = None
    state: dict[str, Any] | None = None
    at_end: bool = False
    reuses: bool = False
    resized: list[tuple[int, int, int]] = field(default_factory=list)

    def row_after(self, batches: int, batch_size: int) -> int:
        """Rows handed out once the iterator, which began with `batch_size`, has yielded `batches`."""
        before, row = 0, self.rows
        for change, first, size in self.resized:
            if change <= batches:
                before, row, batch_size = change, first, size
        return row + (batches - before) * batch_size


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


def open_indices(
    index_sampler: Any, sampler_iter: Iterator, start: Start, draws: Draws, seed: int | None
) -> Iterator[Any]:
    """What torch would get from `iter(index_sampler)`, from `start` on, with the same draws at the same time.

    Args:
        sampler_iter: `iter(index_sampler)`, fresh.
        seed: the loader's own; orders the rows of a RandomSampler instead of a generator.
    """
    order = stock_order(index_sampler)
    if order is None:
        indices = _sampled(index_sampler, sampler_iter, start, draws)
        if type(index_sampler) is BatchSampler:
            return _noting_sizes(index_sampler, index_sampler.batch_size, indices, start)
        return indices
    bounds = _bounds(index_sampler, order, start)
    if not order.shuffle:
        return (list(range(begin, end)) for begin, end, _ in bounds)
    return _seeded(order, start, seed, bounds) if seed is not None else _shuffled(order, start, draws, bounds)


def native_indices(order: StockOrder, seed: int | None, rows: int) -> _C.Dataset:
    """The indices of an epoch from row `rows` on, shuffled in the native order if `order` is."""
    indices = _C.Dataset.range(0, order.size)
    return (indices.shuffle(None, seed, True) if order.shuffle else indices).skip(rows)


def _shuffled(
    order: StockOrder, start: Start, draws: Draws, bounds: Iterator[tuple[int, int, int]]
) -> Iterator[list[int]]:
    """As RandomSampler, but batches are cut from a tensor."""
    draws.before_first(start)
    generator = order.generator
    if generator is None:
        generator = torch.Generator().manual_seed(draws.seed(start))
    permutation = torch.randperm(order.size, generator=generator).numpy()  # faster to cut
    whole = True
    for begin, end, size in bounds:
        if end - begin < size:
            whole = False
            _end_permutation(order)
        yield permutation[begin:end].tolist()
    if whole:
        _end_permutation(order)


def _end_permutation(order: StockOrder) -> None:
    """torch's sampler draws another order to find that it has ended."""
    if order.generator is not None:
        burn_permutation(order.generator, order.size)


def _seeded(
    order: StockOrder, start: Start, seed: int, bounds: Iterator[tuple[int, int, int]]
) -> Iterator[list[int]]:
    batches, batch_size = None, None
    for begin, _, size in bounds:
        if size != batch_size:
            batch_size = size
            batches = native_indices(order, seed, begin).batch(size, order.drop_last).iterate(epoch=start.epoch)
        yield next(batches).tolist()


def _bounds(index_sampler: BatchSampler, order: StockOrder, start: Start) -> Iterator[tuple[int, int, int]]:
    """Where the batches begin and end, with their batch size. torch's sampler looks at its batch size for each of them,
    or for the first one only where it drops the last batch."""
    size, begin, batches = order.batch_size, start.rows, 0
    while begin < order.size:
        if index_sampler.batch_size != size and not (order.drop_last and batches):
            size = checked_batch_size(index_sampler.batch_size)
            start.resized.append((batches, begin, size))
        end = begin + size
        if end > order.size:
            if order.drop_last:
                return
            end = order.size
        yield begin, end, size
        begin, batches = end, batches + 1


def checked_batch_size(size: Any) -> int:
    """A batch size that was set while a sampler was in use. Raises ValueError where it is none."""
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise ValueError(f"batch_size should be a positive integer value, but got batch_size={size}")
    return size


def _noting_sizes(
    index_sampler: BatchSampler, size: int, indices: Iterator[list], start: Start
) -> Iterator[list]:
    """`indices` of a sampler whose batch size, at first `size`, may be set meanwhile; the position has to know it."""
    row, drop_last = start.rows, index_sampler.drop_last
    for batches, batch in enumerate(indices):
        if index_sampler.batch_size != size and not (drop_last and batches):
            size = index_sampler.batch_size
            start.resized.append((batches, row, size))
        yield batch
        row += len(batch)


def _sampled(index_sampler: Any, sampler_iter: Iterator, start: Start, draws: Draws) -> Iterator[Any]:
    """Any sampler. One without a state of its own is asked again for what was handed out before."""
    stateful = has_state(index_sampler) or has_state(getattr(index_sampler, "sampler", None))
    if stateful:
        if start.state is not None and start.state["ended"]:
            draws.before_first(start)
            return
        indices = sampler_iter
    else:
        draws.before_first(start)
        drawn = _with_drawn_generator(index_sampler, start, draws)
        if drawn is not index_sampler:
            index_sampler, sampler_iter = drawn, iter(drawn)
        indices = _skipped(index_sampler, sampler_iter, start) if start.batches else sampler_iter
    again = draws.snapshot() if stateful and start.at_end else None
    pull = indices.__next__
    while True:
        try:
            index = draws.call(pull, start)
        except StopIteration:
            if again is None:
                return
            draws.restore(_after_the_end(again, start))
            again, pull = None, iter(index_sampler).__next__
            continue
        again = None
        yield index


def _after_the_end(drawn: Drawn, start: Start) -> Drawn:
    """Where the next epoch draws from, after what was left of the one before was asked for in vain."""
    return drawn if start.saved is None else dataclasses.replace(drawn, sampler=start.saved["sampler_generator"])


def _with_drawn_generator(index_sampler: Any, start: Start, draws: Draws) -> Any:
    """A RandomSampler without a generator gets the one that it would make for itself."""
    batched = type(index_sampler) is BatchSampler
    sampler = index_sampler.sampler if batched else index_sampler
    if type(sampler) is not RandomSampler or sampler.generator is not None:
        return index_sampler
    sampler = copy.copy(sampler)
    sampler.generator = torch.Generator().manual_seed(draws.seed(start))
    return _Batches(index_sampler, sampler) if batched else sampler


def _skipped(index_sampler: Any, sampler_iter: Iterator, start: Start) -> Iterator[Any]:
    """Lazily, because a sampler may draw when its iterator is made."""
    if isinstance(index_sampler, _Batches) or type(index_sampler) is BatchSampler:
        yield from _Batches(index_sampler, itertools.islice(iter(index_sampler.sampler), start.rows, None))
    else:
        yield from itertools.islice(sampler_iter, start.batches, None)


class _Batches(BatchSampler):
    """As another batch sampler, whatever its batch size is at the time, over other rows."""

    def __init__(self, settings: BatchSampler, sampler: Any):
        self._settings, self.sampler = settings, sampler

    @property
    def batch_size(self) -> int:
        return self._settings.batch_size

    @property
    def drop_last(self) -> bool:
        return self._settings.drop_last
