# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Steps that a native iterator takes without rows, and whose rows workers make."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from torch_distinput import _C
from torch_distinput.executors._asked_ahead import AskedAhead
from torch_distinput.executors._pool import Pool


class _Planned(NamedTuple):
    """A step that was asked for: its info, and the position after it."""

    info: _C.StepInfo
    after: Any


class PlannedSteps:
    """The steps from the position of `native` on, a native iterator that reads no rows. It runs ahead of what was
    handed out: the position before a step is the request for it. Workers of `pool` do `PipelineWork`."""

    def __init__(self, native: _C.DistributedIterator, pool: Pool):
        self._native, self._pool = native, pool
        self._rows = 0
        self._begin()

    def _begin(self) -> None:
        self._planned: deque[_Planned] = deque()
        self._after = self._native.state_dict()
        self._answers = AskedAhead(_Requests(self._native, self._planned), self._pool)

    def next(self) -> tuple[Any, _C.StepInfo] | None:
        """The value that a worker has made, and the info; None at the end. Raises RuntimeError after an interrupt at
        which a step was lost, which happens between two instructions of Python: the position is still right then."""
        answer = next(self._answers, None)
        step = (self._native.state_dict() if answer is None else answer[0])["step"]
        if step != self._after["step"]:
            raise RuntimeError(
                f"executor: step {self._after['step']} was lost at an interrupt; go on from the state, anew."
            )
        if answer is None:
            return None
        info, self._after = self._planned.popleft()
        self._rows += sum(info.valid)
        return answer[1], info

    @property
    def rows(self) -> int:
        """Rows that were handed out."""
        return self._rows

    def state_dict(self) -> Any:
        """The position after the step last handed out."""
        return self._after

    def load_state_dict(self, state: Any) -> None:
        """Goes to a position."""
        self._native.load_state_dict(state)
        self._begin()

    def set_weights(self, weights: Sequence[float], step: int | None) -> None:
        """As of the native iterator, from the step after the one last handed out on."""
        self._native.load_state_dict(self._after)
        try:
            self._native.set_weights(weights, step)
        finally:
            self._begin()

    def exclude(self, rows: Sequence[int]) -> None:
        """As of the native iterator, from the step after the one last handed out on."""
        self._native.load_state_dict(self._after)
        try:
            self._native.exclude(rows)
        finally:
            self._begin()


class _Requests:
    """The positions before steps. Not a generator, which would end at an error or an interrupt."""

    def __init__(self, native: _C.DistributedIterator, planned: deque[_Planned]):
        self._native, self._planned = native, planned
        self._at = native.state_dict()

    def __iter__(self) -> _Requests:
        return self

    def __next__(self) -> Any:
        step = self._native.next(None)
        if step is None:
            raise StopIteration
        before, self._at = self._at, self._native.state_dict()
        self._planned.append(_Planned(step[1], self._at))
        return before | {"seed": self._at["seed"]}  # on which ranks agree when they take the first step
