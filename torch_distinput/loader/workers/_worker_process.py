# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The process of one worker, which another process may replace."""

import inspect
import time
from multiprocessing import connection
from typing import Any

from torch_distinput.loader.workers._starts import ForkStarts, ServerStarts

_PAUSE = 0.005  # seconds


class WorkerProcess:
    """Has of multiprocessing's `Process` what torch's iterator uses. `arguments`: of torch's `loop`. `is_replaced`:
    whether another process takes the place of one that ends."""

    daemon = True
    is_replaced = False

    def __init__(self, starts: ForkStarts | ServerStarts, worker: int, loop: Any, arguments: tuple[Any, ...]):
        self._starts, self._worker, self._loop, self._arguments = starts, worker, loop, arguments
        self._process: Any = None

    def start(self) -> None:
        """Starts the process. Raises what pickling and the system raise."""
        self._process = self._starts.process(self._worker, self._loop, self._arguments)
        self._starts.start(self._process)

    def replace(self, **changes: Any) -> None:
        """Starts another process in the place of this one, which has ended, with some arguments of the loop changed.
        It must not repeat the random numbers of this one, and so gets a seed that no worker had before."""
        bound = inspect.signature(self._loop).bind(*self._arguments)
        bound.arguments.update(changes, base_seed=bound.arguments["base_seed"] + bound.arguments["num_workers"])
        self._arguments = bound.args
        self._process.close()
        self.start()

    def let_go(self) -> None:
        """Drops the arguments; to be called when the process is not going to be replaced."""
        self._arguments = ()

    @property
    def pid(self) -> int | None:
        """The number of the process; None before the start."""
        return None if self._process is None else self._process.pid

    @property
    def exitcode(self) -> int | None:
        """As multiprocessing's: the number of the signal that killed the process is negative."""
        return None if self._process is None else self._process.exitcode

    def is_alive(self) -> bool:
        """Whether the process runs, or another one is about to take its place."""
        return self.is_replaced or self.runs()

    def runs(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.is_alive()

    def join(self, timeout: float) -> None:
        """Waits for the end of the process, at most `timeout` seconds. multiprocessing alone would wait without end for
        one that has closed its descriptors, and so seems to have ended."""
        end = time.monotonic() + timeout
        connection.wait([self._process.sentinel], timeout)
        while self._process.is_alive() and time.monotonic() < end:
            time.sleep(_PAUSE)

    def terminate(self) -> None:
        """Sends SIGTERM."""
        self._process.terminate()

    def kill(self) -> None:
        """Sends SIGKILL."""
        self._process.kill()
