# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`MemberStats`: what members that come and go have cost a process."""

from __future__ import annotations

from dataclasses import dataclass

from torch_distinput.observe._units import seconds_text


@dataclass(frozen=True, repr=False)
class MemberStats:
    """What happened in the steps of a loader with `membership`, as this process saw it.

    Attributes:
        generations: generations that began: the first one, and one for each change of the members.
        given_back: steps that this process took and that were not committed; they came again, to whoever was there.
        given_back_rows: the rows of this process in them.
        deals: times that a part was dealt anew, because the members or the step were others than those that rows had
            been read ahead for.
        deal_seconds: time to deal these parts and to read their first batches.

    >>> tdi.MemberStats(generations=2, given_back=1, given_back_rows=4, deals=2, deal_seconds=0.003)
    members: 2 generations; 1 steps given back, with 4 rows of this process; dealt anew 2 times in 3 ms
    """

    generations: int = 0
    given_back: int = 0
    given_back_rows: int = 0
    deals: int = 0
    deal_seconds: float = 0.0

    def since(self, before: MemberStats) -> MemberStats:
        """What was counted after `before`."""
        return MemberStats(
            self.generations - before.generations,
            self.given_back - before.given_back,
            self.given_back_rows - before.given_back_rows,
            self.deals - before.deals,
            self.deal_seconds - before.deal_seconds,
        )

    def __repr__(self) -> str:
        return (
            f"members: {self.generations} generations; {self.given_back} steps given back, with {self.given_back_rows} "
            f"rows of this process; dealt anew {self.deals} times in {seconds_text(self.deal_seconds)}"
        )
