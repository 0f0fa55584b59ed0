# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Which rows were in the steps of data that is read in order, where no arithmetic tells."""

from __future__ import annotations

from array import array
from bisect import bisect_right

MOST_ENTRIES = 1 << 20  # of all epochs together: 16 MiB


class StepLog:
    """The rows of the steps of one epoch, one after the other. Rows are numbered in the order in which they are read.

    An entry is the number of a step and that of its first row, 16 bytes. Steps with as many rows as the one before need
    none. `own_rank`: whose stream it is; None: that of all ranks.
    """

    def __init__(self, step: int, row: int, own_rank: int | None):
        self.own_rank = own_rank
        self._next_step, self._next_row = step, row
        self._each = -1  # rows of the last step
        self._steps, self._rows = array("q"), array("q")

    @property
    def first_step(self) -> int:
        """The first step that is known."""
        return self._steps[0] if self._steps else self._next_step

    @property
    def next_step(self) -> int:
        """The first step that was not taken yet."""
        return self._next_step

    @property
    def entries(self) -> int:
        return len(self._steps)

    def add(self, rows: int) -> None:
        """The next step has `rows` rows."""
        if rows != self._each:
            self._steps.append(self._next_step)
            self._rows.append(self._next_row)
            self._each = rows
        self._next_step += 1
        self._next_row += rows

    def rows(self, step: int) -> range:
        """The rows of `step`. REQUIRES: it is known."""
        at = bisect_right(self._steps, step) - 1
        first_step, first_row, each = self._steps[at], self._rows[at], self._each
        if at + 1 < len(self._steps):
            each = (self._rows[at + 1] - first_row) // (self._steps[at + 1] - first_step)
        begin = first_row + (step - first_step) * each
        return range(begin, begin + each)

    def forget(self, entries: int) -> None:
        """Forgets the oldest `entries` entries, but not the last one."""
        entries = min(entries, len(self._steps) - 1)
        del self._steps[:entries]
        del self._rows[:entries]


class StepLogs:
    """The logs of the latest epochs, with at most `most` entries in all: what is oldest is forgotten."""

    def __init__(self, most: int = MOST_ENTRIES):
        self._most = most
        self._of_epochs: dict[int, StepLog] = {}
        self._entries = 0

    def begin(self, epoch: int, step: int, row: int, own_rank: int | None = None) -> StepLog:
        """The log of `epoch` from `step` on, which begins with row `row`, in place of one that there was."""
        self._of_epochs.pop(epoch, None)
        log = self._of_epochs[epoch] = StepLog(step, row, own_rank)
        return log

    def add(self, log: StepLog, rows: int) -> None:
        """The next step in `log` has `rows` rows."""
        before = log.entries
        log.add(rows)
        self._entries += log.entries - before
        if self._entries > self._most:
            self._forget()

    def _forget(self) -> None:
        """Forgets an eighth of all entries at least, so that this is done once for many steps."""
        kept = self._most - self._most // 8
        for log in list(self._of_epochs.values()):
            entries = sum(log.entries for log in self._of_epochs.values())
            if entries > kept:
                log.forget(entries - kept)
        self._entries = sum(log.entries for log in self._of_epochs.values())

    def of_epoch(self, epoch: int) -> StepLog | None:
        """That of `epoch`, if there is one."""
        return self._of_epochs.get(epoch)
