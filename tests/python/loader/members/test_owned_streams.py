# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Members over streams that have one owner each: what they say, hand over and refuse."""

import itertools

import member_jobs
import pytest
import torch
from member_stream_jobs import Together

import torch_distinput as tdi
from torch_distinput import _C
from torch_distinput.distribute._part import Part
from torch_distinput.loader.members._owner_report import MOST_BYTES, OwnerReport, report_in
from torch_distinput.loader.members._place import Place

ALONE = tdi.Membership.fixed(0, 1)
STREAMS = tdi.Options(auto_shard_policy=tdi.AutoShardPolicy.STREAMS)
ROWS, BATCH = 100, 6
EXPECTED = [row for row in range(ROWS) if row % 3 != 1]


class Counted:
    """Whether rows stay, with those that were asked for."""

    def __init__(self):
        self.asked = []

    def __call__(self, row):
        self.asked.append(int(row))
        return row % 3 != 1


def _data(stays=None, rows=ROWS):
    return tdi.Dataset.range(rows).filter(stays or Counted()).with_options(STREAMS)


def _loader(membership=ALONE, data=None, **arguments):
    return tdi.DataLoader(
        _data() if data is None else data, global_batch_size=BATCH, membership=membership, seed=3, **arguments
    )


def _part(index, count):
    return tdi.DataLoader(_data(), global_batch_size=BATCH, distributed=Part(index, count), seed=3)


def _rows(batches):
    return [row for batch in batches for row in batch.tolist()]


def _epoch(together):
    """The rows of the rest of an epoch, by member."""
    parts = [[] for _ in together.loaders]
    while None not in (taken := together.take()):
        for part, batch in zip(parts, taken, strict=True):
            part.extend(batch.tolist())
        together.commit(True)
    together.again()
    return parts


def test_each_member_reads_its_own_streams_only():
    stays = iter(counted := [Counted() for _ in range(3)])
    together = Together(lambda membership: _loader(membership, _data(next(stays))), 3)
    for part in [_epoch(together), _epoch(together)]:
        assert sorted(itertools.chain(*part)) == EXPECTED
    assert sorted(itertools.chain(*(one.asked for one in counted))) == sorted([*range(ROWS)] * 2)


@pytest.mark.parametrize("count", range(1, 5))
def test_a_step_has_the_global_batch_until_streams_end(count):
    together = Together(_loader, count)
    for _ in range(4):
        assert sum(len(batch) for batch in together.take()) == BATCH
        together.commit(True)
    info = together.loaders[0].last_info
    assert (info.epoch, info.step, info.row_start, info.global_valid) == (0, 3, 3 * BATCH, BATCH)
    assert info.loss_scale == (count * info.valid[0] / BATCH,)


@pytest.mark.parametrize(("before", "after"), [(1, 3), (2, 1), (3, 2), (4, 4)])
@pytest.mark.parametrize("taken", [0, 1, 4])
def test_a_state_hands_the_streams_to_other_members(before, after, taken):
    first = Together(_loader, before)
    seen = []
    for _ in range(taken):
        seen += _rows(first.take())
        first.commit(True)
    states = [loader.state_dict() for loader in first.loaders]
    assert all(state == states[0] for state in states)
    second = Together(_loader, after)
    for loader in second.loaders:
        loader.load_state_dict(states[0])
        assert loader.committed_steps == taken
    assert sorted(seen + list(itertools.chain(*_epoch(second)))) == EXPECTED
    assert [loader.committed_epochs for loader in second.loaders] == [1] * after


@pytest.mark.parametrize("count", [1, 2, 3])
def test_states_fit_ranks_and_members(count):
    members = Together(_loader, 2)
    seen = _rows(members.take())
    members.commit(True)
    ranks = [_part(rank, count) for rank in range(count)]
    for rank in ranks:
        rank.load_state_dict(members.loaders[0].state_dict())
    assert sorted(seen + _rows(itertools.chain(*ranks))) == EXPECTED

    ranks = [_part(rank, count) for rank in range(count)]
    seen = _rows(next(iter(rank)) for rank in ranks)
    members = Together(_loader, 3)
    for loader in members.loaders:
        loader.load_state_dict([rank.state_dict() for rank in ranks])
        assert loader.committed_steps == 1
    assert sorted(seen + list(itertools.chain(*_epoch(members)))) == EXPECTED


def test_a_step_that_was_not_committed_comes_again():
    together = Together(_loader, 2)
    first = [batch.tolist() for batch in together.take()]
    together.commit(False)
    assert [batch.tolist() for batch in together.take()] == first
    together.commit(True)
    second = [batch.tolist() for batch in together.take()]
    together.commit(True)
    for loader in together.loaders:
        loader.seek(1)
    assert [batch.tolist() for batch in together.take()] == second


def test_a_step_of_which_not_all_have_heard_is_not_committed():
    together = Together(_loader, 2)
    first = [batch.tolist() for batch in together.take()]
    together.commit(False)
    assert [batch.tolist() for batch in together.take(deaf=frozenset([0]))] == first
    deaf, heard = together.loaders
    assert deaf.last_info.global_valid == deaf.last_info.valid[0]
    with pytest.raises(RuntimeError, match="not all members have told it"):
        deaf.commit(True)
    heard.commit(False)
    assert [batch.tolist() for batch in together.take()] == first


def test_a_survivor_may_go_back_or_on_by_one_step():
    together = Together(_loader, 2)
    first = _rows(together.take())
    one, other = together.loaders
    one.commit(True)
    other.commit(False)
    one.seek(0)
    assert _rows(together.take()) == first
    one.commit(True)
    other.commit(False)
    other.seek(1)
    assert sorted(first + list(itertools.chain(*_epoch(together)))) == EXPECTED


def test_members_that_go_on_from_other_positions_all_say_so():
    together = Together(_loader, 2)
    other = Together(_loader, 1)
    other.take()
    other.commit(True)
    together.take()
    together.commit(True)
    together.loaders[1].load_state_dict(other.loaders[0].state_dict())
    for error in together.take():
        assert isinstance(error, RuntimeError)
        assert "members go on from different positions: member 0 from step 1 of epoch 0, member 1 from" in str(error)


def test_a_state_of_another_history_gives_the_waiting_step_back():
    together, other = Together(_loader, 2), Together(_loader, 1)
    for job in (together, other):
        job.take()
        job.commit(True)
    together.take()
    for loader in together.loaders:
        loader.load_state_dict(other.loaders[0].state_dict())
        with pytest.raises(RuntimeError, match="another state was loaded meanwhile"):
            loader.commit(True)
    assert together.loaders[0].committed_steps == 1


def test_a_member_that_heals_during_a_step_goes_on_after_it():
    together = Together(_loader, 1)
    seen = _rows(together.take())
    together.commit(True)
    told = together.told[0]
    healing = Together(_loader, 1)

    class Hears:
        def all_gather(self, process, index, count, data):
            assert index is None
            return [told.said]

    before = told.all_gather

    def noted(members, data):
        told.said = data
        return before(members, data)

    told.all_gather = noted
    seen += _rows(together.take())
    healing.told[0].exchange = Hears()
    healing.told[0].members = tdi.StepMembers(0, None, 1, 1)
    (steps,), (loader,) = healing.steps, healing.loaders
    batch = next(steps)
    assert (batch.shape, batch.dtype) == ((0,), torch.int64)
    assert loader.last_info.global_valid == BATCH
    with pytest.raises(ValueError, match="where the streams stand before step 1 is not known here"):
        loader.state_dict()
    loader.load_state_dict(together.loaders[0].state_dict())
    together.commit(True)
    loader.commit(True)
    assert loader.state_dict() == together.loaders[0].state_dict()


def test_where_streams_stand_is_not_known_without_a_state():
    loader = _loader()
    with pytest.raises(ValueError, match="before step 3 is not known here: .* needs the `state_dict`"):
        loader.seek(3)
    told = member_jobs.Told()
    told.members = tdi.StepMembers(0, 0, 1, 3)
    with pytest.raises(ValueError, match="before step 3 is not known here"):
        next(iter(_loader(told)))


def test_several_members_need_a_collective():
    with pytest.raises(
        NotImplementedError, match="which this membership does not have; leave `AutoShardPolicy.STREAMS`"
    ):
        next(iter(_loader(tdi.Membership.fixed(0, 2))))


@pytest.mark.parametrize("tail", ["padded", "drop"])
def test_tails_that_need_to_know_the_last_step_are_refused(tail):
    with pytest.raises(ValueError, match=f"`tail` must be \"zero_rows\".*but is '{tail}'"):
        _loader(tail=tail)


def test_data_that_cannot_be_cut_is_read_by_all_members():
    data = tdi.Dataset.range(ROWS).filter(Counted()).take(50).with_options(STREAMS)
    told = member_jobs.Told()
    told.members = tdi.StepMembers(0, 1, 2)
    loader = _loader(told, data)
    assert next(iter(loader)).tolist() == EXPECTED[BATCH // 2 : BATCH]


def test_an_epoch_without_rows_is_an_error():
    with pytest.raises(ValueError, match="an epoch must have a step"):
        next(iter(_loader(data=_data(lambda row: False))))


def test_members_without_streams_take_the_steps_of_the_others():
    data = tdi.Dataset.from_tensor_slices({"a": torch.arange(32), "b": torch.ones(32, 2)}).filter(lambda row: True)
    together = Together(lambda membership: _loader(membership, data.with_options(STREAMS)), 5)
    seen = []
    while None not in (taken := together.take()):
        shapes = {(tuple(batch["b"].shape[1:]), batch["b"].dtype) for batch in taken}
        assert shapes == {((2,), torch.float32)}
        seen += [row for batch in taken for row in batch["a"].tolist()]
        together.commit(True)
    assert sorted(seen) == list(range(32))


REPORT = OwnerReport(Place(1, 2), 30, 4, True, b"d" * 16, b"position")


def test_reports_come_back_as_they_were_sent():
    assert report_in(REPORT.encode(), 0) == REPORT


@pytest.mark.parametrize("length", [0, 1, 48, 49])
def test_reports_that_are_cut_are_refused(length):
    with pytest.raises(_C.DistributedDatasetError, match="the report of member 3 on a step: it must have"):
        report_in(REPORT.encode()[:length], 3)


def test_reports_with_impossible_numbers_are_refused():
    with pytest.raises(_C.DistributedDatasetError, match="its numbers must not be negative"):
        report_in(REPORT._replace(rows=-1).encode(), 3)


def test_positions_are_bounded():
    with pytest.raises(ValueError, match=f"at most {MOST_BYTES} bytes, but has {MOST_BYTES + 1}: an op holds rows"):
        REPORT._replace(position=b"x" * (MOST_BYTES + 1)).encode()
    with pytest.raises(_C.DistributedDatasetError, match="it must have"):
        report_in(REPORT.encode() + b"x" * MOST_BYTES, 0)


@pytest.mark.parametrize("digest", [1, "x" * 32, "0" * 31])
def test_a_damaged_digest_is_refused(digest):
    state = _loader().state_dict()
    (inner,) = state.values()
    with pytest.raises(ValueError, match="`digest` must be None or a text of 32 hexadecimal digits"):
        _loader().load_state_dict({key: inner | {"digest": digest} for key in state})
