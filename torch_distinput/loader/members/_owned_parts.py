# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Reads the streams that one member owns, and tells the other members where they stand after each step."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from torch_distinput._C import StepInfo
from torch_distinput.distribute import _peer_values
from torch_distinput.distribute._membership import Membership, StepMembers
from torch_distinput.distribute._part import WHOLE, Part
from torch_distinput.loader.members._arguments import NEEDS_STEPS
from torch_distinput.loader.members._owned_positions import OwnedPositions
from torch_distinput.loader.members._owner_report import OwnerReport, report_in
from torch_distinput.loader.members._place import Place
from torch_distinput.loader.members._reading import Reading
from torch_distinput.loader.paths._batches import without_rows
from torch_distinput.observe._stats import Stats


class OwnedParts:
    """The rows that this member's streams have in steps. Its streams are dealt anew where the part changes, or where
    what follows is not what was read ahead.

    `dealt_anew`: as in `Parts`.
    """

    def __init__(
        self,
        positions: OwnedPositions,
        reading: Reading,
        membership: Membership,
        dealt_anew: Callable[[float], None],
    ):
        self._membership = membership
        self._positions, self._reading, self._dealt_anew = positions, reading, dealt_anew
        self._example: Any = None  # a batch without rows

    def take(self, step: int, members: StepMembers) -> tuple[Any, StepInfo]:
        """The rows of this member's streams in step `step`, counted over all epochs. A collective of the members.

        Where it fails, the step has the rows of this member only, and must not be committed.
        """
        self._positions.begin(step)
        try:
            batch, own = (None, None) if members.index is None else self._read(step, Part(members.index, members.count))
            given = self._membership.all_gather(members, b"" if own is None else own.encode())
            if given is None:
                self._reading.ahead = None
                return self._or_none(batch), _info(members, [] if own is None else [own], own)
            reports = [report_in(data, index) for index, data in enumerate(given)]
            _check(reports, members)
            if reports[0].place.step == 0 and not any(report.rows for report in reports):
                raise ValueError(NEEDS_STEPS)
            batch = self._or_none(batch)
        except BaseException:
            self._reading.close()
            raise
        self._positions.taken(step, reports)
        if members.index is not None:
            ended, part = all(report.ended for report in reports), Part(members.index, members.count)
            self._reading.ahead = None if ended else (self._positions.digest(step + 1), part)
        return batch, _info(members, reports, own)

    def _read(self, step: int, part: Part) -> tuple[Any, OwnerReport]:
        """The rows of `part`, and what the others need to know of them; None for no rows."""
        began, ahead, follows = time.perf_counter(), self._reading.ahead, (self._positions.digest(step), part)
        if ahead != follows:
            self._reading.begin(self._positions.state(step), part)
        taken = self._reading.next()
        state = self._reading.progress.state()
        assert state is not None, "it has begun"
        place = self._positions.place(step)
        # An owner whose streams have ended takes the steps of the others.
        position = state["distributed"] | {"step": place.step + 1}
        batch, rows, ended = (None, 0, True) if taken is None else (taken[0], sum(taken[1].valid), taken[1].is_last)
        text = _peer_values.encode_whole(position)
        report = OwnerReport(place, position["row"] - rows, rows, ended, follows[0], text)
        if ahead not in (None, follows):
            self._dealt_anew(time.perf_counter() - began)
        return batch, report

    def _or_none(self, batch: Any) -> Any:
        """`batch`, or a batch without rows in its place."""
        if self._example is None:
            self._example = without_rows(self._first() if batch is None else batch)
        return self._example if batch is None else batch

    def _first(self) -> Any:
        """The first batch of all streams. Raises ValueError where there is none."""
        reading = self._reading.another()
        reading.begin(self._positions.state(0), WHOLE)
        taken = reading.next()
        reading.close()
        if taken is None:
            raise ValueError(NEEDS_STEPS)
        return taken[0]

    def stats(self) -> Stats:
        """The counters of all streams that were read."""
        return self._reading.stats()

    def end(self) -> None:
        """Ends the reading ahead."""
        self._reading.end()


def _check(reports: Sequence[OwnerReport], members: StepMembers) -> None:
    """Raises RuntimeError where members go on from different positions."""
    if len(reports) != members.count:
        raise RuntimeError(
            f"Membership.all_gather must return {members.count} values, but has returned {len(reports)}."
        )
    for index, report in enumerate(reports):
        if (report.place, report.base) != (reports[0].place, reports[0].base):
            raise RuntimeError(
                f"DataLoader: members go on from different positions: member 0 from step {reports[0].place.step} of "
                f"epoch {reports[0].place.epoch}, member {index} from step {report.place.step} of epoch "
                f"{report.place.epoch}, or from another position there. Give all of them the state of one "
                "(`load_state_dict`)."
            )


def _info(members: StepMembers, reports: Sequence[OwnerReport], own: OwnerReport | None) -> StepInfo:
    """Of a step of `reports`, for the member that has reported `own`."""
    rows, total = 0 if own is None else own.rows, sum(report.rows for report in reports)
    place = reports[0].place if reports else Place(0, 0)
    return StepInfo(
        epoch=place.epoch,
        step=place.step,
        row_start=sum(report.before for report in reports),
        valid=[rows],
        global_valid=total,
        num_replicas=members.count,
        loss_scale=[members.count * rows / total if total else 0.0],
        is_last=bool(reports) and all(report.ended for report in reports),
        has_value=[rows > 0],
    )
