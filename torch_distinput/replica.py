# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Where a call stands (strategy scope, replica) and the threads that replicas run in."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from torch_distinput._reduce import ReduceOp, check_tensors, combine_everywhere, concatenate
from torch_distinput._structure import map_leaves
from torch_distinput.values import PerReplica, regroup, select

if TYPE_CHECKING:
    from torch_distinput.strategy import Strategy


class ReplicaContext:
    """Which replica a function runs as. Obtained from `get_replica_context()` inside `strategy.run`."""

    def __init__(
        self,
        replica_id_in_sync_group: int,
        num_replicas_in_sync: int,
        rendezvous: Rendezvous | None = None,
        local_replica: int = 0,
    ):
        self._replica_id = replica_id_in_sync_group
        self._num_replicas = num_replicas_in_sync
        self._rendezvous = rendezvous
        self._local_replica = local_replica

    @property
    def replica_id_in_sync_group(self) -> int:
        """This replica's index, from 0."""
        return self._replica_id

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas take part in a step, over all processes."""
        return self._num_replicas

    def all_reduce(self, op: ReduceOp | str, value: Any) -> Any:
        """Combines the replicas' values item by item; every replica gets the result, on its own device.

        All replicas must call it, in the same order as their other `all_` calls.

        Args:
            op: `ReduceOp.SUM`, `ReduceOp.MEAN`, or their names in any case.
            value: a tensor, or a structure of tensors; the same structure and shapes on every replica.
        """
        op = ReduceOp.of(op)
        return self._together(f"all_reduce({op.value})", value, functools.partial(combine_everywhere, op))

    def all_gather(self, value: Any, axis: int) -> Any:
        """Concatenates the replicas' values in replica order; every replica gets the result, on its own device.

        All replicas must call it, in the same order as their other `all_` calls.

        Args:
            value: a tensor, or a structure of tensors, that may differ between replicas in dimension `axis` alone.
            axis: counted from 0.
        """


        def concatenate_everywhere(values: Sequence[Any], replicas: slice) -> list[Any]:
            check_tensors(values, "all_gather")
            return [concatenate(values, axis, "all_gather", mine.device) for mine in values[replicas]]

        return self._together(f"all_gather(axis={axis})", value, concatenate_everywhere)

    def _together(self, call: str, value: Any, join: Callable[[Sequence[Any], slice], list[Any]]) -> Any:
        """`join(values, replicas)`, from one leaf's values of all replicas, makes one for each of this process's."""
        if self._rendezvous is None:
            return value
        count = self._rendezvous.num_replicas
        replicas = slice(self._replica_id - self._local_replica, self._replica_id - self._local_replica + count)

        def join_all(met: Sequence[tuple[str, Any]]) -> list[Any]:
            for replica, (other, _) in enumerate(met):
                if other != met[0][0]:
                    raise ValueError(f"run: replica 0 called {met[0][0]}, but replica {replica} called {other}.")
            values = regroup([value for _, value in met], always_wrap=True)
            joined = map_leaves(lambda leaf: PerReplica(join(leaf.values, replicas)), values)
            return [select(joined, replica, count) for replica in range(count)]

        return self._rendezvous.exchange(self._local_replica, (call, value), join_all)

    def __repr__(self) -> str:
        return f"ReplicaContext(replica {self._replica_id} of {self._num_replicas})"


@dataclass(frozen=True)
class Frame:
    """The strategy whose scope or `run` encloses a call, and inside `run` the replica."""

    strategy: Strategy
    replica: ReplicaContext | None = None


_frame: contextvars.ContextVar[Frame | None] = contextvars.ContextVar("torch_distinput_frame", default=None)
_default_context = ReplicaContext(0, 1)


def current_frame() -> Frame | None:
    """The innermost frame, or None outside every scope and `run`."""
    return _frame.get()


@contextlib.contextmanager
def enter_frame(frame: Frame):
    """Makes `frame` the current one in this context."""
    token = _frame.set(frame)
    try:
        yield
    finally:
        _frame.reset(token)


def get_replica_context() -> ReplicaContext | None:
    """The replica that calls. None inside a strategy's scope but outside `run`; the only replica elsewhere."""
    frame = _frame.get()
    return _default_context if frame is None else frame.replica


class RendezvousBroken(RuntimeError):
    """A replica waits for others of which one raised or returned."""


@dataclass(frozen=True)
class Arrival:
    """What a replica brings to a meeting."""

    value: Any
    grad: bool
    stream: torch.Stream | None


@dataclass(frozen=True)
class Outcome:
    """What the replicas of this process take from a meeting."""

    results: list[Any]
    error: Exception | None = None

    def of(self, replica: int) -> Any:
        """The result of `replica`; raises the error that all share."""
        if self.error is not None:
            raise self.error
        return self.results[replica]


def _detached(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, torch.Tensor) else leaf


def _current_stream(device: torch.device) -> torch.Stream | None:
    return None if device.type == "cpu" else torch.accelerator.current_stream(device)


@contextlib.contextmanager
def _current_streams(streams: Sequence[torch.Stream]):
    """Makes each of `streams` current for its device in this thread until the block ends."""
    if not streams:
        yield
        return
    here = torch.accelerator.current_device_index()
    before = [torch.accelerator.current_stream(stream.device) for stream in streams]
    try:
        for stream in streams:
            torch.accelerator.set_stream(stream)
        torch.accelerator.set_device_index(here)
        yield
    finally:
        for stream in before:
            torch.accelerator.set_stream(stream)
        torch.accelerator.set_device_index(here)


class Rendezvous:
    """Where the replicas of one `run` meet to exchange values. Each replica calls from its own thread.

    Args:
        devices: of the replicas of this process.
        across: makes the values of all processes' replicas from those of this process's; called once a meeting.
    """

    def __init__(self, devices: Sequence[torch.device], across: Callable[[list[Any]], list[Any]]):
        self._devices = devices
        self._across = across
        self._changed = threading.Condition()
        self._waiting: list[Arrival | None] = [None] * len(devices)
        self._round = 0
        self._outcome: Outcome = Outcome([])
        self._left: int | None = None

    @property
    def num_replicas(self) -> int:
        """The replicas of this process."""
        return len(self._devices)

    def exchange(self, replica: int, value: Any, join: Callable[[Sequence[Any]], list[Any]]) -> Any:
        """Waits until every replica has called, then returns what `join` made for this one.

        The last to come calls its `join` with the values of all replicas everywhere, on the streams that are current in
        the replicas' threads; it returns one result for each replica of this process. What it raises is raised in all.
        Raises RendezvousBroken when a replica has left: its value would never come.
        """
        with self._changed:
            self._check()
            self._waiting[replica] = Arrival(value, torch.is_grad_enabled(), _current_stream(self._devices[replica]))
            if None not in self._waiting:
                self._outcome = self._join(join)
                self._waiting = [None] * len(self._waiting)
                self._round += 1
                self._changed.notify_all()
            else:
                this_round = self._round
                while self._round == this_round:
                    self._check()
                    self._changed.wait()
            return self._outcome.of(replica)

    def _join(self, join: Callable[[Sequence[Any]], list[Any]]) -> Outcome:
        arrivals = [arrival for arrival in self._waiting if arrival is not None]
        streams = [arrival.stream for arrival in arrivals if arrival.stream is not None]
        try:
            values = self._across([arrival.value for arrival in arrivals])
            with torch.set_grad_enabled(any(arrival.grad for arrival in arrivals)), _current_streams(streams):
                results = join(values)
        except Exception as error:
            return Outcome([], error)
        # A replica that records no gradients gets none from the others.
        return Outcome([
            result if arrival.grad else map_leaves(_detached, result) for arrival, result in zip(arrivals, results)
        ])

    def leave(self, replica: int) -> None:
        """Says that `replica` returned or raised and will not call `exchange` again."""
        with self._changed:
            if self._left is None:
                self._left = replica
            self._changed.notify_all()

    def _check(self) -> None:
        if self._left is not None:
            raise RendezvousBroken(f"run: replica {self._left} raised or returned while another replica waited for it.")


class ReplicaThreads:
    """One thread for each replica, kept between calls and started anew in a forked child."""

    def __init__(self, devices: Sequence[torch.device]):
        self._devices = list(devices)
        self._lock = threading.Lock()
        self._pools: list[ThreadPoolExecutor] = []
        self._pid = 0

    def run(self, calls: Sequence[Callable[[], Any]], rendezvous: Rendezvous) -> list[Any]:
        """Runs `calls[r]` as replica r with this thread's torch state and context variables.

        Returns the results when all are done. The error of the lowest replica that failed is raised; replicas
        that wait in `rendezvous` are woken by it.
        """
        state = ThreadState.capture(self._devices)
        with self._lock:
            futures = []
            for replica, (pool, call) in enumerate(zip(self._running_pools(), calls)):
                context = contextvars.copy_context()
                futures.append(pool.submit(_run_one, context, state, replica, call, rendezvous))
            try:
                wait(futures)
            except BaseException:
                rendezvous.leave(-1)
                raise
        return _results(futures)

    def _running_pools(self) -> list[ThreadPoolExecutor]:
        if self._pid != os.getpid():
            self._pools = [ThreadPoolExecutor(1, f"tdi-replica-{index}") for index in range(len(self._devices))]
            self._pid = os.getpid()
        return self._pools


def _run_one(context, state: ThreadState, replica: int, call: Callable[[], Any], rendezvous: Rendezvous) -> Any:
    try:
        with state.applied(replica):
            return context.run(call)
    finally:
        rendezvous.leave(replica)


def _results(futures: Sequence[Future]) -> list[Any]:
    errors = [(replica, error) for replica, future in enumerate(futures) if (error := future.exception()) is not None]
    if not errors:
        return [future.result() for future in futures]
    replica, error = next((pair for pair in errors if not isinstance(pair[1], RendezvousBroken)), errors[0])
    if sys.version_info >= (3, 11):
        error.add_note(f"raised in replica {replica} of {len(futures)}")
    try:
        raise error
    finally:
        del errors, error, futures  # else error -> traceback -> this frame -> error keeps tensors alive


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
        """Gives this thread the captured state until the block ends; sets the replica's device and stream."""
        with contextlib.ExitStack() as stack:
            if self._streams:
                torch.accelerator.set_stream(self._streams[replica])
            if self._inference:
                stack.enter_context(torch.inference_mode())
            stack.enter_context(torch.set_grad_enabled(self._grad))
            for autocast in self._autocasts:
                stack.enter_context(torch.autocast(**autocast))
            yield
