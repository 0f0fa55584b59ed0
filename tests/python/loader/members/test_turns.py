# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`Membership.turns`: loaders that train and evaluate in turn, on one clock, while members come and go."""

import random

import member_jobs
import pytest
import torch

import torch_distinput as tdi


class Program:
    """One member: loaders of `rows` each that take turns, and what it knows: the rows of each committed step of the
    job."""

    def __init__(self, rows, batch):
        self.told = member_jobs.Told()
        memberships = self.told.turns(*(-(-each // batch) for each in rows))
        self.loaders = [
            tdi.DataLoader(torch.arange(each), membership=membership, global_batch_size=batch, shuffle=True, seed=each)
            for each, membership in zip(rows, memberships)
        ]
        self.history = []
        self._steps = self._run()

    def _run(self):
        while True:
            for turn, loader in enumerate(self.loaders):
                for batch in loader:
                    yield turn, loader.last_info.epoch, loader.last_info.step, batch.tolist()

    def take(self):
        """The next step: whose it is, its place, and the rows of this member."""
        begun = self.told.begun
        turn, *step = next(self._steps)
        assert self.told.begun == begun + 1
        self.loader = self.loaders[turn]
        return turn, *step

    def answer(self, step):
        self.loader.commit(step is not None)
        if step is not None:
            self.history.append(step)


def expected(rows, batch, rounds):
    """What one process takes without turns: for each step the loader, the place, and the rows."""
    loaders = [
        tdi.DataLoader(torch.arange(each), global_batch_size=batch, distributed=True, shuffle=True, seed=each)
        for each in rows
    ]
    steps = []
    for _ in range(rounds):
        for turn, loader in enumerate(loaders):
            steps += [(turn, loader.last_info.epoch, loader.last_info.step, batch.tolist()) for batch in loader]
    return steps


def a_round(members, chance):
    """A quorum of all members, of which those that are behind heal, a step, and answers."""
    furthest = max(len(member.history) for member in members)
    taking = [member for member in members if len(member.history) == furthest]
    for member in members:
        index = taking.index(member) if member in taking else None
        member.told.members = tdi.StepMembers(0, index, len(taking), furthest)
    taken = [member.take() for member in members]
    assert len({step[:3] for step in taken}) == 1
    rows = [row for member, step in zip(members, taken) if member in taking for row in step[3]]
    fate = chance.random()
    for member in members:
        member.history = list(taking[0].history[:furthest])
    for member in members:
        ok = fate > 0.4 or (fate > 0.2 and chance.random() < 0.5)  # all, some or none
        member.answer((*taken[0][:3], rows) if ok else None)


@pytest.mark.parametrize("seed", range(40))
def test_members_that_heal_go_on_in_the_turn_of_the_others(seed):
    chance = random.Random(seed)
    rows, batch = [chance.randint(1, 20) for _ in range(chance.randint(1, 3))], chance.randint(1, 7)
    rounds = chance.randint(1, 3)
    plan = expected(rows, batch, rounds)
    members = [Program(rows, batch)]
    while max(len(member.history) for member in members) < len(plan):
        if len(members) < 4 and chance.random() < 0.4:
            members.append(Program(rows, batch))
        elif len(members) > 1 and chance.random() < 0.2:
            members.remove(chance.choice(members[1:]))
        a_round(members, chance)
    assert max((member.history for member in members), key=len) == plan


def test_turns_need_a_clock():
    train, _ = tdi.Membership.fixed(0, 1).turns(2, 1)
    loader = tdi.DataLoader(torch.arange(4), membership=train, global_batch_size=2)
    with pytest.raises(RuntimeError, match="must tell the steps that the job has committed"):
        next(iter(loader))


@pytest.mark.parametrize(("steps", "told"), [((), "at least one loader"), ((2, 0), "`steps` must be at least 1")])
def test_turns_have_steps(steps, told):
    with pytest.raises(ValueError, match=told):
        tdi.Membership.fixed(0, 1).turns(*steps)


def test_a_step_holds_as_the_membership_says():
    class Changes(member_jobs.Told):
        def holds(self, members):
            return False

    told = Changes()
    told.members = tdi.StepMembers(0, 0, 1, 0)
    (train,) = told.turns(2)
    loader = tdi.DataLoader(torch.arange(4), membership=train, global_batch_size=2)
    next(iter(loader))
    with pytest.raises(RuntimeError, match="members of step 0 have changed"):
        loader.commit(True)


def test_an_iterator_that_has_ended_in_the_turn_of_another_stays_ended():
    told = member_jobs.Told()
    told.members = tdi.StepMembers(0, 0, 1, 2)
    train, check = (
        tdi.DataLoader(torch.arange(4), membership=membership, global_batch_size=2) for membership in told.turns(2, 2)
    )
    steps = iter(train)
    assert list(steps) == []
    assert next(iter(check)).tolist() == [0, 1]
    check.commit(True)
    told.members = tdi.StepMembers(0, 0, 1, 4)
    assert list(steps) == []
    assert next(iter(train)).tolist() == [0, 1]
