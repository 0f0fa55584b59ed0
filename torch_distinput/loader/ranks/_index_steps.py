# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Steps of a map-style dataset that Python reads: the strategy assigns indices to the ranks."""

import weakref
from dataclasses import replace
from typing import Any

from torch.utils.data._utils.pin_memory import pin_memory

from torch_distinput import _C
from torch_distinput.loader.orders._order import Start
from torch_distinput.loader.ranks._indices import Follower, IndexQueue
from torch_distinput.loader.ranks._steps import PythonSteps
from torch_distinput.loader.sharing._follower_end import Given
from torch_distinput.observe._stats import CallTimes, Stats
from torch_distinput.recognize._stateful import Taken


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
        indices = self._plan.indices
        assert indices is not None, "the plan is of indices"
        indices.queue = queue if self._follower is None else self._follower.epoch(queue)
        self._inner = iter(self._inner_loader())
        indices.queue = None
        self._workers = self._inner._workers

    def _inner_loader(self) -> Any:
        """What reads the rows; a peer that reads for this process has the workers."""
        if self._reads is None or not self._reads.follows:
            return self._plan.inner
        return self._feed.plain(self._config, batch_sampler=self._plan.indices, num_workers=0)

    def _open_next_epoch(self) -> IndexQueue:
        """Opens the next epoch of an iterator that does not end with an epoch."""
        progress = self._progress
        epoch = self._start.epoch + 1 if progress.pinned is None else progress.pinned
        progress.epoch, progress.pinned, progress.start = epoch, None, Start(epoch)
        self._start = self._position.start = progress.start
        self._position.yielded = 0
        self._native.close()
        self._native = self._open_epoch()
        self._position.native = Taken(self._native.state_dict())
        return IndexQueue(self._native)

    def _open_epoch(self) -> _C.DistributedIterator:
        if self._config.shared_order is not None:
            self._config.shared_order.draw(self._start.epoch)
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
        # The wait for a reader may be interrupted. But the step is over before the rows are loaded: as in torch, also
        # if that fails.
        given = self._given() if self._queue.pulled[0][0] else None
        rows, info, after = self._queue.pulled.popleft()
        batch = self._moved(self._kept(self._batch(given)) if rows else self._dummy(0))
        self._position.native = Taken(after)
        self._delivered += 1
        self._times.end()
        return batch, info

    def exclude(self, rows: list[int]) -> None:
        # The indices that were pulled ahead are pulled again.
        self._native.load_state_dict(self._position.native())
        self._native.exclude(rows)
        self._position.native = Taken(self._native.state_dict())
        self._read(IndexQueue(self._native))

    def hand_over(self) -> None:
        self._inner.pass_over()
        self.leave()

    def stats(self) -> Stats:
        native, times = self._native.stats(), self._times.fields()
        python = max(times["wait_seconds"] - native.wait_seconds, 0.0)
        busy = {"python_seconds": python, "waited_python_seconds": python}
        return replace(native, batches=self._delivered, rows=None, bytes=None, **busy, **times)

    def _given(self) -> Given | None:
        """The rows of the step from a peer that reads for this process; None where none does."""
        reads = self._reads
        if reads is None or not reads.follows:
            return None
        given = reads.take(self._moved.release)
        if not reads.follows and self._config.num_workers:
            self._read(self._queue)  # in workers of its own
        return given

    def _batch(self, given: Given | None) -> Any:
        """The rows of the step."""
        if given is not None:
            self._queue.indices.popleft()
            return pin_memory(given.batch()) if self._pin else given.batch()
        return self._load() if self._reads is None else self._reads.give(self._load, lambda batch: batch)

    def _load(self) -> Any:
        try:
            return next(self._inner)
        except StopIteration:
            raise RuntimeError(
                f"DataLoader: {type(self._config.dataset).__name__} raised StopIteration for a row; with `distributed` "
                "an epoch ends on all ranks at once."
            ) from None

    def _example(self) -> Any:
        return next(iter(self._feed.plain(self._config, batch_sampler=[[0]], num_workers=0)))
