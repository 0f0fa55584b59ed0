# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The processes that run the function of a `map`: how they start, what they do, and how they end."""

from __future__ import annotations

import atexit
import gc
import itertools
import multiprocessing
import os
import pickle
import random
import signal
import sys
import time
import traceback
import weakref
from collections.abc import Callable
from multiprocessing.reduction import DupFd
from typing import Any

import torch
import torch.multiprocessing

from torch_distinput import _C
from torch_distinput.base._messages import pickle_value, unpickle_value
from torch_distinput.base._start_method import default_context, start_explained

# Seconds that a process gets to clean up after the one that it works for has ended, and to end when it is told to; and
# then after SIGTERM.
_GRACE = 0.5
_GRACE_AFTER_SIGNAL = 0.25

_pools = itertools.count()


class FunctionProcesses:
    """How a `map` runs its function in `count` processes, as native code sees it."""

    pickle_value = staticmethod(pickle_value)
    unpickle_value = staticmethod(unpickle_value)

    def __init__(self, count: int):
        self.count = count

    def allowed(self) -> bool:
        """Whether this process may have children; a daemonic one, such as a worker of a DataLoader, may not."""
        return not multiprocessing.current_process().daemon

    def start(self, memory: _C.FunctionMemory, function: Callable[..., Any]) -> RunningProcesses:
        """Starts the processes. Raises what pickling raises where they are not forked."""
        return RunningProcesses(memory, function, self.count)

    @staticmethod
    def pack_error(error: BaseException) -> bytes:
        """An exception and where it was raised, as bytes that any process can read."""
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        try:
            packed = pickle.dumps(error, pickle.HIGHEST_PROTOCOL)
            pickle.loads(packed)
        except Exception:  # noqa: BLE001 - pickling runs users' code
            packed = pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
        return pickle.dumps((packed, str(error), text), pickle.HIGHEST_PROTOCOL)

    @staticmethod
    def unpack_error(packed: bytes) -> BaseException:
        """The exception, whose cause shows where the other process raised it."""
        inner, message, text = pickle.loads(packed)
        try:
            error = pickle.loads(inner)
        except Exception:  # noqa: BLE001 - see above
            error = RuntimeError(message)
        error.__cause__ = RaisedInProcess(text)
        return error


class RaisedInProcess(Exception):
    """Shows the traceback of an exception in the process that raised it."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class RunningProcesses:
    """Processes that have been started."""

    def __init__(self, memory: _C.FunctionMemory, function: Callable[..., Any], count: int):
        context = default_context()
        shared, pool = _SharedMemory(memory), next(_pools)
        self._memory = memory
        self._owner = os.getpid()
        self._processes: list[Any] = []
        try:
            for index in range(count):
                seed = random.Random(f"{torch.initial_seed()} {pool} {index}").getrandbits(63)
                process = context.Process(target=_run, args=(shared, index, function, seed), daemon=True)
                with start_explained("a process of a map", "its function", context.get_start_method()):
                    process.start()
                self._processes.append(process)
        except BaseException:
            self.end()
            raise
        memory.close_fd()
        _live.add(self)

    def ended(self) -> list[tuple[int, str]]:
        """The processes that run no more, and how they ended."""
        return [(index, _ending(process)) for index, process in enumerate(self._processes) if not process.is_alive()]

    def end(self) -> None:
        """Ends the processes, soon even if they hang. Does nothing in a forked child."""
        if os.getpid() != self._owner:
            return
        self._memory.stop()
        self._join(_GRACE)
        for stop, grace in (("terminate", _GRACE_AFTER_SIGNAL), ("kill", _GRACE)):
            alive = [process for process in self._processes if process.is_alive()]
            for process in alive:
                getattr(process, stop)()
            if alive:
                self._join(grace)

    def _join(self, grace: float) -> None:
        deadline = time.monotonic() + grace
        for process in self._processes:
            process.join(max(0.0, deadline - time.monotonic()))


def _ending(process: Any) -> str:
    code = process.exitcode
    if code is not None and code < 0:
        names = {known.value: known.name for known in signal.Signals}
        return f"(pid {process.pid}) was killed by {names.get(-code, f'signal {-code}')}"
    return f"(pid {process.pid}) ended with exit code {code}"


class _SharedMemory:
    """The memory of a pool and the id of the process that made it, as they are passed to the processes."""

    def __init__(self, memory: _C.FunctionMemory):
        self._memory = memory
        self.process = os.getpid()

    def open(self) -> _C.FunctionMemory:
        return self._memory

    def __reduce__(self) -> tuple[Any, ...]:
        return _AttachedMemory, (DupFd(self._memory.fd), self.process)


class _AttachedMemory:
    """`_SharedMemory` in a process that was not forked."""

    def __init__(self, fd: Any, process: int):
        self._fd, self.process = fd, process

    def open(self) -> _C.FunctionMemory:
        return _C.FunctionMemory(self._fd.detach())


def _run(shared: _SharedMemory | _AttachedMemory, index: int, function: Callable[..., Any], seed: int) -> None:
    """What a process does. Ctrl-C is for the process that it works for, and so is the garbage of that one: to look
    through what a fork has inherited would copy it."""
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _C.end_with_process(shared.process, os.getppid() == shared.process, _GRACE)
    torch.set_num_threads(1)
    random.seed(seed)
    torch.manual_seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed % 2**32)
    _C.serve_function(shared.open(), index, function, FunctionProcesses)


_live: weakref.WeakSet[RunningProcesses] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """At exit, multiprocessing would wait without end for a process that ignores SIGTERM."""
    for processes in list(_live):
        processes.end()
