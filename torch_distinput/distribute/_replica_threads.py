# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The threads that replicas run in."""

from __future__ import annotations

import contextlib
import contextvars
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import torch

from torch_distinput.distribute._replica_exchange import ExchangeBroken, ReplicaExchange


class ReplicaThreads:
    """One thread for each replica, kept between calls and started again in a forked child."""

    def __init__(self, devices: Sequence[torch.device]):
        self._devices = list(devices)
        self._lock = threading.Lock()
        self._pools: list[ThreadPoolExecutor] = []
        self._pid = 0

    def run(self, calls: Sequence[Callable[[], Any]], exchange: ReplicaExchange) -> list[Any]:
        """Runs `calls[r]` as replica r with this thread's torch state and context variables.

        Returns the results when all calls are done. Raises the error of the lowest replica that failed; a failure wakes
        the replicas that wait in `exchange`.
        """
        state = ThreadState.capture(self._devices)
        with self._lock:
            futures = []
            for replica, (pool, call) in enumerate(zip(self._running_pools(), calls)):
                context = contextvars.copy_context()
                futures.append(pool.submit(_run_one, context, state, replica, call, exchange))
            try:
                wait(futures)
            except BaseException:
                exchange.leave(-1)
                raise
        return _results(futures)

    def _running_pools(self) -> list[ThreadPoolExecutor]:
        if self._pid != os.getpid():
            self._pools = [ThreadPoolExecutor(1, f"tdi-replica-{index}") for index in range(len(self._devices))]
            self._pid = os.getpid()
        return self._pools


def _run_one(context, state: ThreadState, replica: int, call: Callable[[], Any], exchange: ReplicaExchange) -> Any:
    try:
        with state.applied(replica):
            return context.run(call)
    finally:
        exchange.leave(replica)


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


class ThreadState:
    """The thread-local state of torch that a replica inherits: grad and inference mode, autocast, streams."""

    def __init__(self, grad: bool, inference: bool, autocasts: list[dict], streams: list[torch.Stream]):
        self._grad = grad
        self._inference = inference
        self._autocasts = autocasts
        self._streams = streams

    @classmethod
    def capture(cls, devices: Sequence[torch.device]) -> ThreadState:
        """The calling thread's state; one stream for each device, or none where no accelerator is in use."""
        streams = []
        kinds = {device.type for device in devices} | {"cpu"}
        if torch.cuda.is_initialized() or kinds != {"cpu"}:
            streams = [torch.accelerator.current_stream(None if d.type == "cpu" else d) for d in devices]
            kinds |= {stream.device.type for stream in streams}
        autocasts = [
            {
                "device_type": kind,
                "dtype": torch.get_autocast_dtype(kind),
                "cache_enabled": torch.is_autocast_cache_enabled(),
            }
            for kind in sorted(kinds)
            if torch.is_autocast_enabled(kind)
        ]
        return cls(torch.is_grad_enabled(), torch.is_inference_mode_enabled(), autocasts, streams)

    @contextlib.contextmanager
    def applied(self, replica: int):
        """Gives this thread the captured state until the block ends. The replica's device and stream stay set after it:
        the thread serves this replica only."""
        with contextlib.ExitStack() as stack:
            if self._streams:
                torch.accelerator.set_stream(self._streams[replica])
            if self._inference:
                stack.enter_context(torch.inference_mode())
            stack.enter_context(torch.set_grad_enabled(self._grad))
            for autocast in self._autocasts:
                stack.enter_context(torch.autocast(**autocast))
            yield
