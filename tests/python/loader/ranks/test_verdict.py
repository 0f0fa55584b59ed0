# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Two real processes, one with slow rows: both know which one waits."""

import time

import torch
from ranks import returned, run_ranks

import torch_distinput as tdi

STEPS, SLOW = 12, 0.03


class Rows(torch.utils.data.IterableDataset):
    """One row a step; those of rank 1 are slow."""

    def __init__(self, rank):
        self.rank = rank

    def __iter__(self):
        for row in range(STEPS):
            if self.rank == 1:
                time.sleep(SLOW)
            yield row


def verdicts(rank):
    loader = tdi.DataLoader(Rows(rank), batch_size=1, distributed=True)
    waited = []
    for _ in loader:
        waited.append(loader.stats().peer_seconds)
        last = (loader.verdict(), loader.verdict(all_ranks=True))
    return waited[-1] - waited[0], *last  # before the first step each waits for the other to start


def test_the_fast_rank_is_peer_bound_and_all_ranks_name_the_slow_one():
    (fast, its_verdict, one), (slow, _, other) = returned(run_ranks(verdicts, 2))
    assert fast > 0.5 * STEPS * SLOW and fast > 2 * slow
    assert its_verdict.bound == "peer"
    assert one == other and (one.rank, one.bound) == (1, "python")
    assert "wait for rank 1" in one.advice
