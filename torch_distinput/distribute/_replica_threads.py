# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The threads that replicas run in."""

from __future__ import annotations

import contextvars
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from torch_distinput._C import ExchangeBroken, ReplicaRun

_LOOK = 0.05  # seconds between looks for Ctrl-C: Python misses a signal that comes as a wait begins


class ReplicaThreads:
    """One thread for each replica, kept between calls and started again in a forked child.

    Python starts them, because debuggers and coverage tools follow only such threads into users' functions.
    """

    def __init__(self, num_replicas: int):
        self._num_replicas = num_replicas
        self._lock = threading.Lock()
        self._pools: list[ThreadPoolExecutor] = []
        self._pid = 0

    def run(self, calls: Sequence[Callable[[], Any]], run: ReplicaRun) -> list[Any]:
        """Calls `calls[r]` as replica r of `run`, with this thread's context variables.

        Returns the results when all calls are done. Raises the error of the lowest replica that failed.
        """
        futures: list[Future] = []
        with self._lock:
            try:
                for replica, (pool, call) in enumerate(zip(self._running_pools(), calls)):
                    futures.append(pool.submit(contextvars.copy_context().run, run.call, replica, call))
                while wait(futures, timeout=_LOOK).not_done:
                    pass
            except BaseException:
                run.leave(0)  # nobody reads the results
                raise
        return _results(futures)

    def _running_pools(self) -> list[ThreadPoolExecutor]:
        if self._pid != os.getpid():
            self._pools = [ThreadPoolExecutor(1, f"tdi-replica-{index}") for index in range(self._num_replicas)]
            self._pid = os.getpid()
        return self._pools


def _results(futures: Sequence[Future]) -> list[Any]:
    errors = [(replica, error) for replica, future in enumerate(futures) if (error := future.exception()) is not None]
    if not errors:
        return [future.result() for future in futures]
    replica, error = next((pair for pair in errors if not isinstance(pair[1], ExchangeBroken)), errors[0])
    if sys.version_info >= (3, 11):
        error.add_note(f"raised in replica {replica} of {len(futures)}")
    try:
        raise error
    finally:
        del errors, error, futures  # else the cycle error -> traceback -> this frame -> error keeps tensors alive
