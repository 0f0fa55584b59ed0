# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Indices that the strategy has assigned to this rank, and a framework's batch sampler read in step with them."""

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch_distinput import _C
from torch_distinput.loader.orders._exact_sampler import ExactSampler


class IndexQueue:
    """Steps of indices on their way from the strategy, which assigns them, to the inner loader and the consumer."""

    def __init__(self, native: _C.DistributedIterator):
        self._native = native
        # Steps that the consumer has not got yet: rows, info, position after the step.
        self.pulled: deque[tuple[int, _C.StepInfo, Any]] = deque()
        # Indices of the steps with rows that the inner loader has not got yet.
        self.indices: deque[list[int]] = deque()

    @property
    def seed(self) -> int | None:
        """The seed of the order, agreed on once a step was pulled."""
        return self._native.state_dict().get("seed")

    def pull(self) -> bool:
        """Pulls one more step from the strategy; returns False at the end."""
        step = self._native.next(None)
        if step is None:
            return False
        indices, info = step
        self.pulled.append((len(indices), info, self._native.state_dict()))
        if len(indices):
            self.indices.append(indices.tolist())
        return True

    def more(self) -> bool:
        """Whether `indices` has more; pulls further steps if it is empty."""
        while not self.indices:
            if not self.pull():
                return False
        return True

    def __iter__(self) -> Iterator[list[int]]:
        while self.more():
            yield self.indices.popleft()


class AssignedIndices:
    """A batch sampler that yields the indices of this rank in the steps of the iterator made last."""

    queue: Iterable[list[int]] | None = None

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.queue or ())


class Follower:
    """Reads a batch sampler around the shown one; the shown one then yields the indices that the strategy assigns.

    An epoch ends with the indices of its last step. The batch sampler then decides whether another epoch follows.
    `goes_on` asks it only after the last step was taken, because ranks wait for each other to open an epoch.

    Args:
        batches: the batch sampler; it must pass lists on as they are.
        shown: the sampler of the shown batch sampler.
        open_next: opens the next epoch; weak, because its iterator holds this object.
    """

    def __init__(self, batches: Any, shown: ExactSampler, open_next: weakref.WeakMethod[Callable[[], IndexQueue]]):
        self._batches, self._shown, self._open_next = batches, shown, open_next
        self._iterator: Iterator[Any] | None = None
        self._handed: deque[list[int]] = deque()  # read by the batch sampler, not passed on yet
        self._first: list[int] | None = None  # indices of an epoch that `goes_on` has begun
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
        """Whether the batch sampler begins another epoch; if so, `queue` is that epoch's."""
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
        assert open_next is not None, "the iterator is the caller"
        return open_next()

    def _error(self, what: str) -> ValueError:
        return ValueError(
            f"DataLoader: with `distributed`, a {type(self._batches).__name__} around the loader's batch sampler must "
            f"pass on the lists of indices as they are, so that all ranks take the same steps, but it {what}."
        )
