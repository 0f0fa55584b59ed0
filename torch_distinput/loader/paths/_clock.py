# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The consumer's time at an iterator whose batches Python makes; native iterators measure themselves."""

from __future__ import annotations

from typing import Any

from torch_distinput import _C


class CallTimes:
    """Measures calls of `next`, from `begin()` to `end()`. A call that fails or reaches the end has no `end()`."""

    def __init__(self) -> None:
        self.begin, self.end, self._read = _C.call_clock()

    def fields(self) -> dict[str, Any]:
        """The fields of `Stats` that are measured here."""
        wait, consumer, histogram = self._read()
        return {"wait_seconds": wait / 1e9, "consumer_seconds": consumer / 1e9, "wait_histogram": histogram}
