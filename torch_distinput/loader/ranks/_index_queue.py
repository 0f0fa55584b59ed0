# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Indices that the strategy has assigned to this rank, in steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from torch_distinput import _C


class IndexQueue:
    """Steps of indices on their way from the strategy, which assigns them, to the inner loader and the consumer."""

    def __init__(self, native: _C.DistributedIterator):
        self._native = native
        # Steps that the consumer has not got yet: rows, info, position after the step.
        self.pulled: deque[tuple[int, _C.StepInfo, Any]] = deque()
        # Indices of the steps with rows that the inner loader has not got yet.
        self.indices: deque[list[int]] = deque()

    def pull(self) -> bool:
        """Pulls one more step from the strategy; returns False at the end."""
        step = self._native.next(None)
        if step is None:
            return False
        indices, info = step
        self.pulled.append((len(indices), info, self._native.state_dict()))
        if len(indices):
            self.indices.append(indices.tolist())
        return True

    def more(self) -> bool:
        """Whether `indices` has more; pulls further steps if it is empty."""
        while not self.indices:
            if not self.pull():
                return False
        return True

    def __iter__(self) -> Iterator[list[int]]:
        while self.more():
            yield self.indices.popleft()


class AssignedIndices:
    """A batch sampler that yields the indices of this rank in the steps of the iterator made last."""

    queue: Iterable[list[int]] | None = None

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.queue or ())
