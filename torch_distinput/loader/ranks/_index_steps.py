# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Steps of a map-style dataset that Python reads: the strategy assigns indices to the ranks."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from torch_distinput import _C
from torch_distinput.loader._clock import CallTimes
from torch_distinput.loader.ranks._exchanged import Follower
from torch_distinput.loader.ranks._python_steps import PythonSteps
from torch_distinput.loader.state._order import Start
from torch_distinput.loader.state._stateful import Taken
from torch_distinput.observe._stats import Stats


class IndexQueue:
    """Steps of indices on their way from the strategy, which assigns them, to the inner loader and the consumer."""

    def __init__(self, native: _C.DistributedIterator):
        self._native = native
        # Steps that the consumer has not got yet: rows, info, position after the step.
        self.pulled: deque[tuple[int, _C.StepInfo, Any]] = deque()
        # Indices of the steps with rows that the inner loader has not got yet.
        self.indices: deque[list[int]] = deque()

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
        """Whether `indices` has more, if need be after pulling further steps."""
        while not self.indices:
            if not self.pull():
                return False
        return True

    def __iter__(self) -> Iterator[list[int]]:
        while self.more():
            yield self.indices.popleft()


class Feed:
    """A batch sampler that yields the indices of this rank in the steps of the iterator made last."""

    queue: Iterable[list[int]] | None = None

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.queue or ())


class IndexSteps(PythonSteps):
    """Steps whose indices the strategy assigns and whose rows Python loads."""

    def _open(self) -> _C.DistributedIterator:
        native = self._open_epoch()
        self._times = CallTimes()
        self._position.native = Taken(native.state_dict())
        self._delivered = 0
        follows = self._plan.follows
        self._follower = None if follows is None else Follower(*follows, weakref.WeakMethod(self._open_next_epoch))
        self._read(IndexQueue(native))
        return native

    def _read(self, queue: IndexQueue) -> None:
        """Lets the inner loader read the indices of an epoch."""
        self._queue = queue
        self._plan.feed.queue = queue if self._follower is None else self._follower.epoch(queue)
        self._inner = iter(self._plan.inner)
        self._plan.feed.queue = None
        self._workers = self._inner._workers

    def _open_next_epoch(self) -> IndexQueue:
        """The next epoch of an iterator that does not end with an epoch."""
        memory = self._memory
        epoch = self._start.epoch + 1 if memory.pinned is None else memory.pinned
        memory.epoch, memory.pinned, memory.start = epoch, None, Start(epoch)
        self._start = self._position._start = memory.start
        self._position.yielded = 0
        self._native.close()
        self._native = self._open_epoch()
        self._position.native = Taken(self._native.state_dict())
        return IndexQueue(self._native)

    def _open_epoch(self) -> _C.DistributedIterator:
        if self._loader._order is not None:
            self._loader._order.draw(self._start.epoch)
        return super()._open()

    def _goes_on(self) -> bool:
        if self._follower is None or not self._follower.goes_on():
            return False
        self._read(self._follower.queue)
        return True

    def _take(self) -> tuple[Any, _C.StepInfo] | None:
        self._times.begin()
        if not self._queue.pulled and not self._queue.pull() and not self._goes_on():
            return None
        rows, info, after = (
            self._queue.pulled.popleft()
        )  # before the rows are loaded: as in torch, a step that fails is over
        batch = self._kept(self._load()) if rows else self._dummy(0)
        self._position.native = Taken(after)
        self._delivered += 1
        self._times.end()
        return batch, info

    def stats(self) -> Stats:
        native, times = self._native.stats(), self._times.fields()
        python = max(times["wait_seconds"] - native.wait_seconds, 0.0)
        return replace(native, batches=self._delivered, rows=None, bytes=None, python_seconds=python, **times)

    def _load(self) -> Any:
        try:
            return next(self._inner)
        except StopIteration:
            raise RuntimeError(
                f"DataLoader: {type(self._loader.dataset).__name__} raised StopIteration for a row; with `distributed` "
                "an epoch ends on all ranks at once."
            ) from None

    def _example(self) -> Any:
        return next(iter(self._loader._plain(batch_sampler=[[0]], num_workers=0)))
