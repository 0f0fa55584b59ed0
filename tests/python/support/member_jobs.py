# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A job whose members leave, fail, heal and join, alone or with their host, in one process, with the real loaders.

The rules are those of torchft: a quorum is all that are there; the furthest of them take part, the others receive their
state during the step (or before it, where `heals_first`); an all-reduce that ends has all of them in it; members may
answer differently whether they commit, and those that did not are behind and heal.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

import torch_distinput as tdi

Ledger = dict[int, list[int]]  # the rows of each committed step

HOSTS = 3


class Told(tdi.Membership):
    """Members as the job says."""

    members = tdi.StepMembers(0, None, 1)
    begun = 0

    def begin_step(self) -> tdi.StepMembers:
        self.begun += 1
        return self.members


@dataclass
class Delivery:
    """What one member got for a step: the numbers of its rows and its info."""

    rows: list[int]
    info: tdi.StepInfo
    counts: bool  # whether its gradient does


class Member:
    """One process, on host `host`: a loader, whose epochs end after `ends` steps (None: that depends on the members),
    and the model's history, which is the ledger of the steps that it has made."""

    def __init__(
        self,
        make_loader: Callable[[tdi.Membership], Any],
        numbers_of: Callable[[Any], torch.Tensor],
        ends: list[int] | None,
        host: int,
        told: Told,
    ):
        self.host, self._ends = host, ends
        self.told = told
        self.loader = make_loader(self.told)
        self.numbers_of = numbers_of
        self.history: Ledger = {}
        self._steps: Iterator[Any] | None = None

    @property
    def step(self) -> int:
        return len(self.history)

    def take(self) -> Delivery:
        """The rows of the next step, in a loop as a program has it: over epochs."""
        begun = self.told.begun
        while True:
            if self._steps is None:
                self._steps = iter(self.loader)
            try:
                batch = next(self._steps)
            except StopIteration:
                assert self.told.begun == begun, "an iterator ends before it begins a step, not after"
                if self._ends is not None:
                    assert self.loader.committed_steps == self._ends[self.loader.committed_epochs - 1]
                self._steps = None
                continue
            assert self.told.begun == begun + 1
            info = self.loader.last_info
            valid = self.numbers_of(batch).tolist()[: info.valid[0]]
            return Delivery(valid, info, self.told.members.index is not None)

    def heal(self, source: Member) -> None:
        """Receives the state of `source`, at the step at which that is now."""
        self.history = dict(source.history)

    def answer(self, rows: list[int] | None) -> None:
        """Commits a step of `rows`; None: does not."""
        self.loader.commit(rows is not None)
        if rows is not None:
            self.history[self.step] = rows

    def close(self) -> None:
        self._steps = None
        self.loader.close()


@dataclass
class Job:
    """Members that come and go by chance, until all epochs are committed, which end after `ends` steps.

    `most`: members at once. `has_clock`: the membership says how many steps are committed; else loaders count, and
    those that heal seek.

    `saved`: a state of a loader with the history that belongs to it, from which the job starts again once nobody is
    left.
    """

    chance: random.Random
    make_loader: Callable[[tdi.Membership], Any]
    numbers_of: Callable[[Any], torch.Tensor]
    ends: list[int]
    most: int
    heals_first: bool = False
    has_clock: bool = True
    members: list[Member] = field(default_factory=list)
    saved: tuple[dict[str, Any], Ledger] | None = None
    generation: int = 0
    deliveries: list[list[Delivery]] = field(default_factory=list)  # of each step, also those not committed
    events: set[str] = field(default_factory=set)

    def run(self) -> Ledger:
        """The rows of each committed step."""
        self.join()
        try:
            while not self.ended():
                self.round()
            return max(self.members, key=lambda member: member.step).history
        finally:
            for member in self.members:
                member.close()

    def ended(self) -> bool:
        return max(member.step for member in self.members) >= self.ends[-1]

    def member(self, host: int) -> Member:
        return Member(self.make_loader, self.numbers_of, self.ends, host, Told())

    def join(self) -> None:
        """One more member, which knows nothing; the first one, what was saved."""
        member = self.member(self.chance.randrange(HOSTS))
        if not self.members and self.saved is not None:
            state, history = self.saved
            member.loader.load_state_dict(state)
            member.history = dict(history)
        self.members.append(member)

    def lose(self, member: Member) -> None:
        self.members.remove(member)
        member.close()
        if not self.members:
            self.events.add("all lost")
            self.join()

    def round(self) -> None:
        """One step: membership changes, a quorum, rows, perhaps a failure, answers."""
        chance = self.chance
        if len(self.members) < self.most and chance.random() < 0.25:
            self.join()
            self.events.add("joined")
        elif len(self.members) > 1 and chance.random() < 0.1:
            self.lose(chance.choice(self.members))
            self.events.add("left")
        if chance.random() < 0.1:
            chance.shuffle(self.members)  # a quorum may number its members anew
        furthest = max(member.step for member in self.members)
        source = next(member for member in self.members if member.step == furthest)
        healing = [member for member in self.members if member.step < furthest]
        taking = [member for member in self.members if self.heals_first or member.step == furthest]
        self.generation += 1
        for member in self.members:
            index = taking.index(member) if member in taking else None
            step = furthest if self.has_clock else None
            member.told.members = tdi.StepMembers(self.generation, index, len(taking), step)
        for member in healing:
            self.heal(member, source)
            self.events.add("healed")
        deliveries = self.deliver()
        self.deliveries.append(list(deliveries.values()))
        rows = [row for member in taking for row in deliveries[id(member)].rows]
        self.answers(rows)
        if chance.random() < 0.1:
            one = chance.choice(self.members)
            self.saved = one.loader.state_dict(), dict(one.history)

    def heal(self, member: Member, source: Member) -> None:
        """Gives `member` the state of `source`, at the step that begins."""
        member.heal(source)
        if not self.has_clock:
            member.loader.seek(source.step)

    def deliver(self) -> dict[int, Delivery]:
        """What each member gets for the step, by its `id`."""
        return {id(member): member.take() for member in self.members}

    def answers(self, rows: list[int]) -> None:
        """What the members say to a step of `rows`, and who does not live to say it."""
        fate = self.chance.random()
        if fate < 0.1:  # lost during the step: the all-reduce fails for all
            self.events.add("lost")
            lost = self.chance.sample(self.members, self.chance.randint(1, len(self.members)))
            if fate < 0.04:
                self.events.add("host lost")
                lost = [member for member in self.members if member.host == lost[0].host]
            for member in self.members:
                if member not in lost:
                    member.answer(None)
            for member in lost:
                self.lose(member)
            return
        if fate < 0.2:
            self.events.add("not committed")
            for member in self.members:
                member.answer(None)
            return
        said = self.willing()
        if fate < 0.3:
            self.events.add("answered differently")
            said = [ok and self.chance.random() < 0.5 for ok in said]
        for member, ok in zip(self.members, said, strict=True):
            member.answer(rows if ok else None)
        if fate > 0.95:
            self.events.add("lost after its commit")
            self.lose(self.chance.choice(self.members))

    def willing(self) -> list[bool]:
        """Which members may commit the step."""
        return [True] * len(self.members)
