# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What a pool asks of an engine, such as Ray: to run workers anywhere, and to carry requests and answers.

An engine knows nothing of rows, order, states and duplicates. A request may be asked of several workers and again after
its worker was lost, because its answer depends on the request alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch


class Work(Protocol):
    """What workers do. It goes to each of them once."""

    def open(self) -> Callable[[Any], Any]:
        """In a worker, once: what makes the value of a request, from plain values that JSON holds, or from a view of
        bytes. The value may be `Packed` already."""


class Ready(NamedTuple):
    """A worker takes requests from now on."""

    worker: int


class Answer(NamedTuple):
    """The answer of a worker to a call: a writable buffer with what `Server.answer` returned. `slab`: the buffer as a
    tensor of bytes, where it is written to again once nothing views that."""

    worker: int
    call: int
    memory: Any
    slab: torch.Tensor | None = None


class Lost(NamedTuple):
    """A worker has ended, or an answer of it; what it was asked is not answered."""

    worker: int
    why: str


Event = Ready | Answer | Lost


class Engine(Protocol):
    """Workers of one pool, for one thread at a time."""

    def room(self) -> int:
        """How many workers there is room for, at least 1."""

    def start(self) -> int:
        """Begins to start a worker and returns its number; `Ready` or `Lost` follows."""

    def stop(self, worker: int) -> None:
        """Ends a worker, whatever it is at. No event of it follows."""

    def ask(self, worker: int, call: int, request: bytes) -> None:
        """Sends a request to a worker that is ready. `Answer`, or `Lost` for the worker, follows."""

    def wait(self, seconds: float) -> list[Event]:
        """What has happened since the last call; waits for it at most `seconds`."""

    def close(self) -> None:
        """Ends all workers."""
