# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Exchange of values between the replicas of one process."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_distinput import _C
from torch_distinput.base._structure import map_leaves


class ReplicaExchange:
    """Exchanges values between the replicas of one `run`. Each replica calls from its own thread.

    Args:
        run: where the replicas meet.
        across: returns the values of the replicas of all processes, given those of this process; called once in each
            exchange.
    """

    def __init__(self, run: _C.ReplicaRun, across: Callable[[list[Any]], list[Any]]):
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
        results = join(self._across(list(self._values)))
        # A replica without grad mode must not get a result that requires gradients because other replicas record them.
        self._results = [
            result if self._run.records(replica) else map_leaves(_detached, result)
            for replica, result in enumerate(results)
        ]


def _detached(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, torch.Tensor) else leaf
