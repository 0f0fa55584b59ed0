# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Members over data that is read in order: all of them read it, and a position fits each part."""

import itertools

import member_jobs
import pytest

import torch_distinput as tdi

ALONE = tdi.Membership.fixed(0, 1)


class Counted:
    """Whether rows stay, with how many were asked for."""

    def __init__(self):
        self.asked = 0

    def __call__(self, row):
        self.asked += 1
        return row % 3 != 1


def _loader(stays=None, rows=20, membership=ALONE, **arguments):
    data = tdi.Dataset.range(rows).filter(stays or Counted()).shuffle(4)
    return tdi.DataLoader(data, global_batch_size=4, membership=membership, seed=3, **arguments)


def _ranks():
    data = tdi.Dataset.range(20).filter(Counted()).shuffle(4)
    return tdi.DataLoader(data, global_batch_size=4, distributed=True, seed=3)


def _steps(epochs):
    loader = _ranks()
    return [batch.tolist() for _ in range(epochs) for batch in loader]


def _told(index, count, step=None):
    told = member_jobs.Told()
    told.members = tdi.StepMembers(0, index, count, step)
    return told


def _committed(loader, steps):
    taken = []
    for batch in itertools.islice(iter(loader), steps):
        taken.append(batch.tolist())
        loader.commit(True)
    return taken


EXPECTED = _steps(3)  # 13 rows an epoch: four steps


def test_seek_reads_what_lies_before():
    loader = _loader()
    for step in (6, 0, 3, 11, 4, 5):
        loader.seek(step)
        assert next(iter(loader)).tolist() == EXPECTED[step]
        assert (loader.last_info.epoch, loader.last_info.step) == divmod(step, 4)


def test_a_member_that_joins_goes_on_where_the_others_are():
    loader = _loader(membership=_told(1, 2, step=9))
    assert next(iter(loader)).tolist() == EXPECTED[9][2:]


@pytest.mark.parametrize("taken", range(13))
def test_a_state_says_where_members_are_without_reading_again(taken):
    before = _loader(membership=_told(0, 3))
    while before.committed_steps < taken:
        _committed(before, 1)
    stays = Counted()
    after = _loader(stays, membership=_told(1, 2))
    after.load_state_dict(before.state_dict())
    assert after.committed_steps == taken
    assert after.committed_epochs == taken // 4
    assert after.state_dict() == before.state_dict()
    begun = stays.asked
    if taken < 12:
        batch = next(iter(after))
        assert batch.tolist() == EXPECTED[taken][-(-len(EXPECTED[taken]) // 2) :]
    assert begun == 0


def test_states_fit_ranks_and_members():
    members = _loader()
    _committed(members, 2)
    ranks = _ranks()
    ranks.load_state_dict(members.state_dict())
    assert [batch.tolist() for batch in ranks] == EXPECTED[2:4]

    ranks = _ranks()
    next(steps := iter(ranks))
    next(steps)
    members = _loader()
    members.load_state_dict(ranks.state_dict())
    assert members.committed_steps == 2
    assert next(iter(members)).tolist() == EXPECTED[2]


@pytest.mark.parametrize("begun", [False, True])
def test_a_state_of_ranks_in_a_later_epoch_is_refused(begun):
    ranks = _ranks()
    list(ranks)
    if begun:
        next(iter(ranks))
    with pytest.raises(ValueError, match="must be that of a loader with `membership`"):
        _loader().load_state_dict(ranks.state_dict())


def test_epochs_that_never_end():
    data = tdi.Dataset.range(3).repeat()
    loader = tdi.DataLoader(data, global_batch_size=4, membership=ALONE)
    assert _committed(loader, 3) == [[0, 1, 2, 0], [1, 2, 0, 1], [2, 0, 1, 2]]
    loader.seek(100)
    assert next(iter(loader)).tolist() == [1, 2, 0, 1]
    assert loader.committed_epochs == 0


def test_an_epoch_without_steps_is_an_error():
    loader = _loader(lambda row: False)
    with pytest.raises(ValueError, match="an epoch must have a step"):
        next(iter(loader))
    loader.seek(1)
    with pytest.raises(ValueError, match="an epoch must have a step"):
        next(iter(loader))


def test_a_step_that_comes_again_is_not_read_from_the_start():
    stays = Counted()
    loader = _loader(stays, rows=400)
    _committed(loader, 60)
    steps = iter(loader)
    taken = next(steps).tolist()
    loader.commit(False)
    begun = stays.asked
    assert next(steps).tolist() == taken
    assert stays.asked - begun < 200


def test_what_was_read_ahead_is_read_once_while_members_stay():
    stays = Counted()
    loader = _loader(stays, rows=400)
    _committed(loader, 60)
    assert stays.asked <= 400
