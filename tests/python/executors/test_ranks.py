# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Ranks of a group, each with workers of an executor: every row once, equal steps, any number of ranks goes on."""

import itertools
import os
import signal

import pytest
import torch
from child_processes import children
from ranks import returned, run_ranks

import torch_distinput as tdi

ROWS = 61


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return ROWS

    def __getitem__(self, row):
        return torch.tensor(row)


def kill_a_child():
    for child in sorted(children())[:1]:
        os.kill(child, signal.SIGKILL)


def take(rank, kind, state, steps, executed, seed=None):
    executor = tdi.Executor("processes", max_workers=1) if executed else None
    if kind == "pipeline":
        arguments = {"dataset": tdi.Dataset.range(ROWS).shuffle(), "seed": seed}
    elif kind == "stream":
        stream = tdi.Dataset.from_generator(lambda: range(ROWS), tdi.TensorSpec((), torch.int64)).map(torch.clone)
        arguments = {"dataset": stream.shuffle(9), "seed": seed}
    else:
        arguments = {"dataset": Rows(), "shuffle": True, "seed": seed}
    with tdi.DataLoader(**arguments, global_batch_size=8, distributed=True, executor=executor) as loader:
        if state is not None:
            loader.load_state_dict(state)
        found = []
        for batch in itertools.islice(loader, steps):
            found.append(batch.tolist())
            if executed and len(found) == 2:
                kill_a_child()
        return found, loader.state_dict(), loader.last_info.global_valid


@pytest.mark.parametrize("kind", ["pipeline", "python", "stream"])
def test_ranks_that_draw_no_seed_share_the_rows_and_go_on(kind):
    before = returned(run_ranks(take, 3, kind, None, 4, True, may_fork=True))
    state = before[0][1]
    after = returned(run_ranks(take, 2, kind, state, None, True, may_fork=True))
    local = returned(run_ranks(take, 2, kind, state, None, False))
    assert [found for found, *_ in after] == [found for found, *_ in local]
    parts = [found for found, *_ in [*before, *after]]
    assert sorted(row for steps in parts for step in steps for row in step) == list(range(ROWS))


def test_ranks_agree_with_ranks_without_an_executor():
    executed = returned(run_ranks(take, 3, "pipeline", None, None, True, 4, may_fork=True))
    assert executed == returned(run_ranks(take, 3, "pipeline", None, None, False, 4))
