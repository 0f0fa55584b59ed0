# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The threads that the replicas of one process run in, and the exchange of values between them."""

import contextvars
import functools
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import torch

from torch_distinput._C import ExchangeBroken, ReplicaRun
from torch_distinput.base._structure import map_leaves

_LOOK = 0.05  # seconds between looks for Ctrl-C: Python misses a signal that comes as a wait begins


class ReplicaExchange:
    """Exchanges values between the replicas of one `run`. Each replica calls from its own thread.

    Args:
        run: where the replicas meet.
        across: returns the values of the replicas of all processes, given those of this process; called once in each
            exchange.
    """

    def __init__(self, run: ReplicaRun, across: Callable[[list[Any]], list[Any]]):
        self._run = run
        self._across = across
        self._values: list[Any] = [None] * run.num_replicas
        self._results: list[Any] = []

    @property
    def num_replicas(self) -> int:
        """How many replicas this process has."""
        return len(self._values)

    def exchange(self, replica: int, value: Any, join: Callable[[Sequence[Any]], list[Any]]) -> Any:
        """Waits until every replica has called, then returns what `join` made for this one.

        The last caller runs its `join` with the values of all replicas everywhere, on the streams that are current in
        the replicas' threads. `join` returns one result for each replica of this process; an exception that it raises
        is raised in all of them. Raises ExchangeBroken when a replica has left, because its value will never arrive.
        """
        self._values[replica] = value
        self._run.meet(replica, functools.partial(self._join, join))
        return self._results[replica]

    def _join(self, join: Callable[[Sequence[Any]], list[Any]]) -> None:
        def detached(leaf: Any) -> Any:
            return leaf.detach() if isinstance(leaf, torch.Tensor) else leaf

        results = join(self._across(list(self._values)))
        # A replica without grad mode must not get a result that requires gradients because other replicas record them.
        self._results = [
            result if self._run.records(replica) else map_leaves(detached, result)
            for replica, result in enumerate(results)
        ]


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
