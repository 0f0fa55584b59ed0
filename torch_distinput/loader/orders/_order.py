# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The order of an epoch: which draws it takes from which generator, and its lists of indices."""

import copy
import dataclasses
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

from torch_distinput import _C
from torch_distinput.loader.orders._draws import Drawn, Draws, draw_seed
from torch_distinput.recognize._stateful import has_state

# torch.randperm takes 32 random bits an element below this size, else 64.
_SMALL_PERMUTATION = (2**32 - 1) // 20
_BURN = 1 << 16
_COUNTED = 1 << 14  # rows


@dataclass
class Start:
    """Where an iterator begins: an epoch, and how many of its batches and rows were yielded before.

    `begin`, `first`: the generators' states before the iterator was made, and before its order was drawn. `after`: the
    state of torch's own generator after the last draw. `base_seed`: the workers', if known. `saved`: the loaded state,
    if any. `state`: the same, if the epoch continues from it. `at_end`: the states of dataset and sampler were saved
    between two epochs; some objects are then at their end and need one empty iteration first. `reuses`: continues as a
    reused iterator (persistent workers): torch then calls `iter(sampler)` once without first drawing the workers' seed,
    and that call may itself draw. `resized`: for each change of the batch size, the iterator's batches before it, the
    row after them, the new size. `permutation`: what drew a shuffled epoch, "torch" (`torch.randperm`) or "native".
    `drawn`: that order, once it is drawn, as `permuted` takes it.
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
    permutation: str | None = None
    drawn: int | torch.Tensor | None = None

    def row_after(self, batches: int, batch_size: int) -> int:
        """The row of the epoch after `batches` batches of the iterator, which began with `batch_size`."""
        before, row = 0, self.rows
        for change, first, size in self.resized:
            if change <= batches:
                before, row, batch_size = change, first, size
        return row + (batches - before) * batch_size


@dataclass(frozen=True)
class StockOrder:
    """The order of torch's own BatchSampler over its own SequentialSampler or RandomSampler, in numbers."""

    size: int
    batch_size: int
    drop_last: bool
    shuffle: bool
    generator: torch.Generator | None

    @property
    def batches(self) -> int:
        """Batches of an epoch."""
        return self.size // self.batch_size if self.drop_last else -(-self.size // self.batch_size)


def stock_order(index_sampler: Any) -> StockOrder | None:
    """The order of `index_sampler`; None for samplers of other types or with other options."""
    if type(index_sampler) is not BatchSampler:
        return None
    sampler: Any = index_sampler.sampler
    shuffle = type(sampler) is RandomSampler
    if not shuffle and type(sampler) is not SequentialSampler:
        return None
    if shuffle and (sampler.replacement or sampler._num_samples is not None):
        return None
    size = len(sampler.data_source)
    generator = sampler.generator if shuffle else None
    return StockOrder(size, index_sampler.batch_size, index_sampler.drop_last, shuffle, generator)


def peek_seed(generator: torch.Generator) -> int:
    """The seed that `draw_seed` would draw; does not advance `generator`."""
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
    index_sampler: Any, sampler_iter: Iterator, start: Start, draws: Draws, seed: int | None, as_memory: bool = False
) -> Iterator[Any]:
    """The indices that torch would get from `iter(index_sampler)`, from `start` on, with the same draws.

    Args:
        sampler_iter: a new `iter(index_sampler)`.
        seed: the loader's own; replaces the generator of a RandomSampler.
        as_memory: of torch's own samplers, batches are memory of int64 in place of lists: a list of numbers takes
            longer to make than all else that sends a task to a worker, which makes it there.
    """
    order = stock_order(index_sampler)
    if order is None:
        indices = _sampled(index_sampler, sampler_iter, start, draws)
        if type(index_sampler) is BatchSampler:
            return _noting_sizes(index_sampler, index_sampler.batch_size, indices, start)
        return indices
    bounds = _bounds(index_sampler, order, start)
    if not order.shuffle:
        return _counted(bounds) if as_memory else (list(range(begin, end)) for begin, end, _ in bounds)
    if seed is not None:
        return _seeded(order, start, seed, bounds, as_memory)
    return _shuffled(order, start, draws, bounds, as_memory)


def native_indices(order: StockOrder, permutation: int | torch.Tensor | None, rows: int) -> _C.Dataset:
    """The indices of an epoch from row `rows` on; `permuted` if `order` shuffles."""
    indices = _C.Dataset.range(0, order.size)
    return (permuted(indices, permutation) if order.shuffle else indices).skip(rows)


def permuted(rows: _C.Dataset, permutation: int | torch.Tensor | None) -> _C.Dataset:
    """`rows` in the order of the native shuffle with a seed, or of torch's permutation."""
    if isinstance(permutation, torch.Tensor):
        return rows.select(permutation)
    return rows.shuffle(None, permutation, True)


def draw_permutation(order: StockOrder, start: Start, draws: Draws, own: str) -> int | torch.Tensor:
    """Takes the draws of torch's RandomSampler. Returns torch's permutation, or the seed of the native one: of the kind
    with which the epoch began if `start` continues it, else of the kind `own`."""
    draws.before_first(start)
    kind = start.permutation = start.permutation or own
    start.drawn = _drawn(order, start, draws, kind)
    return start.drawn


def _drawn(order: StockOrder, start: Start, draws: Draws, kind: str) -> int | torch.Tensor:
    generator = order.generator
    if generator is None:
        seed = draws.seed(start)
        if kind == "native":
            return seed
        return torch.randperm(order.size, generator=torch.Generator().manual_seed(seed))
    if kind == "torch":
        return torch.randperm(order.size, generator=generator)
    seed = peek_seed(generator)
    burn_permutation(generator, order.size)
    return seed


def _counted(bounds: Iterator[tuple[int, int, int]]) -> Iterator[memoryview]:
    """The batches of a SequentialSampler, cut from arrays of many rows."""
    first, numbers = 0, np.empty(0, np.int64).data
    for begin, end, _ in bounds:
        if end > first + len(numbers):
            first, numbers = begin, np.arange(begin, begin + max(_COUNTED, end - begin), dtype=np.int64).data
        yield numbers[begin - first : end - first]


def _shuffled(
    order: StockOrder, start: Start, draws: Draws, bounds: Iterator[tuple[int, int, int]], as_memory: bool
) -> Iterator[list[int] | memoryview]:
    """The batches of a RandomSampler, cut from one array."""
    drawn = draw_permutation(order, start, draws, "torch")
    if isinstance(drawn, int):
        drawn = next(native_indices(order, drawn, 0).batch(max(order.size, 1)).iterate(), torch.empty(0))
    permutation = drawn.numpy()  # slices of numpy arrays are faster
    whole = True
    for begin, end, size in bounds:
        if end - begin < size:
            whole = False
            _end_permutation(order)
        batch = permutation[begin:end]
        yield batch.data if as_memory else batch.tolist()
    if whole:
        _end_permutation(order)


def _end_permutation(order: StockOrder) -> None:
    """Takes the draws of torch's sampler at its end, where it draws another order and uses none of it."""
    if order.generator is not None:
        burn_permutation(order.generator, order.size)


def _seeded(
    order: StockOrder, start: Start, seed: int, bounds: Iterator[tuple[int, int, int]], as_memory: bool
) -> Iterator[list[int] | memoryview]:
    batches, batch_size = None, None
    for begin, _, size in bounds:
        if batches is None or size != batch_size:
            batch_size = size
            batches = native_indices(order, seed, begin).batch(size, order.drop_last).iterate(epoch=start.epoch)
        batch = next(batches)
        yield batch.numpy().data if as_memory else batch.tolist()


def _bounds(index_sampler: BatchSampler, order: StockOrder, start: Start) -> Iterator[tuple[int, int, int]]:
    """The first row, end and batch size of each batch. torch's sampler reads its batch size for each batch; with
    `drop_last`, for the first batch only."""
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
    """A batch size that was set while a sampler was in use; raises torch's ValueError unless it is a positive int."""
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise ValueError(f"batch_size should be a positive integer value, but got batch_size={size}")
    return size


def _noting_sizes(index_sampler: BatchSampler, size: int, indices: Iterator[list], start: Start) -> Iterator[list]:
    """Passes on `indices` of a sampler, and notes in `start` each change of its batch size, at first `size`."""
    row, drop_last = start.rows, index_sampler.drop_last
    for batches, batch in enumerate(indices):
        if index_sampler.batch_size != size and not (drop_last and batches):
            size = index_sampler.batch_size
            start.resized.append((batches, row, size))
        yield batch
        row += len(batch)


def _sampled(index_sampler: Any, sampler_iter: Iterator, start: Start, draws: Draws) -> Iterator[Any]:
    """The indices of any sampler. One without a state is read again up to the position."""
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
            # The generators' states for the next epoch, when the rest of the saved one is empty.
            sampler = again.sampler if start.saved is None else start.saved["sampler_generator"]
            draws.restore(dataclasses.replace(again, sampler=sampler))
            again, pull = None, iter(index_sampler).__next__
            continue
        again = None
        yield index


def _with_drawn_generator(index_sampler: Any, start: Start, draws: Draws) -> Any:
    """`index_sampler`; a RandomSampler without a generator gets the one that it would make for itself."""
    batched = type(index_sampler) is BatchSampler
    sampler = index_sampler.sampler if batched else index_sampler
    if type(sampler) is not RandomSampler or sampler.generator is not None:
        return index_sampler
    sampler = copy.copy(sampler)
    sampler.generator = torch.Generator().manual_seed(draws.seed(start))
    return _Batches(index_sampler, sampler) if batched else sampler


def _skipped(index_sampler: Any, sampler_iter: Iterator, start: Start) -> Iterator[Any]:
    """The indices from the position on. A generator, because a sampler may draw when it is iterated."""
    if isinstance(index_sampler, _Batches) or type(index_sampler) is BatchSampler:
        yield from _Batches(index_sampler, itertools.islice(iter(index_sampler.sampler), start.rows, None))
    else:
        yield from itertools.islice(sampler_iter, start.batches, None)


class _Batches(BatchSampler):
    """A batch sampler over the rows of `sampler` with the current batch size and `drop_last` of `settings`."""

    def __init__(self, settings: BatchSampler, sampler: Any):
        self._settings, self.sampler = settings, sampler

    # Attributes in torch's class.
    @property
    def batch_size(self) -> int:  # type: ignore[override]
        return self._settings.batch_size

    @property
    def drop_last(self) -> bool:  # type: ignore[override]
        return self._settings.drop_last
