# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Ranks on several hosts: here processes of one machine that TDI_HOST_ID takes for several."""

import os
import re
import signal
import time

import pytest
import torch
from rank_programs import ROWS, counts, wanted_rows
from ranks import GONE, LATE, returned, run_ranks

import torch_distinput as tdi


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(("world", "per_host"), [(4, 1), (4, 2), (5, 3), (7, 7)])
def test_every_row_arrives_once_in_equal_steps_however_ranks_share_hosts(world, per_host, streams):
    by_rank = returned(run_ranks(counts, world, streams, per_host=per_host, store="agent"))
    rows = sorted(row for own, _ in by_rank for row in own)
    assert rows == wanted_rows(world, streams)
    assert len({steps for _, steps in by_rank}) == 1


def strikes(rank, victims, how, folder):
    """The last of `victims` sends all of them the signal `how`, the host's leader first, once it has taken steps for
    3 s, of which others have heard in a heartbeat by then. Returns the seconds until this rank knew, and the error.
    `folder`: for files with the victims' processes and the time of the signal."""
    strategy = tdi.MultiWorkerMirroredStrategy()
    steps = strategy.distribute_dataset(tdi.Dataset.range(10_000_000).batch(8 * strategy.num_replicas_in_sync))
    (folder / str(rank)).write_text(str(os.getpid()))
    try:
        begin = time.monotonic()
        for _ in steps:
            if rank == victims[-1] and time.monotonic() - begin > 3:
                processes = [int((folder / str(victim)).read_text()) for victim in victims]
                (folder / "clock").write_text(str(time.monotonic()))  # one clock for all processes of the machine
                for process in processes:
                    os.kill(process, how)
            time.sleep(0.01)  # the training step
    except tdi.DistributedDatasetError as error:
        return time.monotonic() - float((folder / "clock").read_text()), str(error)


def test_a_killed_rank_is_named_on_all_hosts_within_a_second(tmp_path):
    results = run_ranks(strikes, 6, (3,), signal.SIGKILL, tmp_path, per_host=2, store="agent")
    assert results.pop(3) == GONE
    for seconds, error in returned(results):
        assert re.search(r"rank 3 on host node1 ended unexpectedly \(process \d+\)", error)
        assert seconds < 1.5, seconds  # of which a part is the machine's: six processes on two cores


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_host_is_named_with_all_its_ranks(how, tmp_path):
    results = run_ranks(strikes, 6, (2, 3), how, tmp_path, per_host=2, store="agent", limit=25, may_hang=(2, 3))
    lost = GONE if how == signal.SIGKILL else LATE
    assert results[2:4] == [lost, lost]
    for seconds, error in returned(results[:2] + results[4:]):
        assert "host node1 (ranks 2 and 3) sent no heartbeat for" in error
        assert re.search(r"rank 2 took step \d+ of strategy/0/dataset/0/0 \d s ago", error)
        assert seconds < 8, seconds


def pauses(rank, victims, seconds):
    """A child process stops `victims` for a while."""
    strategy = tdi.MultiWorkerMirroredStrategy()
    steps = 0
    for number, _ in enumerate(strategy.distribute_dataset(tdi.Dataset.range(ROWS).batch(16))):
        if rank in victims and number == 10:
            parent = os.getpid()
            if os.fork() == 0:
                time.sleep(seconds)
                os.kill(parent, signal.SIGCONT)
                os._exit(0)
            os.kill(parent, signal.SIGSTOP)
        steps += 1
        time.sleep(0.01)
    return steps


@pytest.mark.parametrize("victim", [pytest.param(0, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.slow)])
def test_a_frozen_rank_with_others_on_its_host_is_slow_not_lost(victim):
    assert returned(run_ranks(pauses, 4, (victim,), 8, per_host=2, store="agent")) == [ROWS // 16] * 4


def shares(rank, at, taken, until):
    """Goes on at state `at` of any number of ranks; returns the rows of this rank and the state after `until` steps."""
    loader = tdi.DataLoader(torch.arange(ROWS), batch_size=4, shuffle=True, seed=5, distributed=True)
    if at is not None:
        loader.load_state_dict(at)
    rows = []
    for number, batch in enumerate(loader):
        rows += batch.tolist()
        if number + 1 == until:
            break
    return rows, loader.state_dict()


@pytest.mark.slow
def test_a_job_of_many_ranks_goes_on_with_other_numbers_of_ranks():
    rows, state = [], None
    for world, until in [(128, 9), (96, 9), (40, None)]:
        by_rank = returned(
            run_ranks(shares, world, state, rows, until, per_host=8, store="agent", backend="fake", limit=240)
        )
        state = by_rank[0][1]
        rows += [row for own, _ in by_rank for row in own]
    assert sorted(rows) == list(range(ROWS))


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_host_of_a_large_job_is_named_on_all_ranks(how, tmp_path):
    lost = tuple(range(16, 24))
    results = run_ranks(
        strikes, 64, lost, how, tmp_path, per_host=8, store="agent", backend="fake", limit=120, may_hang=lost
    )
    for rank, result in enumerate(results):
        assert rank in lost or "host node2 (ranks 16-23) sent no heartbeat for" in result[1], result
