# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The answers of a pool to a sequence of requests, in their order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from torch_distinput.executors._pool import Pool


class AskedAhead:
    """Asks for as many answers ahead as the pool allows, at least for the next one. The pool belongs to the iterator
    made last; RuntimeError from earlier ones. Yields pairs of a request and its answer; one that is an error is raised
    again at each call."""

    def __init__(self, requests: Iterator[Any], pool: Pool):
        self._requests, self._pool = requests, pool
        self._asked: deque[tuple[Any, int]] = deque()
        self._ended = False
        self._turn = pool.begin()

    def __iter__(self) -> AskedAhead:
        return self

    def __next__(self) -> Any:
        if self._turn != self._pool.turn:
            raise RuntimeError(
                "DataLoader: another iterator of this loader has the workers of `executor` now; iterate one after the "
                "other, or make a loader for each."
            )
        self._ask()
        if not self._asked:
            raise StopIteration
        request, call = self._asked[0]
        value = self._pool.take(call)
        self._asked.popleft()
        self._ask()
        return request, value

    def _ask(self) -> None:
        """Asks for what may be asked for now."""
        while not self._ended and (not self._asked or self._pool.may_ask):
            request = next(self._requests, self)
            if request is self:
                self._ended = True
            else:
                self._asked.append((request, self._pool.ask(request)))
        self._pool.look()
