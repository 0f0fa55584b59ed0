# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The iterator of a loader whose processes come and go."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch_distinput.distribute._membership import Membership, StepMembers
from torch_distinput.loader._config import LoaderConfig
from torch_distinput.loader.members._committed import Committed
from torch_distinput.loader.members._owned_parts import OwnedParts
from torch_distinput.loader.members._owned_positions import OwnedPositions
from torch_distinput.loader.members._parts import Parts
from torch_distinput.loader.members._reading import Reading
from torch_distinput.loader.state._place import described_iterator
from torch_distinput.loader.state._progress import Progress
from torch_distinput.observe._stats import Stats


class MemberSteps:
    """Steps up to the next end of an epoch, each dealt to the members that it begins with.

    A step that was not committed comes again. Where the others are further, the next step is theirs, also if that is in
    a later epoch, at whose end this iterator then ends.
    """

    _workers: Any = ()

    def __init__(self, config: LoaderConfig, progress: Progress, committed: Committed, reading: Reading):
        self._progress, self._committed = progress, committed
        self._with_info = config.with_info
        membership: Any = config.membership
        self._membership: Membership = membership
        with progress.opening(config):
            self._start, self._position = progress.start, committed.position()
            self._first = committed.steps
            self._before = committed.counts
            reading.count_anew()
            self._parts = self._opened(config, reading)
            progress.attach(self, self._position)

    def __iter__(self) -> MemberSteps:
        return self

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")

    def __next__(self) -> Any:
        committed = self._committed
        committed.check_answered()
        members = None if self._at_end() else self._membership.begin_step()
        if members is None:
            self._position.finished = True
            raise StopIteration
        _check(members)
        if members.step is not None and members.step != committed.steps:
            committed.steps = self._first = members.step
        self._membership.check_step(committed.steps)
        batch, info = self._parts.take(committed.steps, members)
        committed.delivered(members, sum(info.valid))
        self._progress.used, self._progress.info = True, info
        self._position.yielded += 1
        return (batch, info) if self._with_info else batch

    def _opened(self, config: LoaderConfig, reading: Reading) -> Parts | OwnedParts:
        committed = self._committed
        if isinstance(committed.positions, OwnedPositions):
            return OwnedParts(committed.positions, reading, self._membership, committed.dealt_anew)
        return Parts(config, committed.positions, reading, committed.dealt_anew)

    def _at_end(self) -> bool:
        committed = self._committed
        ended = committed.steps > self._first and committed.positions.place(committed.steps).step == 0
        return ended or self._position.finished

    def __repr__(self) -> str:
        found = self.__dict__
        return described_iterator(self, "members", found.get("_start"), found.get("_position"))

    def stats(self) -> Stats:
        """What this iterator has counted."""
        members = self._committed.counts.since(self._before)
        return replace(self._parts.stats(), batches=self._position.yielded, members=members)

    def close(self) -> None:
        """Ends the iteration; the loader keeps what is committed."""
        self._progress.keep_stats(self._position, self.stats())
        self._parts.end()

    def __del__(self) -> None:
        try:  # noqa: SIM105 - at the interpreter's exit, names of modules are gone
            self.close()
        except Exception:  # noqa: BLE001 - half made, or the interpreter is exiting
            pass


def _check(members: StepMembers) -> None:
    """Raises ValueError for members that cannot be."""
    index, count, step = members.index, members.count, members.step
    if count < 1 or (index is not None and not 0 <= index < count) or (step is not None and step < 0):
        raise ValueError(
            "DataLoader: `membership` must give a `count` of at least 1, an `index` in [0, `count`) or None, and a "
            f"`step` of at least 0 or None, but gave {members}."
        )
