# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Reads one member's part of steps, ahead for the members it knows, and anew where they change."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from torch_distinput._C import StepInfo
from torch_distinput.distribute._membership import StepMembers
from torch_distinput.distribute._part import Part
from torch_distinput.loader._config import LoaderConfig
from torch_distinput.loader.members._arguments import NEEDS_STEPS
from torch_distinput.loader.members._positions import Positions
from torch_distinput.loader.members._reading import Reading
from torch_distinput.loader.members._stream_positions import StreamPositions
from torch_distinput.loader.paths._batches import without_rows
from torch_distinput.observe._stats import Stats


class Parts:
    """The parts of steps. Those that follow a step are read ahead as long as part and order of steps stay.

    `dealt_anew`: is told the seconds until the first batch was there, each time that part or order have changed.
    """

    def __init__(
        self,
        config: LoaderConfig,
        positions: Positions | StreamPositions,
        reading: Reading,
        dealt_anew: Callable[[float], None],
    ):
        self._pads = config.steps_tail == "padded"
        self._positions, self._reading, self._dealt_anew = positions, reading, dealt_anew

    def take(self, step: int, members: StepMembers) -> tuple[Any, StepInfo]:
        """This member's rows of step `step`, counted over all epochs; none, or padding, for one without an index."""
        began, ahead = time.perf_counter(), self._reading.ahead
        part = Part(members.index or 0, members.count)
        try:
            if ahead != (step, part):
                self._reading.begin(self._positions.state(step), part)
            taken = self._reading.next()
            if taken is None:
                raise ValueError(NEEDS_STEPS)
            batch, info = taken
            self._positions.taken(step, info, self._reading.progress)
        except BaseException:
            self._reading.close()
            raise
        self._reading.ahead = None if info.is_last else (step + 1, part)
        if ahead not in (None, (step, part)):
            self._dealt_anew(time.perf_counter() - began)
        if members.index is None:
            return (batch if self._pads else without_rows(batch)), _without_rows(info)
        return batch, info

    def stats(self) -> Stats:
        """The counters of all parts that were read."""
        return self._reading.stats()

    def end(self) -> None:
        """Ends the reading ahead."""
        self._reading.end()


def _without_rows(info: StepInfo) -> StepInfo:
    """`info` for a process that takes the step without counting, and gathers no rows."""
    return StepInfo(
        epoch=info.epoch,
        step=info.step,
        row_start=info.row_start,
        valid=[0],
        global_valid=info.global_valid,
        num_replicas=info.num_replicas,
        loss_scale=[0.0],
        is_last=info.is_last,
        has_value=[False],
    )
