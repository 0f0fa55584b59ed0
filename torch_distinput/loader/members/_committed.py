# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What a loader whose processes come and go has committed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch_distinput.distribute._membership import Membership, StepMembers
from torch_distinput.loader.members._owned_positions import OwnedPositions
from torch_distinput.loader.members._positions import Positions
from torch_distinput.loader.members._stream_positions import StreamPositions
from torch_distinput.observe._members import MemberStats


class Committed:
    """Counts the steps that were committed since the start of the job, over all epochs: `steps`.

    `members`: of the step that this process took last; None before that. `counts`: what happened, over all iterators.
    """

    def __init__(self, positions: Positions | StreamPositions | OwnedPositions, steps: int):
        self.positions, self.steps = positions, steps
        self.members: StepMembers | None = None
        self.counts = MemberStats()
        self._delivered: StepMembers | None = None  # the members of a step that waits for its `commit`
        self._rows = 0  # of this process in that step

    def load(self, state: dict[str, Any]) -> None:
        """Continues from a checked state of a loader of ranks or members. Raises ValueError where its steps have other
        rows. A state of the step that waits for its `commit`, as a member receives it that heals meanwhile, leaves it
        waiting."""
        step = self.positions.load(state)
        if self._delivered is None or step != self.steps:
            self.go_to(step)

    def state(self) -> dict[str, Any]:
        """The position, as plain values."""
        return self.positions.state(self.steps)

    def go_to(self, step: int) -> None:
        """Continues after `step` committed steps; a step that waits for its `commit` is given back. Raises ValueError
        where the position there cannot be found."""
        self.positions.check_known(step)
        if self._delivered is not None:
            self._give_back()
        self.steps, self._delivered = step, None

    def delivered(self, members: StepMembers, rows: int) -> None:
        """Notes that step `steps` is handed out to `members`, `rows` rows of it to this process."""
        if self.members is None or members.generation != self.members.generation:
            self.counts = replace(self.counts, generations=self.counts.generations + 1)
        self.members = self._delivered = members
        self._rows = rows

    def dealt_anew(self, seconds: float) -> None:
        """Notes that a part was dealt anew in the midst of an epoch."""
        deals, before = self.counts.deals, self.counts.deal_seconds
        self.counts = replace(self.counts, deals=deals + 1, deal_seconds=before + seconds)

    @property
    def epochs(self) -> int:
        """The epochs that were committed whole."""
        return self.positions.place(self.steps).epoch

    def described(self) -> str:
        """What happened so far, in a line."""
        told = f"{self.counts}; {self.steps} steps committed"
        if self.members is None:
            return told
        index, count = self.members.index, self.members.count
        place = f"beside the {count} that get rows" if index is None else f"{index} of {count}"
        return f"{told}; generation {self.members.generation}, in which this process is {place}"

    def commit(self, ok: bool, membership: Membership) -> None:
        """As `DataLoader.commit`."""
        members, self._delivered = self._delivered, None
        if members is None:
            raise RuntimeError("commit: no step waits for it; take a batch first.")
        reported = self.positions.knows_end_of(self.steps)
        holds = ok and reported and membership.holds(members)
        self.steps += holds
        if not holds:
            self._give_back()
        if ok and not reported:
            raise RuntimeError(
                f"commit: where the streams stand after step {self.steps} is not known here, because not all members "
                "have told it, or another state was loaded meanwhile, so that its rows would come again. Pass False, "
                "and do not step the optimizer."
            )
        if ok and not holds:
            raise RuntimeError(
                f"commit: the members of step {self.steps} have changed since its rows were dealt to {members.count} "
                "of them, so that some rows of it are missing or came twice. Pass False, do not step the optimizer, "
                "and begin no step (torchft: no quorum) between a batch and its `commit`."
            )

    def _give_back(self) -> None:
        steps, rows = self.counts.given_back + 1, self.counts.given_back_rows + self._rows
        self.counts = replace(self.counts, given_back=steps, given_back_rows=rows)

    def check_answered(self) -> None:
        """Raises RuntimeError while a step waits for its `commit`."""
        if self._delivered is not None:
            raise RuntimeError(
                f"DataLoader: step {self.steps} waits for `loader.commit(ok)`: with `membership`, the rows of the next "
                "step depend on whether this one counts."
            )

    def position(self) -> MemberPosition:
        """The position of an iterator of the loader."""
        return MemberPosition(self)


class MemberPosition:
    """The position of an iterator: always after the last committed step. `yielded`: steps handed out, also in vain."""

    def __init__(self, committed: Committed):
        self._committed = committed
        self.yielded = 0
        self.finished = False

    @property
    def num_batches(self) -> int | None:
        return None

    @property
    def seed(self) -> int | None:
        return self.state()["seed"]

    def state(self) -> dict[str, Any]:
        """As plain values."""
        return self._committed.state()
