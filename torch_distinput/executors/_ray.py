# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The engine "ray": workers are actors anywhere in a cluster, which answer through Ray's object store.

The pipeline is put into the store once. An answer is one array of bytes, which a process on the same host views where
it lies; Ray itself moves it there from other hosts. Actors hold no state, so that none is ever restarted: another one
is asked.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import numpy

from torch_distinput.executors._engine import Answer, Event, Lost, Ready, Work
from torch_distinput.executors._server import Server


class RayActors:
    """Actors of the cluster that this process is connected to, or which Ray starts for it, with `options` of Ray's."""

    def __init__(self, work: Work, options: dict[str, Any]):
        import ray

        self._ray = ray
        self._options = {"num_cpus": 1, "scheduling_strategy": "SPREAD"} | options
        self._kind: Any = ray.remote(_Actor)
        self._work = ray.put(work)
        self._numbers = itertools.count()
        self._actors: dict[int, Any] = {}
        self._calls: dict[Any, tuple[int, int | None]] = {}  # by the reference to the answer; None: to be ready

    def room(self) -> int:
        cpus = self._ray.cluster_resources().get("CPU", 0) / (self._options["num_cpus"] or 1)
        return max(1, int(cpus))

    def start(self) -> int:
        number = next(self._numbers)
        actor: Any = self._kind.options(**self._options).remote(self._work)
        self._actors[number] = actor
        self._calls[actor.ready.remote()] = (number, None)
        return number

    def stop(self, worker: int) -> None:
        actor = self._actors.pop(worker)
        self._calls = {answer: call for answer, call in self._calls.items() if call[0] != worker}
        if self._ray.is_initialized():
            self._ray.kill(actor)

    def ask(self, worker: int, call: int, request: bytes) -> None:
        self._calls[self._actors[worker].answer.remote(request)] = (worker, call)

    def wait(self, seconds: float) -> list[Event]:
        # The references are copied: they go with the actors that are lost meanwhile.
        done, _ = self._ray.wait(list(self._calls), num_returns=1, timeout=seconds)
        if done:
            done, _ = self._ray.wait(list(self._calls), num_returns=len(self._calls), timeout=0)
        return [event for answer in done if (event := self._event(answer)) is not None]

    def _event(self, answer: Any) -> Event | None:
        if answer not in self._calls:
            return None
        worker, call = self._calls.pop(answer)
        try:
            value = self._ray.get(answer)
        except self._ray.exceptions.RayError as error:
            self.stop(worker)
            return Lost(worker, str(error).strip())
        return Ready(worker) if call is None else Answer(worker, call, writable(value))

    def close(self) -> None:
        for worker in list(self._actors):
            with contextlib.suppress(Exception):  # the cluster may be gone
                self.stop(worker)


class _Actor:
    def __init__(self, work: Work):
        self._server = Server(work)

    def ready(self) -> None:
        """Returns once the actor lives."""

    def answer(self, request: bytes) -> numpy.ndarray:
        packed = self._server.answer(request)
        memory = numpy.empty(packed.whole_size, numpy.uint8)
        for place, piece in packed.pieces():
            memory[place : place + piece.nbytes] = numpy.frombuffer(piece, numpy.uint8)
        return memory


def writable(value: Any) -> memoryview:
    """The memory of an answer, which is this process's alone: nobody else has the reference to it. Ray marks its views
    as read-only, for objects that several processes have. Raises TypeError for another value than an answer."""
    if type(value) is not numpy.ndarray or value.dtype != numpy.uint8 or value.ndim != 1:
        raise TypeError(f"the answer of an actor must be an array of bytes, but is a {type(value).__name__}.")
    return numpy.asarray(_Writable(value)).data


class _Writable:
    """Shows the memory of an array, which it holds, to numpy."""

    def __init__(self, array: numpy.ndarray):
        self._array = array
        self.__array_interface__ = array.__array_interface__ | {"data": (array.ctypes.data, False)}


def open_ray(options: dict[str, Any]) -> Callable[[Work, bool], RayActors]:
    """Raises ImportError where Ray is not installed."""
    try:
        import ray  # noqa: F401 - found before the first actor
    except ImportError as error:
        raise ImportError(
            'Executor: the engine "ray" needs Ray: pip install "torch_distinput[ray]", here and on all nodes of the '
            "cluster."
        ) from error
    return lambda work, _: RayActors(work, options)
