# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Positions in streams that have one owner each, whose steps are counted over all epochs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from torch_distinput.distribute import _peer_values
from torch_distinput.distribute._distributed import native_of
from torch_distinput.loader._config import LoaderConfig
from torch_distinput.loader.members._owner_report import DIGEST_BYTES, OwnerReport, position_in
from torch_distinput.loader.members._place import Place, StepPositions
from torch_distinput.loader.members._positions import check_rows, committed_in, place_of, seed_of, state_of
from torch_distinput.loader.ranks._feed import Feed


class _Mark(NamedTuple):
    """The position before a step. `owners`: of the streams of each owner, as they report it; None: the start of an
    epoch. `digest`: of all that led there. `base`: the digest of the position one step before; b"" where that is not
    known."""

    place: Place
    owners: list[bytes] | None
    digest: bytes
    base: bytes


class OwnedPositions(StepPositions):
    """The positions of the latest steps, as all owners have reported them, or as a state had them.

    Which rows a step has depends on who took part in the steps before it. So a position is known from the members of
    the step before, or from a state, and nothing else tells it.

    Raises ValueError for another tail than "zero_rows".
    """

    def __init__(self, config: LoaderConfig, feed: Feed):
        if config.steps_tail != "zero_rows":
            raise ValueError(
                'DataLoader: with `membership`, over streams that have owners, `tail` must be "zero_rows", because the '
                f"last step is known once all have told that their streams have ended, but is {config.steps_tail!r}."
            )
        self._config, self._feed = config, feed
        self._seed = seed_of(config)
        self._marks = {0: _Mark(Place(0, 0), None, _digest(b"", []), b"")}

    def place(self, step: int) -> Place:
        return self._mark(step).place

    def digest(self, step: int) -> bytes:
        """Of the position before `step`: equal for members that go on from the same one."""
        return self._mark(step).digest

    def load(self, state: dict[str, Any]) -> int:
        """Raises ValueError also for a state of a later epoch that does not say how many steps were committed."""
        check_rows(state, self._feed.plan(self._config), self._seed)
        place, step = place_of(state), committed_in(state, "streams that have owners")
        owners = [_peer_values.encode_whole(position) for position in _positions_of(state)] if place.step else None
        digest = _digest(b"", owners or []) if state.get("digest") is None else bytes.fromhex(state["digest"])
        after = self._marks.get(step + 1)
        known = self._marks.get(step)
        if known is None or known.digest != digest:
            known = _Mark(place, owners, digest, b"")
        self._marks = {0: self._marks[0], step: known}
        if after is not None and after.base == digest:  # the step that this process has taken just now
            self._marks[step + 1] = after
        return step

    def state(self, step: int) -> dict[str, Any]:
        """With the number of steps, and the digest by which members compare their positions."""
        mark, plan = self._mark(step), self._feed.plan(self._config)
        assert plan.dataset is not None, "streams of this library are assigned"
        if mark.owners is None:
            native: Any = native_of(plan.dataset).iterate(epoch=mark.place.epoch, seed=self._seed).state_dict()
        else:
            native = [position_in(owner, index) for index, owner in enumerate(mark.owners)]
        return state_of(plan, mark.place, self._seed, native) | {"committed": step, "digest": mark.digest.hex()}

    def begin(self, step: int) -> None:
        """Forgets where `step` led when it was taken before."""
        self._marks.pop(step + 1, None)

    def taken(self, step: int, reports: Sequence[OwnerReport]) -> None:
        """Is told what all owners have reported of `step`, which is not committed yet."""
        place, base = reports[0].place, reports[0].base
        ended = all(report.ended for report in reports)
        owners = [report.position for report in reports]
        after = Place(place.epoch + 1, 0) if ended else Place(place.epoch, place.step + 1)
        mark = _Mark(after, None if ended else owners, _digest(base, owners), base)
        # Those that have not committed `step` may come back to it, also members that have.
        self._marks = {known: self._marks[known] for known in (0, step) if known in self._marks} | {step + 1: mark}

    def check_known(self, step: int) -> None:
        self._mark(step)

    def knows_end_of(self, step: int) -> bool:
        return step + 1 in self._marks

    def _mark(self, step: int) -> _Mark:
        if step not in self._marks:
            raise ValueError(
                f"DataLoader: where the streams stand before step {step} is not known here: with `membership`, over "
                "streams that have owners, a member that joins or goes to another step needs the `state_dict` of the "
                f"loader of one that is there. Known are the steps {sorted(self._marks)}."
            )
        return self._marks[step]


def _positions_of(state: dict[str, Any]) -> list[Any]:
    found = state["distributed"]
    return found if isinstance(found, list) else [found]


def _digest(base: bytes, owners: Sequence[bytes]) -> bytes:
    hashed = hashlib.blake2b(base, digest_size=DIGEST_BYTES)
    for owner in owners:
        hashed.update(len(owner).to_bytes(8, "little") + owner)
    return hashed.digest()
