# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Says what workers do that let their consumer wait, and how workers ended."""

import signal
import socket
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from torch_distinput import _C
from torch_distinput.loader.workers._memory import limit_and_use, out_of_memory_kills, proportional_size
from torch_distinput.loader.workers._stacks import stack_of, state_of

_SLOW = 60.0  # seconds of one batch after which a loader without `timeout` warns
_LOOK = 1.0  # seconds between two looks for slow batches
_MOST_ROWS = 16  # that a report names
_MOST_STACKS = 4  # each may take half a second

_STATES = {
    "R": "runs",
    "S": "sleeps",
    "D": "waits for a device or a file system, and cannot be interrupted",
    "T": "is stopped by a signal",
    "t": "is stopped by a debugger",
}


class Watch:
    """The workers of one pool. `owes(worker)`: whether the consumer still wants results of that worker."""

    def __init__(self, end: _C.ConsumerEnd, processes: Sequence[Any]):
        self._end, self._processes = end, processes
        self._kills_before = out_of_memory_kills()
        self._next_look = 0.0
        self._told: set[tuple[int, int]] = set()  # workers and tasks

    def hanging(self, owes: Callable[[int], bool]) -> str:
        """What the workers do whose batches are awaited, the longest awaited first, with their Python stacks."""
        late = [worker for worker in range(len(self._processes)) if owes(worker) and self._tasks(worker)]
        late.sort(key=lambda worker: self._tasks(worker)[0][0])
        told = [self._doing(worker) for worker in late[:_MOST_STACKS]]
        if len(late) > _MOST_STACKS:
            told.append(f"{len(late) - _MOST_STACKS} more workers have not sent their batches.")
        return "\n".join(told)

    def warn_of_slow(self, owes: Callable[[int], bool]) -> None:
        """Warns, once for each batch, of a worker that has been at one for a minute. To be called while waiting."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK
        for worker in range(len(self._processes)):
            _, task, seconds, _ = self._end.activity(worker)
            if task is not None and seconds >= _SLOW and (worker, task) not in self._told and owes(worker):
                self._told.add((worker, task))
                warnings.warn(
                    f"DataLoader: a batch is late; `timeout` would make this an error.\n{self._doing(worker)}",
                    RuntimeWarning,
                    stacklevel=2,
                )

    def ended(self, workers: Sequence[int]) -> str:
        """How `workers` ended, what they were at, and what the kernel says about memory if they were killed."""
        told = [f"{self._name(worker)} {self._end_of(worker)} {self._place(worker)}." for worker in workers]
        if any(self._processes[worker].exitcode == -signal.SIGKILL for worker in workers):
            told.append(self._memory())
        return "\n".join(told)

    def worker_of(self, process: int) -> int | None:
        """The worker that runs in `process`; None if that is not of this pool."""
        return next((worker for worker, each in enumerate(self._processes) if each.pid == process), None)

    def _name(self, worker: int) -> str:
        return f"Worker {worker} (pid {self._processes[worker].pid} on {socket.gethostname()})"

    def _tasks(self, worker: int) -> list[Any]:
        """The numbered tasks that the worker has not done, with what is to be read."""
        return [task for task in self._end.unfinished(worker) if isinstance(task, tuple)]

    def _doing(self, worker: int) -> str:
        process = self._processes[worker].pid
        begun, _, seconds, descriptor = self._end.activity(worker)
        since = f" for {seconds:.1f} s" if begun else ""
        try:
            state = _STATES.get(state_of(process), "exists")
        except OSError:
            state = "has ended"
        said = f"{self._name(worker)} has been {self._place(worker)}{since}, and {state}. Its Python stack:"
        return f"{said}\n{_within_worker(stack_of(process, descriptor))}"

    def _place(self, worker: int) -> str:
        begun, number, _, _ = self._end.activity(worker)
        if not begun:
            return "at its start"
        tasks = dict(self._tasks(worker))
        return "without a task" if number is None else f"at batch {number}{_rows(tasks.get(number))}"

    def _end_of(self, worker: int) -> str:
        code = self._processes[worker].exitcode
        if code is None or code >= 0:
            return "ended" if code is None else f"ended with exit code {code}"
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"

    def _memory(self) -> str:
        """Whether the kernel has killed for want of memory, and how much there is."""
        kills, limits = out_of_memory_kills(), limit_and_use()
        size = proportional_size(each.pid for each in self._processes if each.runs())
        held = f"the workers that are left hold {_gigabytes(size)} (PSS)"
        if limits is not None:
            held += f", and {_gigabytes(limits[1])} of the {_gigabytes(limits[0])} of the control group are in use"
        if kills is None or self._kills_before is None:
            return f"The kernel sends SIGKILL when memory runs out, but does not say here whether it did; {held}."
        if kills == self._kills_before:
            return (
                "The kernel has not killed for want of memory in this control group since the workers began: another "
                f"process sent SIGKILL, or the machine or an outer group ran out of memory; {held}."
            )
        return (
            f"The kernel has killed {kills - self._kills_before} time(s) because the memory of this control group ran "
            f"out; {held}. Fewer workers, a smaller `prefetch_factor` or smaller rows need less."
        )


def _rows(index: Any) -> str:
    """The rows of a task, if these are known before they are read."""
    if isinstance(index, memoryview):  # stands for a list
        index = index.tolist()
    indices = index if isinstance(index, (list, tuple)) else [index]
    if not indices or any(each is None for each in indices):
        return ""
    named = ", ".join(str(each) for each in indices[:_MOST_ROWS])
    more = f" and {len(indices) - _MOST_ROWS} more" if len(indices) > _MOST_ROWS else ""
    return f" (rows {named}{more})"


def _within_worker(stack: str) -> str:
    """`stack` without the calls that led to the worker's loop: in a forked process, these are its parent's."""
    kept, outside = [], False
    for line in stack.splitlines():
        outside = outside and line.startswith("  ")
        if not outside:
            kept.append(line)
        outside = outside or line.endswith(" in run_worker")
    return "\n".join(kept)


def _gigabytes(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"
