# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""This library's pool of worker processes, as torch's iterator sees it: a multiprocessing context.

torch's iterator decides which worker gets which indices, in what order batches are handed out, and what is an error;
torch's loop makes the batches. Between them, rings in shared memory replace multiprocessing's queues.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import functools
import multiprocessing
import multiprocessing.context
import queue
import re
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
from torch_distinput.base import _page_locks as page_locks
from torch_distinput.base._messages import pickle_value, unpickle_value
from torch_distinput.base._start_method import start_method
from torch_distinput.loader._config import LoaderConfig, accelerator_of
from torch_distinput.loader.workers import _child_signals as child_signals
from torch_distinput.loader.workers._messages import unreadable
from torch_distinput.loader.workers._process import Place
from torch_distinput.loader.workers._starts import ForkStarts, ServerStarts
from torch_distinput.loader.workers._watch import Watch
from torch_distinput.loader.workers._worker_process import WorkerProcess

# Seconds that workers get to end by themselves, and after SIGTERM.
_GRACE = 0.5
_GRACE_AFTER_SIGNAL = 0.25
_SLICE = 0.05
# Processes that may end in a row at the same batch of a worker before that is an error also with "restart".
_MOST_ENDS = 3

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


@functools.cache
def _missing_memory(workers: int) -> str | None:
    try:
        _C.ConsumerEnd(workers, pickle_value, unpickle_value, unreadable)
    except (OSError, MemoryError) as error:
        return f"the system has no shared memory for it ({error})"
    return None


def open_pool(config: LoaderConfig) -> WorkerPool | None:
    """The pool of a new iterator. None, with a warning, if the system had memory for it at first, but has none now:
    torch's pool then serves the loader. Raises what the system raises where that pool would not do."""
    try:
        return WorkerPool(config)
    except (OSError, MemoryError) as error:
        _missing_memory.cache_clear()
        if config.on_worker_death == "restart":
            raise
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
    """The workers of one iterator. `page_locked`: whether devices copy directly from the memory that the workers share
    with this process.

    To be set by the iterator: `owner`, its `id`. `expects(worker)`, whether that worker still owes results.
    `arrived(data)`, called with each result, or None. `resumed(worker, begins)`: arguments of torch's loop with which a
    process goes on in the place of a worker that has ended; `begins`: with the epoch.
    """

    def __init__(self, config: LoaderConfig):
        method = start_method(config.multiprocessing_context)
        self.page_locked = devices_read(config) and why_not_page_locked(config) is None
        locks = page_locks if self.page_locked else None
        self.end = _C.ConsumerEnd(config.num_workers, pickle_value, unpickle_value, unreadable, locks)
        self.processes: list[WorkerProcess] = []
        self.owner = 0
        self.expects: Callable[[int], bool] = lambda worker: True
        self.arrived: Callable[[Any], None] | None = None
        self.resumed: Callable[[int, bool], dict[str, Any]] = lambda worker, begins: {}
        self.watch = Watch(self.end, self.processes)
        self._starts = (
            ForkStarts(config.multiprocessing_context or torch.multiprocessing, self.end)
            if method == "fork"
            else ServerStarts(self.end, method)
        )
        self._restarts = config.on_worker_death == "restart"
        self._ends: dict[int, tuple[Any, int]] = {}  # by worker: a task, and how many processes in a row ended at it
        self._ending = self._ended = False
        self._queues = 0
        child_signals.watch(self)

    # What torch's iterator calls of a context.

    def Queue(self) -> Results | Tasks:
        """The queue of results, and then one of tasks for each worker."""
        self._queues += 1
        return Results(self) if self._queues == 1 else Tasks(self, self._queues - 2)

    def Event(self) -> Done:
        """The event that ends all workers."""
        return Done(self.end)

    def Process(self, target: Callable[..., None], args: tuple[Any, ...]) -> WorkerProcess:
        """The next worker, not started yet."""
        arguments = tuple(value._place if isinstance(value, (Tasks, Results, Done)) else value for value in args)
        process = WorkerProcess(self._starts, len(self.processes), target, arguments)
        process.is_replaced = self._restarts
        self.processes.append(process)
        return process

    def pass_over(self) -> None:
        """Tells the workers that nothing sent so far is wanted: the results of what they have not begun are None."""
        for worker in range(len(self.processes)):
            self.end.pass_over(worker)

    # The workers' lives.

    def lost(self) -> list[int]:
        """The workers that have ended and still owe results."""
        return [worker for worker, process in enumerate(self.processes) if self.expects(worker) and not process.runs()]

    def replace(self, workers: list[int]) -> list[Any] | None:
        """Lets other processes go on in the places of `workers`, which have ended and whose results have all been
        received. Returns messages for torch's iterator; None if the end of a worker is an error."""
        for worker in workers:
            self.processes[worker].is_replaced = self._restarts and self._may_go_on(worker)
        if not all(self.processes[worker].is_replaced for worker in workers):
            return None
        messages = []
        for worker in workers:
            warnings.warn(
                f"DataLoader: another process takes the place of one that has ended.\n{self.watch.ended([worker])}",
                RuntimeWarning,
                stacklevel=2,
            )
            beginning = self.end.renew(worker)
            messages += [] if beginning is None else [(beginning, None)]
            self.processes[worker].replace(**self.resumed(worker, beginning is not None))
        return messages

    def _may_go_on(self, worker: int) -> bool:
        first = next((task[0] for task in self.end.unfinished(worker) if isinstance(task, tuple)), None)
        before, count = self._ends.get(worker, (None, 0))
        self._ends[worker] = (first, count + 1 if first is not None and first == before else 1)
        return self._ends[worker][1] <= _MOST_ENDS

    def explain(self, error: RuntimeError) -> None:
        """Adds to an error of torch's iterator what the workers do, or how they ended."""
        text = str(error)
        ended = re.search(r"\(pid\(s\) ([\d, ]+)\)", text)
        if text.startswith("DataLoader timed out"):
            _add(error, self.watch.hanging(self.expects))
        elif ended is not None:
            found = [self.watch.worker_of(int(process)) for process in ended[1].split(", ")]
            workers = [worker for worker in found if worker is not None]
            _add(error, self.watch.ended(workers))
            if self._restarts:
                _add(error, f"That was the end of {_MOST_ENDS + 1} processes in a row at the same batch.")

    def explain_death(self, process: int, error: RuntimeError) -> bool:
        """As `Watched.explain_death`."""
        worker = self.watch.worker_of(process)
        if worker is None:
            return True
        if self._restarts or self._ending:
            return False
        _add(error, self.watch.ended([worker]))
        return True

    def check_owner(self) -> None:
        """Raises RuntimeError in a process that was forked from the one that made the pool."""
        if not self.end.own:
            raise RuntimeError("DataLoader: this iterator belongs to the parent process; make one in this process.")

    def started(self, iterator: _MultiProcessingDataLoaderIter) -> None:
        """Called when all workers of `iterator` have been started."""
        _live.add(iterator)
        if self._restarts:
            self._forget_processes()
            return
        self._starts.close()
        for process in self.processes:
            process.let_go()

    def shut_down(self, iterator: Any) -> None:
        """Ends the workers of `iterator`, soon even if they hang. Does nothing in a forked child."""
        if not self.end.own or _utils.python_exit_status in (True, None) or getattr(iterator, "_shutdown", True):
            return
        if self._ended:
            return
        with child_signals.held:
            self._ending = True
            self._shut_down(iterator)

    def _shut_down(self, iterator: Any) -> None:
        iterator._shutdown = True
        try:
            self._forget_processes()
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
            self._kill()

    def __del__(self) -> None:
        """Where an exception has kept the iterator from ending its workers, or the garbage collector has found both."""
        if not getattr(self, "_ended", True) and self.end.own and _utils.python_exit_status is False:
            with child_signals.held:
                self._ending = True
                self._forget_processes()
                self._kill()

    def _forget_processes(self) -> None:
        """Keeps torch's handler of SIGCHLD from raising an error when a worker of this pool dies."""
        with contextlib.suppress(ValueError):  # torch does not know them, or no longer
            _utils.signal_handling._remove_worker_pids(self.owner)

    def _kill(self) -> None:
        """Kills the workers that are left, and frees the memory that no batch uses."""
        self._ended = True
        for end, grace in (("terminate", _GRACE_AFTER_SIGNAL), ("kill", _GRACE)):
            alive = [process for process in self.processes if process.runs()]
            for process in alive:
                getattr(process, end)()
            if alive:
                self._join(grace)
        self._starts.close()
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
        pool = self._pool
        found = pool.end.receive()
        if found is None:
            found = self._wait(time.monotonic() + timeout)
        if pool.arrived is not None:
            pool.arrived(found[1])
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
            found = end.receive()
            if found is not None:
                return found
            lost = pool.lost()
            found = end.receive()  # what a worker sent before its end
            if found is not None:
                return found
            if lost:
                messages = pool.replace(lost)
                if messages is None:
                    raise queue.Empty
                self._own += messages
            pool.watch.warn_of_slow(pool.expects)

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


def _add(error: RuntimeError, details: str) -> None:
    error.args = (f"{error}\n{details}",)


_live: weakref.WeakSet[_MultiProcessingDataLoaderIter] = weakref.WeakSet()


@atexit.register
def _end_all_workers() -> None:
    """At exit, multiprocessing would wait without end for a worker that ignores SIGTERM."""
    for iterator in list(_live):
        iterator._shutdown_workers()
