# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""This library's pool of worker processes, as torch's iterator sees it: a multiprocessing context.

torch's iterator decides which worker gets which indices, in what order batches are handed out, and what is an error;
torch's loop makes the batches. Between them, rings in shared memory replace multiprocessing's queues.
"""

from __future__ import annotations

import atexit
import collections
import functools
import multiprocessing
import multiprocessing.context
import queue
import resource
import time
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import torch.multiprocessing
from torch.utils.data import _utils
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from torch_distinput import _C
from torch_distinput.loader._config import LoaderConfig, accelerator_of
from torch_distinput.loader.workers import _page_locks as page_locks
from torch_distinput.loader.workers._messages import pickle_value, unpickle_value, unreadable
from torch_distinput.loader.workers._process import Place, SharedMemory, run_worker

# Seconds that workers get to end by themselves, and after SIGTERM.
_GRACE = 0.5
_GRACE_AFTER_SIGNAL = 0.25
_SLICE = 0.05

_CONTEXTS = (
    multiprocessing.context.DefaultContext,
    multiprocessing.context.ForkContext,
    multiprocessing.context.ForkServerContext,
    multiprocessing.context.SpawnContext,
)


def why_torchs_pool(config: LoaderConfig) -> str | None:
    """Why torch's pool must run the workers; None if this library's can."""
    context = config.multiprocessing_context
    if context is not None and type(context) not in _CONTEXTS:
        return f"`multiprocessing_context` is a {type(context).__name__}"
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        return "RLIMIT_AS limits the address space, and this library's pool reserves much of it"
    return _missing_memory(config.num_workers)


def start_method() -> str:
    """How processes start by default. `get_start_method()` alone would fix that for the whole program."""
    return multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]


@functools.cache
def _missing_memory(workers: int) -> str | None:
    try:
        _C.ConsumerEnd(workers, pickle_value, unpickle_value, unreadable)
    except (OSError, MemoryError) as error:
        return f"the system has no shared memory for it ({error})"
    return None


def open_pool(config: LoaderConfig) -> WorkerPool | None:
    """The pool of a new iterator. None, with a warning, if the system had memory for it at first, but has none now:
    torch's pool then serves the loader."""
    try:
        return WorkerPool(config)
    except (OSError, MemoryError) as error:
        _missing_memory.cache_clear()
        warnings.warn(
            f"torch_distinput: torch's pool runs the workers, because the system has no shared memory for this "
            f"library's now ({error}).",
            RuntimeWarning,
            stacklevel=6,
        )
        return None


def devices_read(config: LoaderConfig) -> bool:
    """Whether devices will copy from the batches."""
    to_device = any(accelerator_of(device) is not None for device in (config.device, config.copied_to))
    return (to_device or config.pin_memory) and torch.accelerator.is_available()


def why_not_page_locked(config: LoaderConfig) -> str | None:
    """Why batches for devices do not arrive in page-locked memory; None if they do."""
    if config.pin_memory and config.pin_memory_device:
        return "`pin_memory_device` is given"
    return page_locks.obstacle()


class WorkerPool:
    """The workers of one iterator. `expects(worker)`: whether that worker still owes results. `page_locked`: whether
    devices copy directly from the memory that the workers share with this process."""

    def __init__(self, config: LoaderConfig):
        self._context = config.multiprocessing_context or torch.multiprocessing
        self.page_locked = devices_read(config) and why_not_page_locked(config) is None
        locks = page_locks if self.page_locked else None
        self.end = _C.ConsumerEnd(config.num_workers, pickle_value, unpickle_value, unreadable, locks)
        self.processes: list[Any] = []
        self.expects: Callable[[int], bool] = lambda worker: True
        self._queues = 0

    # What torch's iterator calls of a context.

    def Queue(self) -> Results | Tasks:
        """The queue of results, and then one of tasks for each worker."""
        self._queues += 1
        return Results(self) if self._queues == 1 else Tasks(self, self._queues - 2)

    def Event(self) -> Done:
        """The event that ends all workers."""
        return Done(self.end)

    def Process(self, target: Callable[..., None], args: tuple[Any, ...]) -> Any:
        """The next worker, not started yet."""
        arguments = tuple(value._place if isinstance(value, (Tasks, Results, Done)) else value for value in args)
        memory = SharedMemory(self.end)
        process = self._context.Process(target=run_worker, args=(memory, len(self.processes), target, arguments))
        self.processes.append(process)
        return process

    # The workers' lives.

    def lost(self) -> bool:
        """Whether a worker has ended that still owes results."""
        return any(self.expects(worker) and not process.is_alive() for worker, process in enumerate(self.processes))

    def check_owner(self) -> None:
        """Raises RuntimeError in a process that was forked from the one that made the pool."""
        if not self.end.own:
            raise RuntimeError("DataLoader: this iterator belongs to the parent process; make one in this process.")

    def started(self, iterator: _MultiProcessingDataLoaderIter) -> None:
        """Called when all workers of `iterator` have been started."""
        self.end.close_fd()
        _live.add(iterator)

    def shut_down(self, iterator: Any) -> None:
        """Ends the workers of `iterator`, soon even if they hang. Does nothing in a forked child."""
        if not self.end.own or _utils.python_exit_status in (True, None) or getattr(iterator, "_shutdown", True):
            return
        iterator._shutdown = True
        try:
            if hasattr(iterator, "_pin_memory_thread"):
                iterator._pin_memory_thread_done_event.set()
                iterator._worker_result_queue.put((None, None))
                iterator._pin_memory_thread.join()
            iterator._workers_done_event.set()
            for worker, tasks in enumerate(iterator._index_queues):
                tasks.put(None)
                iterator._workers_status[worker] = False
            self._join(_GRACE)
        finally:
            # As in torch: until here, the signal handler raises an error if a worker dies.
            if iterator._worker_pids_set:
                _utils.signal_handling._remove_worker_pids(id(iterator))
                iterator._worker_pids_set = False
            self._kill()

    def _kill(self) -> None:
        """Kills the workers that are left, and frees the memory that no batch uses."""
        for end, grace in (("terminate", _GRACE_AFTER_SIGNAL), ("kill", _GRACE)):
            alive = [process for process in self.processes if process.pid is not None and process.is_alive()]
            for process in alive:
                getattr(process, end)()
            if alive:
                self._join(grace)
        self.end.end()

    def _join(self, grace: float) -> None:
        deadline = time.monotonic() + grace
        for process in self.processes:
            if process.pid is not None:
                process.join(max(0.0, deadline - time.monotonic()))


class Tasks:
    """Stands for the queue of one worker's indices."""

    _place = Place.TASKS

    def __init__(self, pool: WorkerPool, worker: int):
        self._pool, self._worker = pool, worker

    def put(self, task: Any) -> None:
        """Sends `task`; None ends the worker. Raises what pickling raises."""
        self._pool.end.send(self._worker, task)

    def cancel_join_thread(self) -> None:
        """There is no thread."""

    def close(self) -> None:
        """The memory ends with the last batch in it."""


class Results:
    """Stands for the queue of batches."""

    _place = Place.RESULTS

    def __init__(self, pool: WorkerPool):
        self._pool = pool
        self._own: collections.deque[Any] = collections.deque()

    def get(self, timeout: float) -> Any:
        """The next `(task, batch)` of any worker; raises queue.Empty after `timeout` seconds, and as soon as a worker
        was lost."""
        found = self._pool.end.receive()
        if found is None:
            found = self._wait(time.monotonic() + timeout)
        return found

    def _wait(self, deadline: float) -> Any:
        end, pool = self._pool.end, self._pool
        while True:
            if self._own:
                return self._own.popleft()
            left = deadline - time.monotonic()
            if left <= 0:
                raise queue.Empty
            end.wait(min(left, _SLICE))
            lost = pool.lost()
            found = end.receive()
            if found is not None:
                return found
            if lost:
                raise queue.Empty

    def put(self, item: Any) -> None:
        """Wakes torch's pinning thread with `item`."""
        self._own.append(item)
        self._pool.end.wake()

    def cancel_join_thread(self) -> None:
        """There is no thread."""

    def close(self) -> None:
        """The memory ends with the last batch in it."""


class Done:
    """Stands for the event that ends all workers."""

    _place = Place.DONE

    def __init__(self, end: _C.ConsumerEnd):
        self._end, self._set = end, False

    def set(self) -> None:
        """Tells all workers to end."""
        self._set = True
        self._end.stop()

    def is_set(self) -> bool:
        """Whether `set` was called in this process."""
        return self._set


_live: weakref.WeakSet[_MultiProcessingDataLoaderIter] = weakref.WeakSet()


@atexit.register
def _end_all_workers() -> None:
    """At exit, multiprocessing would wait without end for a worker that ignores SIGTERM."""
    for iterator in list(_live):
        iterator._shutdown_workers()
