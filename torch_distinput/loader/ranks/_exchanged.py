# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Samplers that a subclass puts in the place of the constructor's, in a loader with `distributed`.

torch's loader reads what it finds when it makes an iterator. Classes that keep their workers over epochs wrap the batch
sampler in one that begins it again and again, and keep one iterator for ever.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import DistributedSampler
from torch.utils.data.dataloader import _DatasetKind

from torch_distinput.loader.ranks._sampler import ExactBatches, ExactSampler

if TYPE_CHECKING:
    from torch_distinput.loader._data_loader import DataLoader
    from torch_distinput.loader.ranks._index_steps import IndexQueue

_DEPTH = 4  # wrappers around wrappers


@dataclass(frozen=True)
class Samplers:
    """The samplers of a loader at one moment. `below`: the one that the batch sampler reads."""

    sampler: Any
    batches: Any
    below: Any

    def same(self, other: Samplers) -> bool:
        """Whether they are the same objects."""
        return self.sampler is other.sampler and self.batches is other.batches and self.below is other.below


def samplers_now(loader: DataLoader) -> Samplers:
    """The samplers that `loader` has now."""
    return Samplers(loader.sampler, loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None))


def exchanged(loader: DataLoader) -> Any:
    """What a subclass has put in the place of the batch sampler (without batches: of the sampler) after the
    constructor; None where it has not. ValueError that names it where it would have no effect."""
    made, now = loader._made_with, samplers_now(loader)
    if made is None or now.same(made):
        return None
    batched = loader.batch_sampler is not None
    found = now.sampler if not batched or now.sampler is not made.sampler else now.batches
    name = "sampler" if found is now.sampler else "batch_sampler"
    told = (
        f"DataLoader: `{name}` was exchanged for a {type(found).__name__} after the constructor, but with `distributed`"
    )
    if loader._dataset_kind != _DatasetKind.Map:
        raise ValueError(f"{told} this data is read in its own order, in which samplers have no say.")
    if batched and now.batches is made.batches and now.below is made.below:
        raise ValueError(f"{told} as in torch the batch sampler is read, which has its own; pass `sampler` instead.")
    if any(isinstance(part, DistributedSampler) and type(part) is not ExactSampler for part in (found, now.below)):
        raise ValueError(f"{told} the loader itself assigns the rows to ranks; leave the DistributedSampler out.")
    return now.batches if batched else now.sampler


def followed(loader: DataLoader) -> tuple[Any, ExactSampler] | None:
    """A batch sampler that reads the one which the loader shows, with the shown one's sampler; None where there is
    none: a framework has given it to the constructor, or a subclass has put it there later."""
    if loader._watched_batches is not None:
        return loader._watched_batches, loader._watched_batches.sampler
    found = exchanged(loader)
    shown: Any = None if loader._made_with is None else loader._made_with.batches
    if found is None or found is shown or not isinstance(shown, ExactBatches) or not _reads(found, shown, _DEPTH):
        return None
    sampler: Any = shown.sampler
    return found, sampler


def _reads(value: Any, batches: ExactBatches, depth: int) -> bool:
    if value is batches:
        return True
    if depth == 0 or isinstance(value, (TorchLoader, TorchDataset)):
        return False
    parts = value if isinstance(value, (list, tuple)) else getattr(value, "__dict__", {}).values()
    return any(_reads(part, batches, depth - 1) for part in list(parts))


class Follower:
    """Asks a batch sampler that reads the shown one, which meanwhile yields the indices that the strategy assigns.

    An epoch ends with the indices of its last step. What the batch sampler does then decides whether there is another
    one: `goes_on` asks it, when the last step was taken, because to open an epoch ranks wait for each other.

    Args:
        batches: the batch sampler; it must pass lists on as they are.
        shown: the sampler of the shown batch sampler.
        open_next: opens the next epoch. Weak, because it is the iterator's, which holds this object.
    """

    def __init__(self, batches: Any, shown: ExactSampler, open_next: weakref.WeakMethod[Callable[[], IndexQueue]]):
        self._batches, self._shown, self._open_next = batches, shown, open_next
        self._iterator: Iterator[Any] | None = None
        self._handed: deque[list[int]] = deque()  # which the batch sampler has read, and not passed on yet
        self._first: list[int] | None = None  # of an epoch that `goes_on` has found
        self._may_open = self._begun = self._gave = False
        self.queue: IndexQueue

    def epoch(self, queue: IndexQueue) -> Iterator[list[int]]:
        """The indices of the rest of an epoch, as the batch sampler passes them on."""
        self.queue = queue
        first, self._first = self._first, None
        return self._rest(queue, first)

    def _rest(self, queue: IndexQueue, first: list[int] | None) -> Iterator[list[int]]:
        if first is not None:
            yield first
        while self._handed or queue.more():
            indices = self._ask()
            if indices is None:
                raise self._error("ended before the epoch did")
            yield indices

    def goes_on(self) -> bool:
        """Whether the batch sampler begins another epoch; `queue` is that one's then."""
        self._may_open = True
        try:
            self._first = self._ask()
        finally:
            self._may_open = False
        return self._first is not None

    def _ask(self) -> list[int] | None:
        before, self._shown.queue = self._shown.queue, self
        try:
            if self._iterator is None:
                self._iterator = iter(self._batches)
            indices = next(self._iterator, None)
        finally:
            self._shown.queue = before
        if indices is None:
            return None
        if not self._handed or list(indices) != self._handed.popleft():
            raise self._error(f"yielded {str(list(indices))[:60]}")
        return indices

    def __iter__(self) -> Iterator[list[int]]:
        """What the shown batch sampler yields meanwhile: each iteration is an epoch, or the rest of one."""
        if self._begun and not self.queue.more():
            if not self._may_open:
                raise self._error("asked for the next epoch before it had passed on this one")
            if not self._gave:
                raise self._error("begins epochs again and again in which this rank has no rows")
            self.queue, self._gave = self._next_queue(), False
        self._begun, queue = True, self.queue
        while queue.more():
            indices = queue.indices.popleft()
            self._handed.append(indices)
            self._gave = True
            yield indices

    def _next_queue(self) -> IndexQueue:
        open_next = self._open_next()  # not in the frame of a generator, which would hold the iterator
        assert open_next is not None, "the iterator asks"
        return open_next()

    def _error(self, what: str) -> ValueError:
        return ValueError(
            f"DataLoader: with `distributed`, a {type(self._batches).__name__} around the loader's batch sampler must "
            f"pass on the lists of indices as they are, so that all ranks take the same steps, but it {what}."
        )
