# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`Membership.ranks()`: the ranks of a process group, which is made anew while the loader goes on."""

import os
import signal
from datetime import timedelta

import pytest
import ranks
import torch
import torch.distributed as dist

import torch_distinput as tdi
from torch_distinput import _C

ROWS, CHECKED, BATCH, EPOCHS = 31, 11, 4, 2


def _loader(rows):
    arguments = {"membership": tdi.Membership.ranks(), "global_batch_size": BATCH, "shuffle": True, "seed": 3}
    return tdi.DataLoader(torch.arange(rows), **arguments)


def _part(rank):
    loader = _loader(ROWS)
    batch = next(iter(loader)).tolist()
    whole = loader.rows_of(0, 0).tolist()
    loader.commit(True)
    return batch, whole


@pytest.mark.parametrize("world", [1, 2, 3, 5])
def test_ranks_share_a_step_in_order(world):
    parts = ranks.returned(ranks.run_ranks(_part, world))
    assert [row for part, _ in parts for row in part] == parts[0][1]


def _verdict(rank):
    loader = _loader(ROWS)
    for _ in loader:
        loader.commit(True)
    return str(loader.verdict(all_ranks=True)), loader.stats().members


def test_ranks_compare_what_they_wait_for():
    (verdict, members), (other, _) = ranks.returned(ranks.run_ranks(_verdict, 2))
    assert verdict == other
    assert (members.generations, members.given_back, members.deals) == (1, 0, 0)


def _other_steps(rank):
    loader = _loader(ROWS)
    loader.seek(3 + rank % 2)
    with pytest.raises(RuntimeError, match="rank 0 with step 3, rank 1 with step 4. Give all of them the state of one"):
        next(iter(loader))
    loader.seek(4)
    return next(iter(loader)).tolist()


def test_ranks_that_would_begin_other_steps_all_say_so():
    parts = ranks.returned(ranks.run_ranks(_other_steps, 3))
    assert [row for part in parts for row in part] == _loader_of_one().rows_of(0, 4).tolist()


def _collectives(rank):
    gather, calls = _C.all_gather_bytes, []

    def counted(group, data):
        calls.append(data)
        return gather(group, data)

    _C.all_gather_bytes = counted
    loader = _loader(ROWS)
    for _ in loader:
        loader.commit(True)
    return len(calls)


def test_ranks_compare_their_steps_once():
    assert ranks.returned(ranks.run_ranks(_collectives, 2)) == [1, 1]


def _loader_of_one():
    return tdi.DataLoader(
        torch.arange(ROWS), membership=tdi.Membership.fixed(0, 1), global_batch_size=BATCH, shuffle=True, seed=3
    )


def test_ranks_need_a_group():
    with pytest.raises(RuntimeError, match="no process group is initialised"):
        next(iter(_loader(ROWS)))


def _anew(rank):
    store = dist.HashStore()
    dist.destroy_process_group()
    with pytest.raises(RuntimeError, match="no process group is initialised"):
        tdi.Membership.ranks().begin_step()
    membership, members = tdi.Membership.ranks(), []
    for generation in range(3):
        dist.init_process_group("gloo", store=dist.PrefixStore(str(generation), store), rank=0, world_size=1)
        members.append(membership.begin_step())
        held = [membership.holds(one) for one in members]
        assert held == [False] * generation + [True]
        dist.destroy_process_group()
        assert not membership.holds(members[-1])
    return [one.generation for one in members]


def test_each_group_is_a_generation_whose_steps_no_other_group_commits():
    assert ranks.returned(ranks.run_ranks(_anew, 1)) == [[0, 1, 2]]


# Who is there from which step on, counted over training and evaluation: some are killed, one joins later, and the last
# change falls into the evaluation.
ALIVE = [(0, (0, 1, 2)), (5, (0, 2, 3)), (12, (0, 3)), (17, (3,))]


class Job:
    """A process that trains, then evaluates, and makes the group anew when it fails."""

    def __init__(self, rank):
        self.rank, self.store = rank, dist.distributed_c10d._get_default_store()
        self.train, self.check = _loader(ROWS), _loader(CHECKED)
        self.trained, self.checked = torch.zeros(EPOCHS, ROWS), torch.zeros(CHECKED)
        self.generation = next(number for number, (_, alive) in enumerate(ALIVE) if rank in alive)

    @property
    def step(self):
        return self.train.committed_steps + self.check.committed_steps

    def join(self):
        """Makes the group of this generation, and gives all of its ranks the state of the furthest."""
        dist.destroy_process_group()
        alive = ALIVE[self.generation][1]
        store = dist.PrefixStore(f"generation {self.generation}", self.store)
        dist.init_process_group("gloo", store=store, rank=alive.index(self.rank), world_size=len(alive))
        # Now and then gloo does not tell a rank that another one is gone.
        dist.distributed_c10d._set_pg_timeout(timedelta(seconds=15))
        places = torch.zeros(len(alive), 2, dtype=torch.int64)
        places[alive.index(self.rank)] = torch.tensor([self.train.committed_steps, self.check.committed_steps])
        dist.all_reduce(places)
        furthest = int(places.sum(1).argmax())
        for value in (self.trained, self.checked):
            dist.broadcast(value, furthest)
        for loader, step in zip((self.train, self.check), places[furthest].tolist()):
            loader.seek(step)

    def run(self):
        self.join()
        while True:
            try:
                while self.train.committed_steps < EPOCHS * len(self.train):
                    self.take(self.train, self.trained)
                if self.check.committed_steps < len(self.check):
                    self.take(self.check, self.checked[None])
                return
            except RuntimeError:  # another process is gone
                self.generation += 1
                self.join()

    def take(self, loader, seen):
        """The steps up to the end of an epoch."""
        for batch in loader:
            for first, alive in ALIVE[self.generation + 1 :][:1]:
                if self.step == first and self.rank not in alive:
                    os.kill(os.getpid(), signal.SIGKILL)
            rows = torch.zeros(seen.shape[1])
            rows[batch] = 1
            dist.all_reduce(rows)
            seen[loader.last_info.epoch] += rows
            loader.commit(True)


def _survives(rank):
    job = Job(rank)
    job.run()
    return job.trained.tolist(), job.checked.tolist(), [str(loader.explain()) for loader in (job.train, job.check)]


def test_a_loader_goes_on_with_a_group_that_was_made_anew():
    *lost, (trained, checked, told) = ranks.run_ranks(_survives, 4, store="agent", limit=60)
    assert lost == [ranks.GONE] * 3
    assert trained == [[1] * ROWS] * EPOCHS
    assert checked == [1] * CHECKED
    assert "members: 2 generations; 1 steps given back" in told[0]
    assert "members: 2 generations; 1 steps given back" in told[1]
