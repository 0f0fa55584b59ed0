# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""How many workers a pool should have, judged by the waits of its consumer. Arithmetic without clocks or threads."""

from __future__ import annotations

import math

_WINDOW = 16  # steps between two decisions, at least: those under way must have been asked for since the last one
_PER_WORKER = 2  # steps between two decisions
_GROWTH = 4  # times as many workers as before, at most
_WAITS = 0.05  # a smaller share of the time spent waiting needs no more workers
_IDLE_WINDOWS = 4  # in a row, without waits, before workers are given back
_SPARE = 1.25  # workers that are kept, by those that are needed
_GAIN = 0.1  # of what added workers promise, the least that keeps them
_PAUSE = 16  # windows for which a number that did not help is not tried again


class Scale:
    """Decides on the number of workers, within [`least`, `most`]: `target`."""

    def __init__(self, least: int, most: int):
        self._least, self._most = least, most
        self.target = least
        self._limit, self._limited = most, 0  # for so many windows, no more workers than that
        self._before: tuple[int, float] | None = None  # workers and seconds a step, before the last growth
        self._settling = False
        self._idle = 0
        self._busy_mean = 0.0  # seconds of a worker for a step
        self._begin_window()

    def _begin_window(self) -> None:
        self._steps = 0
        self._waited = self._worked = 0.0

    def made(self, seconds: float) -> None:
        """A worker took so long for a step."""
        self._busy_mean += (seconds - self._busy_mean) * (0.1 if self._busy_mean else 1.0)

    @property
    def needed(self) -> int | None:
        """Workers that would keep up with the consumer, by its latest steps; None before the first window's end."""
        return self._needed

    _needed: int | None = None

    def took(self, waited: float, worked: float, running: int) -> None:
        """The consumer took a step for which it waited, after it had worked on the one before. `running`: workers that
        take requests."""
        self._steps += 1
        self._waited += waited
        self._worked += worked
        if self._steps < max(_WINDOW, _PER_WORKER * self.target):
            return
        window = (self._waited, self._worked, (self._waited + self._worked) / self._steps)
        self._needed = self._keeping_up()
        self._begin_window()
        if running >= self.target:
            if self._settling:  # the window in which workers came says nothing of their number
                self._settling = False
            else:
                self._decide(*window)

    def _keeping_up(self) -> int:
        own = self._worked / self._steps
        return min(math.ceil(self._busy_mean / own) if own > 0 else 1 << 20, 1 << 20)

    def _decide(self, waited: float, worked: float, step: float) -> None:
        self._limited = max(0, self._limited - 1)
        limit = self._limit if self._limited else self._most
        if self._before is not None:
            before, step_before = self._before
            self._before = None
            promised = step_before * (1 - before / self.target)  # seconds a step that added workers save at best
            if step_before - step < _GAIN * promised:
                self._limit, self._limited, self.target = before, _PAUSE, before
                return
        assert self._needed is not None, "set at the end of the window"
        if waited > _WAITS * (waited + worked):
            self._idle = 0
            wanted = min(limit, max(self.target + 1, min(self._needed, _GROWTH * self.target)))
            if wanted > self.target:
                self._before, self.target, self._settling = (self.target, step), wanted, True
            return
        self._idle += 1
        kept = max(self._least, math.ceil(self._needed * _SPARE))
        if self._idle >= _IDLE_WINDOWS and kept < self.target:
            self._idle, self.target = 0, kept
