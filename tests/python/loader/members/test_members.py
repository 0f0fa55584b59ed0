# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What `DataLoader(membership=)`, `commit` and `committed_steps` say."""

import copy
import itertools
import multiprocessing
import os
import time

import member_jobs
import pytest
import torch

import torch_distinput as tdi
from torch_distinput.loader.ranks._index_steps import IndexSteps

ALONE = tdi.Membership.fixed(0, 1)


class Counting(torch.utils.data.Dataset):
    """Rows that Python makes, with the indices that were asked for; row `bad` raises the first time."""

    def __init__(self, rows, bad=None):
        self.rows, self.bad, self.asked = rows, bad, []

    def __len__(self):
        return self.rows

    def __getitem__(self, index):
        self.asked.append(index)
        if index == self.bad:
            self.bad = None
            raise OSError("not now")
        return index


def _loader(dataset, batch=4, **arguments):
    return tdi.DataLoader(dataset, global_batch_size=batch, **({"membership": ALONE} | arguments))


def _told(index, count, step=None):
    told = member_jobs.Told()
    told.members = tdi.StepMembers(0, index, count, step)
    return told


def _committed(loader, steps):
    """The next `steps` steps, committed."""
    taken = []
    for batch in itertools.islice(iter(loader), steps):
        taken.append(batch.tolist())
        loader.commit(True)
    return taken


def test_a_step_waits_for_its_commit():
    loader = _loader(torch.arange(10))
    steps = iter(loader)
    next(steps)
    with pytest.raises(RuntimeError, match="step 0 waits for `loader.commit"):
        next(steps)
    with pytest.raises(RuntimeError, match="step 0 waits for `loader.commit"):
        next(iter(loader))
    loader.commit(True)
    assert next(steps).tolist() == [4, 5, 6, 7]


def test_a_commit_needs_a_step():
    loader = _loader(torch.arange(10))
    with pytest.raises(RuntimeError, match="no step waits"):
        loader.commit(True)
    next(iter(loader))
    loader.commit(False)
    with pytest.raises(RuntimeError, match="no step waits"):
        loader.commit(True)


def test_a_step_whose_members_changed_after_its_rows_were_dealt_does_not_count():
    class Changes(member_jobs.Told):
        def holds(self, members):
            return members == self.members

    told = Changes()
    told.members = tdi.StepMembers(0, 0, 2)
    loader = _loader(torch.arange(10), membership=told)
    steps = iter(loader)
    assert next(steps).tolist() == [0, 1]
    told.members = tdi.StepMembers(1, 0, 1)
    with pytest.raises(RuntimeError, match="members of step 0 have changed since its rows were dealt to 2"):
        loader.commit(True)
    assert next(steps).tolist() == [0, 1, 2, 3]
    told.members = tdi.StepMembers(2, 0, 2)
    loader.commit(False)
    assert loader.committed_steps == 0


def test_an_iterator_ends_with_an_epoch_and_not_before_its_last_step_is_committed():
    loader = _loader(torch.arange(6), shuffle=True, seed=1)
    steps = iter(loader)
    next(steps)
    loader.commit(True)
    for ok in (False, False, True):
        assert len(next(steps)) == 2
        loader.commit(ok)
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(steps)
    assert loader.committed_steps == 2
    next(iter(loader))
    assert (loader.last_info.epoch, loader.last_info.step) == (1, 0)


def test_a_member_that_healed_into_a_later_epoch_ends_with_that():
    told = _told(0, 1, step=0)
    loader = _loader(torch.arange(8), membership=told)
    steps = iter(loader)
    next(steps)
    loader.commit(True)
    for step, place in [(6, (3, 0)), (7, (3, 1))]:
        told.members = tdi.StepMembers(0, 0, 1, step)
        next(steps)
        assert (loader.last_info.epoch, loader.last_info.step) == place
        loader.commit(True)
    begun = told.begun
    assert list(steps) == []
    assert (loader.committed_steps, told.begun) == (8, begun)


def test_a_job_that_goes_back_to_a_checkpoint_ends_with_the_epoch_of_that():
    told = _told(0, 1, step=4)
    loader = _loader(torch.arange(8), membership=told)
    loader.seek(4)
    steps = iter(loader)
    next(steps)
    loader.commit(True)
    for told.members in (tdi.StepMembers(0, 0, 1, 2), tdi.StepMembers(0, 0, 1, 3)):
        next(steps)
        loader.commit(True)
    assert list(steps) == []
    assert loader.committed_steps == 4


@pytest.mark.parametrize("data", [torch.arange(10), Counting(10), tdi.Dataset.range(10)])
def test_a_member_that_heals_gets_no_rows(data):
    loader = _loader(data, membership=_told(None, 2), with_info=True)
    batch, info = next(iter(loader))
    assert batch.shape == (0,)
    assert batch.dtype == torch.int64
    assert (info.valid, info.loss_scale, info.has_value) == ((0,), (0.0,), (False,))
    assert (info.global_valid, info.num_replicas, info.step) == (4, 2, 0)
    loss = torch.ones(0, requires_grad=True)
    scaled = tdi.scaled_mean(loss.mean(), info, anchor=loss)
    scaled.backward()
    assert scaled == 0


def test_with_padding_a_member_that_heals_has_the_shape_of_the_others():
    loader = _loader(torch.arange(10), membership=_told(None, 3), tail="padded")
    assert next(iter(loader)).shape == (2,)
    assert loader.last_info.valid == (0,)


def test_parts_follow_the_count_while_the_batch_stays():
    told = _told(0, 1)
    loader = _loader(torch.arange(100), batch=7, membership=told)
    steps = iter(loader)
    for count in range(1, 8):
        rows = []
        for index in range(count):
            told.members = tdi.StepMembers(0, index, count)
            rows += next(steps).tolist()
            loader.commit(index == count - 1)
        assert rows == list(range(7 * (count - 1), 7 * count))


def test_rows_are_read_ahead_once_while_members_and_order_stay():
    data = Counting(40)
    loader = _loader(data, membership=_told(1, 2))
    _committed(loader, 10)
    assert sorted(data.asked) == sorted(set(data.asked))


@pytest.mark.parametrize("workers", [0, 2])
def test_rows_that_worker_processes_make_follow_the_members(workers):
    told = _told(0, 2)
    loader = _loader(Counting(20), membership=told, num_workers=workers, shuffle=True, seed=3)
    expected = [loader.rows_of(0, step).tolist() for step in range(5)]
    steps = iter(loader)
    assert next(steps).tolist() == expected[0][:2]
    loader.commit(True)
    told.members = tdi.StepMembers(1, 1, 2)
    assert next(steps).tolist() == expected[1][2:]
    loader.commit(False)
    told.members = tdi.StepMembers(2, 0, 1)
    assert [next(steps).tolist() and (loader.commit(True), loader.committed_steps)[1] for _ in range(4)] == [2, 3, 4, 5]
    loader.close()


def test_a_row_that_fails_comes_again_with_its_step():
    loader = _loader(Counting(8, bad=5))
    steps = iter(loader)
    next(steps)
    loader.commit(True)
    with pytest.raises(OSError, match="not now"):
        next(steps)
    with pytest.raises(RuntimeError, match="no step waits"):
        loader.commit(True)
    assert next(steps).tolist() == [4, 5, 6, 7]


def test_the_state_is_that_of_the_committed_steps_and_equal_for_all_members():
    states = []
    for members in (tdi.StepMembers(0, 0, 3), tdi.StepMembers(0, 2, 3), tdi.StepMembers(4, None, 2)):
        loader = _loader(torch.arange(10), membership=_told(members.index, members.count), shuffle=True, seed=5)
        _committed(loader, 2)
        state = loader.state_dict()
        next(iter(loader))
        assert loader.state_dict() == state
        loader.commit(False)
        states.append(state)
    assert states[0] == states[1] == states[2]


@pytest.mark.parametrize("taken", range(7))
def test_states_fit_ranks_and_members(taken):
    def ranks():
        return tdi.DataLoader(torch.arange(10), global_batch_size=4, distributed=True, shuffle=True, seed=5)

    def rest_of_two_epochs(loader):
        rows = [batch.tolist() for batch in loader]
        return rows + ([batch.tolist() for batch in loader] if taken < 3 else [])

    members = _loader(torch.arange(10), shuffle=True, seed=5)
    _committed(members, taken) if taken <= 3 else (_committed(members, 3), _committed(members, taken - 3))
    again, whole = ranks(), ranks()
    again.load_state_dict(members.state_dict())
    expected = (list(whole) + list(whole))[taken:]
    assert taken == 6 or rest_of_two_epochs(again) == [batch.tolist() for batch in expected]

    fixed = ranks()
    for batch in itertools.islice(itertools.chain(fixed, fixed), taken):
        del batch
    continued = _loader(torch.arange(10), shuffle=True, seed=5)
    continued.load_state_dict(fixed.state_dict() if taken else {})
    assert continued.committed_steps == taken


def test_seek_counts_the_steps_of_all_epochs():
    loader = _loader(torch.arange(10), shuffle=True, seed=5)
    expected = [loader.rows_of(epoch, step).tolist() for epoch in range(3) for step in range(3)]
    for step in (7, 0, 3, 8):
        loader.seek(step)
        assert loader.committed_steps == step
        assert next(iter(loader)).tolist() == expected[step]
    loader.load_state_dict({})
    assert next(iter(loader)).tolist() == expected[0]


def test_a_loader_that_sought_while_it_is_iterated_has_the_state_of_what_it_committed_since():
    loader = _loader(torch.arange(40))
    steps = iter(loader)
    loader.seek(3)
    for rows in ([12, 13, 14, 15], [16, 17, 18, 19]):
        assert next(steps).tolist() == rows
        loader.commit(True)
    again = _loader(torch.arange(40))
    again.load_state_dict(loader.state_dict())
    assert again.committed_steps == 5


def test_a_step_that_waits_is_given_back_where_another_one_is_sought():
    loader = _loader(torch.arange(40), membership=_told(0, 2))
    steps = iter(loader)
    next(steps)
    loader.seek(3)
    members = loader.stats().members
    assert (members.given_back, members.given_back_rows) == (1, 2)
    loader.seek(2)
    assert loader.stats().members == members


def test_a_state_received_during_a_step_leaves_it_waiting():
    source, healing = _loader(torch.arange(10)), _loader(torch.arange(10), membership=_told(None, 1, step=1))
    _committed(source, 1)
    next(iter(healing))
    healing.load_state_dict(source.state_dict())
    healing.commit(True)
    assert healing.committed_steps == 2
    next(iter(healing))
    healing.load_state_dict({})
    with pytest.raises(RuntimeError, match="no step waits"):
        healing.commit(True)
    assert healing.committed_steps == 0


def test_epochs_that_are_committed_whole_are_counted():
    loader = _loader(torch.arange(10))
    counted = []
    for _ in range(7):
        counted.append(loader.committed_epochs)
        _committed(loader, 1) or _committed(loader, 1)
    assert counted == [0, 0, 0, 1, 1, 1, 2]


def test_a_copy_goes_on_where_the_loader_is():
    loader = _loader(torch.arange(10))
    _committed(loader, 2)
    twin = copy.copy(loader)
    assert twin.committed_steps == 2
    assert _committed(twin, 1) == [[8, 9]]
    assert loader.committed_steps == 2


def test_a_state_with_other_steps_is_refused():
    state = _loader(torch.arange(10), shuffle=True, seed=5).state_dict()
    with pytest.raises(ValueError, match="the state has 4 a step and this loader 5"):
        _loader(torch.arange(10), batch=5, shuffle=True, seed=5).load_state_dict(state)
    other = _loader(tdi.Dataset.range(10).shuffle(), seed=5).state_dict()
    with pytest.raises(ValueError, match="`seed` must be that of the loader, 6, .* but the state has 5"):
        _loader(tdi.Dataset.range(10).shuffle(), seed=6).load_state_dict(other)


class _Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(range(4))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"global_batch_size": None, "batch_size": 4}, "needs `global_batch_size`"),
        ({"shuffle": True}, "a random order needs `seed`"),
        ({"distributed": True}, "`membership` and `distributed` exclude each other"),
        ({"tail": "merge"}, "`tail` must be .* but is 'merge'"),
        ({"tail": "repeat"}, "`tail` must be .* but is 'repeat'"),
        ({"tail": "until_first"}, "`tail` must be .* but is 'until_first'"),
        ({"stages": {"pp": "ends"}}, "`stages` does not go with `membership`"),
        ({"balance": torch.ones(4)}, "`balance` does not go with `membership`"),
        ({"on_error": "skip"}, '`on_error` must be "raise"'),
        ({"dataset": _Stream()}, "members must find the same rows.*reads a stream"),
        ({"sampler": [0, 1, 2]}, "members must find the same rows.*sampler of the user's"),
        ({"dataset": tdi.Dataset.range(4).filter(lambda row: True).shuffle(2)}, "a random order needs `seed`"),
        ({"dataset": tdi.Dataset.range(4).shuffle()}, "a random order needs `seed`"),
        ({"dataset": torch.arange(0)}, "an epoch must have a step"),
    ],
)
def test_what_does_not_go_with_members_is_refused(arguments, told):
    given = {"dataset": torch.arange(4), "global_batch_size": 4, "membership": ALONE} | arguments
    with pytest.raises(ValueError, match=told):
        tdi.DataLoader(**given)


@pytest.mark.parametrize("call", ["set_epoch", "set_weights", "exclude"])
def test_calls_that_members_who_join_later_could_not_know_of_are_refused(call):
    argument = 1 if call == "set_epoch" else [1]
    with pytest.raises(ValueError, match=f"{call}: with `membership`"):
        getattr(_loader(torch.arange(4)), call)(argument)


def test_what_needs_members_says_so():
    loader = tdi.DataLoader(torch.arange(4))
    with pytest.raises(ValueError, match="must have a `membership`"):
        loader.commit(True)
    with pytest.raises(ValueError, match="committed_steps: the loader must have a `membership`"):
        _ = loader.committed_steps
    with pytest.raises(ValueError, match="committed_epochs: the loader must have a `membership`"):
        _ = loader.committed_epochs
    with pytest.raises(TypeError, match="`membership` must be a Membership"):
        tdi.DataLoader(torch.arange(4), membership=2)


@pytest.mark.parametrize("members", [(0, 0, 0), (0, 2, 2), (0, -1, 2), (0, 0, 1, -1)])
def test_members_that_cannot_be_are_refused(members):
    told = member_jobs.Told()
    told.members = tdi.StepMembers(*members)
    with pytest.raises(ValueError, match="`membership` must give a `count` of at least 1"):
        next(iter(_loader(torch.arange(4), membership=told)))


def test_a_fixed_group_has_an_index_below_its_count():
    with pytest.raises(ValueError, match="`index` must be less than `count`, but is 2 of 2"):
        tdi.Membership.fixed(2, 2)


def test_a_loader_says_that_it_has_members():
    assert repr(_loader(torch.arange(4))) == "DataLoader(Tensor of 4 rows, membership=_Fixed, global_batch_size=4)"


def test_explain_tells_the_members_and_what_was_given_back():
    loader = _loader(torch.arange(8), membership=_told(1, 2))
    assert "members: 0 generations; 0 steps given back" in str(loader.explain())
    steps = iter(loader)
    for ok in (True, False):
        next(steps)
        loader.commit(ok)
    told = str(loader.explain())
    assert "members: 1 generations; 1 steps given back, with 2 rows of this process; dealt anew 0 times in 0 s" in told
    assert "; 1 steps committed; generation 0, in which this process is 1 of 2" in told


def test_stats_count_what_members_that_change_have_cost():
    told = _told(1, 2)
    loader = _loader(torch.arange(24), membership=told)
    assert loader.stats().members is None
    steps = iter(loader)
    assert loader.stats().members == tdi.MemberStats()
    for ok in (True, False, True):  # what is given back is dealt anew
        next(steps)
        loader.commit(ok)
    members = loader.stats().members
    assert (members.generations, members.given_back, members.given_back_rows, members.deals) == (1, 1, 2, 1)
    told.members = tdi.StepMembers(1, 0, 1)
    next(steps)
    assert members.deal_seconds > 0
    loader.commit(False)
    stats = steps.stats()
    seen = stats.members.since(members)
    assert (seen.generations, seen.given_back, seen.given_back_rows, seen.deals) == (1, 1, 4, 1)
    assert (stats.batches, stats.rows, sum(stats.wait_histogram)) == (4, 3 * 2 + 4, 4)
    assert str(stats.members) in str(stats)
    next(iter(loader))
    members = loader.stats().members
    assert (members.generations, members.given_back, members.deals) == (0, 0, 0)


def test_prometheus_scrapes_what_members_that_change_have_cost():
    prometheus = pytest.importorskip("torch_distinput.monitoring.prometheus")
    from prometheus_client import CollectorRegistry, generate_latest

    told = _told(1, 2)
    loader = _loader(torch.arange(24), membership=told)
    registry = CollectorRegistry()
    prometheus.StatsCollector({"here": loader, "fixed": tdi.DataLoader(torch.arange(4))}, registry)
    steps = iter(loader)
    for ok in (False, True):
        next(steps)
        loader.commit(ok)
        told.members = tdi.StepMembers(1, 0, 1)

    def sample(name):
        return registry.get_sample_value(f"torch_distinput_members_{name}_total", {"loader": "here"})

    counted = {name: sample(name) for name in ("generations", "given_back", "given_back_rows", "deals")}
    assert counted == {"generations": 2, "given_back": 1, "given_back_rows": 2, "deals": 1}
    assert sample("deal_seconds") == loader.stats().members.deal_seconds > 0
    assert 'members_deals_total{loader="fixed"}' not in generate_latest(registry).decode()


class _Pids(Counting):
    """Which process makes each row."""

    def __getitem__(self, index):
        return os.getpid()


def _makers(loader, told, counts):
    """The processes that make the rows of an epoch, whose steps have so many members each in turn."""
    seen = set()
    for step, batch in enumerate(loader):
        seen.update(batch.tolist())
        loader.commit(True)
        told.members = tdi.StepMembers(told.members.generation + 1, 0, counts[step % len(counts)])
    return seen


@pytest.mark.both_pools
def test_persistent_workers_serve_the_next_epoch_and_other_members():
    told = _told(0, 2)
    loader = _loader(_Pids(40), membership=told, num_workers=2, persistent_workers=True)
    first = _makers(loader, told, [2])
    assert len(first) == 2
    assert _makers(loader, told, [1, 3]) <= first
    steps = iter(loader)
    next(steps)
    assert sum(steps.stats().wait_histogram) == 1
    loader.commit(False)
    assert _makers(loader, told, [2]) == first
    assert set(map(_alive, first)) == {True}
    loader.close()
    assert set(map(_alive, first)) == {False}
    assert len(_makers(loader, told, [2]) - first) == 2
    loader.close()


def _alive(process):
    return process in {child.pid for child in multiprocessing.active_children()}


@pytest.mark.both_pools
def test_workers_end_with_an_epoch_without_persistent_workers():
    told = _told(0, 2)
    loader = _loader(_Pids(40), membership=told, num_workers=2)
    first = _makers(loader, told, [2, 1])
    assert set(map(_alive, first)) == {False}
    assert not _makers(loader, told, [2]) & first


def test_two_iterators_take_steps_in_turn_by_the_same_workers():
    loader = _loader(Counting(24), num_workers=1, persistent_workers=True)
    one, other = iter(loader), iter(loader)
    for step in range(6):
        assert next(one if step % 2 else other).tolist() == list(range(4 * step, 4 * step + 4))
        loader.commit(True)
    loader.close()


@pytest.mark.both_pools
def test_worker_processes_stay_where_members_change():
    told = _told(0, 4)
    loader = _loader(_Pids(80), membership=told, num_workers=2)
    seen = set()
    for step, batch in enumerate(loader):
        seen.update(batch.tolist())
        loader.commit(step % 4 != 3)
        told.members = tdi.StepMembers(step // 2, 0, 1 + step // 2 % 4)
    assert len(seen) == 2
    assert os.getpid() not in seen


class _Waits(torch.utils.data.Dataset):
    """Rows that one worker makes as soon as it may: `made` marks them, `may` says how many."""

    def __init__(self, rows):
        self.made, self.may, self.rows = torch.zeros(rows).share_memory_(), torch.zeros(1).share_memory_(), rows

    def __len__(self):
        return self.rows

    def __getitem__(self, index):
        while self.made.sum() >= self.may:
            time.sleep(0.0005)
        self.made[index] = 1
        return index


def test_workers_pass_over_what_was_read_ahead_for_other_members(monkeypatch):
    told, rows = _told(0, 2), _Waits(80)
    loader = _loader(rows, membership=told, num_workers=1, prefetch_factor=8)
    leave = IndexSteps.leave

    def and_go_on(self):
        rows.may += 100
        leave(self)

    monkeypatch.setattr(IndexSteps, "leave", and_go_on)
    rows.may += 2  # the first batch
    steps = iter(loader)
    assert next(steps).tolist() == [0, 1]
    loader.commit(True)
    told.members = tdi.StepMembers(1, 1, 2)
    assert next(steps).tolist() == [6, 7]
    loader.close()
    of_old_part = [row for row in rows.made.nonzero().flatten().tolist() if row % 4 < 2]
    assert of_old_part in ([0, 1], [0, 1, 4, 5])  # at most the batch that was begun
