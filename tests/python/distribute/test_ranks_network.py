# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Ranks on hosts that a network joins, whose links are cut and healed."""

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
