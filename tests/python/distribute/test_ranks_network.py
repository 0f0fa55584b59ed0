# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Ranks on hosts that a network joins, whose links are cut and healed."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest
from network_hosts import network, set_link
from rank_programs import counts, wanted_rows
from ranks import returned, run_ranks

import torch_distinput as tdi


@pytest.mark.parametrize("streams", [False, True])
def test_every_row_arrives_once_over_a_network(streams):
    with network(3) as hosts:
        by_rank = returned(run_ranks(counts, 6, streams, per_host=2, network=hosts, store="rank 0", backend="fake"))
    rows = sorted(row for own, _ in by_rank for row in own)
    assert rows == wanted_rows(6, streams)
    assert len({steps for _, steps in by_rank}) == 1


def is_cut_off(rank, victim, seconds):
    """The host of `victim` loses its link at step 10, for good or for a while. Returns the time until this rank knew,
    and the error; or the number of steps."""
    strategy = tdi.MultiWorkerMirroredStrategy()
    rows = 10_000_000 if seconds is None else 4_000
    steps = strategy.distribute_dataset(tdi.Dataset.range(rows).batch(8), tdi.InputOptions(peer_timeout=8))
    taken, began = 0, None
    try:
        for number, _ in enumerate(steps):
            taken += 1
            if number == 10:
                began = time.monotonic()
                if rank == victim:
                    set_link("down")
                    if seconds is not None:
                        time.sleep(seconds)
                        set_link("up")
            time.sleep(0.01)  # the training step
    except tdi.DistributedDatasetError as error:
        return time.monotonic() - began, str(error)
    return taken


def cut_off(victim, seconds=None):
    with network(2) as hosts:
        return returned(
            run_ranks(
                is_cut_off, 4, victim, seconds, per_host=2, network=hosts, store="rank 0", backend="fake", limit=50
            )
        )


def test_a_host_that_is_cut_off_is_named_with_its_ranks_and_knows_it():
    results = cut_off(victim=2)
    for seconds, error in results[:2]:
        assert "host node1 (ranks 2 and 3) sent no heartbeat for 5 s" in error
        assert seconds < 8
    for seconds, error in results[2:]:
        assert "lost the store of the process group" in error
        assert seconds < 20


def test_the_loss_of_the_stores_host_is_an_error_on_the_others():
    results = cut_off(victim=0)
    for _, error in results[:2]:
        assert "host node1 (ranks 2 and 3) sent no heartbeat for 5 s" in error
    for _, error in results[2:]:
        assert "lost the store of the process group" in error


def test_a_link_that_heals_costs_time_alone():
    assert cut_off(victim=3, seconds=2) == [500] * 4


# Takes global batches of the rows and saves its position every 10 steps. Rows after the last saved one count as lost
# with the process, so that they are delivered again.
JOB = """
import os, sys, time
from pathlib import Path

import torch
import torch.distributed as dist

import torch_distinput as tdi

folder = Path(sys.argv[1])
dist.init_process_group("gloo")
rank = dist.get_rank()
loader = tdi.DataLoader(torch.arange(2000), batch_size=5, shuffle=True, seed=3, distributed=True)
saved = folder / "state"
step = 0
if saved.exists():
    step, state = torch.load(saved)
    loader.load_state_dict(state)
lines = open(folder / f"rows-{step:03}-{rank}", "w", buffering=1)
for batch in loader:
    step += 1
    print(step, *batch.tolist(), file=lines)
    time.sleep(0.05)
    if step % 10 == 0:
        state = loader.state_dict()
        dist.barrier()
        if rank == 0:
            torch.save((step, state), folder / "new")
            os.replace(folder / "new", saved)
        dist.barrier()
dist.destroy_process_group()
"""


def agent(hosts, host, script, folder):
    """torchrun's agent on a host, with two ranks."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=2", "--max-restarts=5"]
    command += ["--rdzv-backend=c10d", f"--rdzv-endpoint={hosts.addresses[0]}:29400", "--rdzv-id=job"]
    command += ["--rdzv-conf", f"is_host={int(host == 0)}", f"--local-addr={hosts.addresses[host]}", script, folder]
    env = os.environ | {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, env=env, preexec_fn=lambda: (os.setsid(), hosts.enter(host)), stderr=subprocess.DEVNULL
    )


def lines_of(folder):
    """Of each step, the rows that all ranks took last."""
    steps = {}
    for file in sorted(folder.glob("rows-*")):
        start, rank = file.name.split("-")[1:]
        for line in file.read_text().splitlines():
            number, *rows = map(int, line.split())
            if steps.get((number, rank), ("", []))[0] <= start:
                steps[number, rank] = start, rows
    return steps


@pytest.mark.slow
def test_torchrun_restarts_a_lost_host_and_every_row_counts_once(tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    with network(2) as hosts, contextlib.ExitStack() as agents:

        def start(host):
            process = agent(hosts, host, str(tmp_path / "job.py"), str(tmp_path))
            agents.callback(lambda: end(process))
            return process

        def end(process):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

        first, second = start(0), start(1)
        deadline = time.monotonic() + 150
        while len(lines_of(tmp_path)) < 4 * 25:
            assert time.monotonic() < deadline and first.poll() is None
            time.sleep(0.1)
        workers = subprocess.run(["ip", "netns", "pids", f"{hosts.name}h1"], capture_output=True, text=True).stdout
        for process in map(int, workers.split()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        second.wait()
        second = start(1)
        assert first.wait(timeout=150) == 0 and second.wait(timeout=60) == 0
    rows = sorted(row for _, own in lines_of(tmp_path).values() for row in own)
    assert rows == list(range(2000))
    assert len(list(tmp_path.glob("rows-*-0"))) > 1  # it was restarted
