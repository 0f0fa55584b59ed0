# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Ranks that own streams, of a process group that is made anew when some of them are killed."""

import os
import signal

import ranks
import torch
import torch.distributed as dist

import torch_distinput as tdi

ROWS, BATCH, EPOCHS = 200, 8, 2
STREAMS = tdi.Options(auto_shard_policy=tdi.AutoShardPolicy.STREAMS)

# Who is there from which step on. Of those that are killed, one dies between a collective of the loader and its commit,
# the next one before the collective.
ALIVE = [(0, (0, 1, 2)), (9, (0, 2, 3)), (31, (0, 3)), (45, (3,))]


def _any_row(row):
    return True


def _loader():
    data = tdi.Dataset.range(ROWS).filter(_any_row).shuffle(4).with_options(STREAMS)
    return tdi.DataLoader(data, global_batch_size=BATCH, membership=tdi.Membership.ranks(), seed=3)


class Job:
    """A process that reads streams of its own, and makes the group anew when it fails."""

    def __init__(self, rank):
        self.rank, self.store = rank, dist.distributed_c10d._get_default_store()
        self.loader, self.seen = _loader(), torch.zeros(EPOCHS, ROWS)
        self.generation = next(number for number, (_, alive) in enumerate(ALIVE) if rank in alive)

    def join(self):
        """Makes the group of this generation, and gives all of its ranks the state of the furthest."""
        dist.destroy_process_group()
        alive = ALIVE[self.generation][1]
        store = dist.PrefixStore(f"generation {self.generation}", self.store)
        dist.init_process_group("gloo", store=store, rank=alive.index(self.rank), world_size=len(alive))
        steps = torch.zeros(len(alive), dtype=torch.int64)
        steps[alive.index(self.rank)] = self.loader.committed_steps
        dist.all_reduce(steps)
        furthest = int(steps.argmax())
        dist.broadcast(self.seen, furthest)
        state = [self.loader.state_dict()]
        dist.broadcast_object_list(state, furthest)
        self.loader.load_state_dict(state[0])
        self.loader.seek(self.loader.committed_steps)

    def run(self):
        self.join()
        while self.loader.committed_epochs < EPOCHS:
            try:
                self.epoch()
            except RuntimeError:  # another process is gone
                self.generation += 1
                self.join()

    def epoch(self):
        for batch in self.loader:
            self.die_if_due(second=True)
            rows = torch.zeros(ROWS)
            rows[batch] = 1
            dist.all_reduce(rows)
            self.seen[self.loader.last_info.epoch] += rows
            self.loader.commit(True)
            self.die_if_due(second=False)

    def die_if_due(self, second):
        for first, alive in ALIVE[self.generation + 1 :][:1]:
            if self.loader.committed_steps == first and self.rank not in alive and second == bool(self.generation % 2):
                os.kill(os.getpid(), signal.SIGKILL)


def _survives(rank):
    job = Job(rank)
    job.run()
    return job.seen.tolist(), job.loader.stats().rows, str(job.loader.explain())


def test_streams_go_on_with_a_group_that_was_made_anew():
    *lost, (seen, rows, told) = ranks.run_ranks(_survives, 4, store="agent", limit=120)
    assert lost == [ranks.GONE] * 3
    assert seen == [[1] * ROWS] * EPOCHS
    assert rows > 0
    assert "members: 3 generations" in told


def _reads(rank):
    loader = _loader()
    rows = []
    while loader.committed_epochs < 1:
        for batch in loader:
            rows += batch.tolist()
            loader.commit(True)
    return rows


def test_ranks_share_the_rows_of_an_epoch():
    for world in (1, 3):
        parts = ranks.returned(ranks.run_ranks(_reads, world))
        assert sorted(row for part in parts for row in part) == list(range(ROWS))
