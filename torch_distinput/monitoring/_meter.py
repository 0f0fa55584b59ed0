# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`Meter`: how fast a program takes batches now, from the counters of its loader."""

from dataclasses import dataclass, replace
from typing import Any

from torch_distinput.loader._data_loader import DataLoader, progress_of
from torch_distinput.observe._stats import Stats, reports_of, stats_of

_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def _short(value: float) -> str:
    for size, prefix in _PREFIXES:
        if value >= size:
            return f"{value / size:.3g}{prefix}"
    return f"{value:.3g}"


@dataclass(frozen=True)
class Speed:
    """How fast a program took batches over an interval. `str(speed)` is a short text, for a column of rich's progress
    bars.

    Attributes:
        rows_per_second: None where Python makes the batches, because their rows are not counted.
        batches_per_second: batches, steps or elements.
        wait_share: the share of the time that the program waited for data, in [0, 1].
        steps_left: batches until the end of the epoch, None where that is unknown.

    >>> from torch_distinput.monitoring import Speed
    >>> str(Speed(51200.0, 200.0, 0.031, 12))
    '51.2k rows/s, wait 3%, 12 left'
    """

    rows_per_second: float | None = None
    batches_per_second: float = 0.0
    wait_share: float = 0.0
    steps_left: int | None = None

    def postfix(self) -> dict[str, str]:
        """The same for `tqdm.set_postfix`.

        >>> from torch_distinput.monitoring import Speed
        >>> Speed(51200.0, 200.0, 0.031, 12).postfix()
        {'rows/s': '51.2k', 'wait': '3%', 'left': '12'}
        """
        rows = self.rows_per_second
        shown = {"batches/s": _short(self.batches_per_second)} if rows is None else {"rows/s": _short(rows)}
        shown["wait"] = f"{self.wait_share:.0%}"
        if self.steps_left is not None:
            shown["left"] = str(self.steps_left)
        return shown

    def __str__(self) -> str:
        (unit, rate), *rest = self.postfix().items()
        words = [f"{rate} {unit}"] + [f"{text} left" if name == "left" else f"{name} {text}" for name, text in rest]
        return ", ".join(words)


class Meter:
    """The speed of the iterator made last, between two looks at its counters. One thread at a time.

    A look costs some µs, so that a loop may look at every step.

    Args:
        source: a `DataLoader`, or an iterator with `stats()`.
        interval: the least time in seconds over which speed is measured, so that the numbers do not flicker; above 0.

    >>> from torch_distinput.monitoring import Meter
    >>> loader = tdi.DataLoader(torch.arange(40), batch_size=4)
    >>> meter = Meter(loader)
    >>> for batch in loader:
    ...     speed = meter.look()
    >>> speed.steps_left
    0
    """

    def __init__(self, source: Any, interval: float = 0.5):
        if not interval > 0:
            raise ValueError(f"Meter: `interval` must be above 0, but is {interval}.")
        if not callable(getattr(reports_of(source), "stats", None)):
            raise TypeError(
                f"Meter: `source` must have stats(), as a DataLoader has, but is a {type(source).__name__}."
            )
        self._source = source
        self._interval = interval
        self._before = Stats()
        self._speed: Speed | None = None

    def look(self) -> Speed:
        """The present speed. Until `interval` has passed it is that of the last look, except for `steps_left`."""
        stats = stats_of(self._source)
        if stats.batches < self._before.batches:  # another iterator
            self._before, self._speed = Stats(), None
        passed = _seconds(stats) - _seconds(self._before)
        if self._speed is None or passed >= self._interval:
            self._speed = _between(self._before, stats, passed)
        if passed >= self._interval:
            self._before = stats
        return replace(self._speed, steps_left=steps_left(self._source))


def _seconds(stats: Stats) -> float:
    return stats.wait_seconds + stats.consumer_seconds


def _between(before: Stats, stats: Stats, passed: float) -> Speed:
    if passed <= 0:
        return Speed()
    counted = stats.rows is not None and before.rows is not None
    rows = ((stats.rows or 0) - (before.rows or 0)) / passed if counted else None
    waited = stats.wait_seconds - before.wait_seconds
    return Speed(rows, (stats.batches - before.batches) / passed, waited / passed)


def steps_left(source: Any) -> int | None:
    """Batches until the end of a loader's epoch; None where that is unknown, and for other sources."""
    if not isinstance(source, DataLoader):
        return None
    progress = progress_of(source)
    position = progress.position  # the thread that reads may begin another epoch
    if position is None:
        return None
    try:
        length = len(source)
    except TypeError:
        return None
    return max(length - progress.start.batches - position.yielded, 0)
