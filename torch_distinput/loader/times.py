# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The consumer's time at an iterator whose batches Python makes; native iterators measure themselves."""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

_FOLD_AT = 8192
_ENTRIES = 24  # of Stats.wait_histogram

clock = perf_counter_ns


class CallTimes:
    """Begin and end of each call of `next`.

    `marks` holds both, one after the other: appending is all that a call costs, and `fold` adds them up now and then.
    A call that fails, or that meets the end, takes its mark back.
    """

    def __init__(self) -> None:
        self.marks: list[int] = []
        self._returned = 0
        self._wait = self._consumer = 0
        self._histogram = [0] * _ENTRIES

    def fold_if_due(self) -> None:
        """Adds up what has ended, where much has."""
        if len(self.marks) >= _FOLD_AT:
            self.fold()

    def fold(self) -> None:
        """Adds up the calls that have ended."""
        marks = self.marks[: len(self.marks) // 2 * 2]
        del self.marks[: len(marks)]
        for began, ended in zip(marks[::2], marks[1::2]):
            if self._returned:
                self._consumer += began - self._returned
            self._returned = ended
            self._wait += ended - began
            self._histogram[min(((ended - began) // 1000).bit_length(), _ENTRIES - 1)] += 1

    def fields(self) -> dict[str, Any]:
        """The fields of `Stats` that are measured here."""
        self.fold()
        return {
            "wait_seconds": self._wait / 1e9,
            "consumer_seconds": self._consumer / 1e9,
            "wait_histogram": tuple(self._histogram),
        }
