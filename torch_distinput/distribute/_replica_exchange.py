# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Exchange of values between the replicas of one process."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torch_distinput.base._structure import map_leaves


class ExchangeBroken(RuntimeError):
    """Raised in a replica that waits for the value of one that has raised or returned."""


@dataclass(frozen=True)
class Arrival:
    """What a replica gives to an exchange: its value, whether it records gradients, its current stream."""

    value: Any
    grad: bool
    stream: torch.Stream | None


@dataclass(frozen=True)
class Outcome:
    """What the replicas of this process get from an exchange."""

    results: list[Any]
    error: Exception | None = None

    def of(self, replica: int) -> Any:
        """The result of `replica`; raises the exchange's error, which is the same for all replicas."""
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


class ReplicaExchange:
    """Exchanges values between the replicas of one `run`. Each replica calls from its own thread.

    Args:
        devices: of the replicas of this process.
        across: returns the values of the replicas of all processes, given those of this process; called once in each
            exchange.
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
        """How many replicas this process has."""
        return len(self._devices)

    def exchange(self, replica: int, value: Any, join: Callable[[Sequence[Any]], list[Any]]) -> Any:
        """Waits until every replica has called, then returns what `join` made for this one.

        The last caller runs its `join` with the values of all replicas everywhere, on the streams that are current in
        the replicas' threads. `join` returns one result for each replica of this process; an exception that it raises
        is raised in all of them. Raises ExchangeBroken when a replica has left, because its value will never arrive.
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
        except Exception as error:  # noqa: BLE001 - raised in all replicas
            return Outcome([], error)
        # A replica without grad mode must not get a result that requires gradients because other replicas record them.
        return Outcome(
            [result if arrival.grad else map_leaves(_detached, result) for arrival, result in zip(arrivals, results)]
        )

    def leave(self, replica: int) -> None:
        """Notes that `replica` returned or raised and will not call `exchange` again; wakes those that wait."""
        with self._changed:
            if self._left is None:
                self._left = replica
            self._changed.notify_all()

    def _check(self) -> None:
        if self._left is not None:
            raise ExchangeBroken(f"run: replica {self._left} raised or returned while another replica waited for it.")
