# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Positions in data that must be read in order, whose steps are counted over all epochs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from torch_distinput._C import StepInfo
from torch_distinput.distribute._distributed import native_of
from torch_distinput.loader._config import LoaderConfig
from torch_distinput.loader.members._arguments import NEEDS_STEPS
from torch_distinput.loader.members._place import Place, StepPositions
from torch_distinput.loader.members._positions import check_rows, committed_in, place_of, seed_of, state_of
from torch_distinput.loader.ranks._feed import Feed
from torch_distinput.loader.ranks._open import open_steps
from torch_distinput.loader.state._progress import Progress


class _Mark(NamedTuple):
    place: Place
    native: Any  # the position of the data there; None: the start of an epoch


class StreamPositions(StepPositions):
    """The places of committed steps, as far as this process has read them or was given them in a state.

    Each member reads all rows and keeps its part, so a position fits every part. A step that this process does not know
    is reached from one before it: by reading what lies between.
    """

    def __init__(self, config: LoaderConfig, feed: Feed):
        self._config, self._feed = replace(config, with_info=True), feed
        self._seed = seed_of(config)
        self._marks = {0: _Mark(Place(0, 0), None)}

    def place(self, step: int) -> Place:
        return self._mark(step).place

    def load(self, state: dict[str, Any]) -> int:
        """Raises ValueError also for a state of a later epoch that does not say how many steps
        were committed before it."""
        check_rows(state, self._feed.plan(self._config), self._seed)
        place, step = place_of(state), committed_in(state, "data that is read in order")
        self._note(step, _Mark(place, state["distributed"] if place.step else None))
        return step

    def state(self, step: int) -> dict[str, Any]:
        """With the number of steps."""
        mark, plan = self._mark(step), self._feed.plan(self._config)
        assert plan.dataset is not None, "the members read one stream"
        position = native_of(plan.dataset).iterate(epoch=mark.place.epoch, seed=self._seed)
        if mark.native is not None:
            position.load_state_dict(mark.native)
        return state_of(plan, mark.place, self._seed, position.state_dict()) | {"committed": step}

    def taken(self, step: int, info: StepInfo, progress: Progress) -> None:
        """Is told that `step` was read, by an iterator that stands at `progress`."""
        state = progress.state()
        assert state is not None, "it has read a step"
        if info.is_last:
            self._note(step + 1, _Mark(Place(info.epoch + 1, 0), None))
        else:
            self._note(step + 1, _Mark(Place(info.epoch, info.step + 1), state["distributed"]))

    def _note(self, step: int, mark: _Mark) -> None:
        """Of the steps before, the one that is not committed yet may come again; others, if at all, from the start."""
        kept = {known: self._marks[known] for known in (0, step - 1) if known in self._marks}
        self._marks = kept | {step: mark}

    def _mark(self, step: int) -> _Mark:
        while step not in self._marks:
            self._read_on(max(known for known in self._marks if known < step), step)
        return self._marks[step]

    def _read_on(self, begin: int, end: int) -> None:
        """Reads steps from `begin` up to `end`, or to the end of the epoch."""
        progress = Progress()
        progress.load(self.state(begin))
        steps, at = open_steps(self._config, progress, self._feed, None), begin
        while at < end and (step := next(steps, None)) is not None:
            self.taken(at, step[1], progress)
            at += 1
        steps.close()
        if at == begin:
            raise ValueError(NEEDS_STEPS)
