# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What several real processes make of differences between them, and of one that fails, leaves, dies or freezes."""

import os
import signal
import time

import pytest
import torch
from ranks import GONE, LATE, run_ranks

import torch_distinput as tdi


def failing(rank, how):
    strategy = tdi.MultiWorkerMirroredStrategy()

    def fail_late(row):
        if rank == 1 and row == 42:
            raise LookupError("row 42 is bad")
        return row

    dataset = tdi.Dataset.range(10_000_000).map(fail_late) if how == "raise" else tdi.Dataset.range(10_000_000)
    options = tdi.InputOptions(peer_timeout=5)
    iterator = iter(strategy.distribute_dataset(dataset.batch(4), options))
    started = time.monotonic()
    for number, _ in enumerate(iterator):
        if rank == 1 and number == 10:
            if how == "leave":
                break
            if how in ("SIGKILL", "SIGSTOP"):
                os.kill(os.getpid(), getattr(signal, how))
        time.sleep(0.001)  # the training step
        assert time.monotonic() - started < 30
    return "left"


def test_an_exception_of_one_rank_ends_the_others_too():
    here, there = run_ranks(failing, 2, "raise")
    assert isinstance(there, LookupError)
    assert isinstance(here, tdi.DistributedDatasetError)
    assert "rank 1 failed: at step 10: LookupError: row 42 is bad" in str(here)


def test_a_rank_that_leaves_is_named_to_those_that_go_on():
    here, there = run_ranks(failing, 2, "leave")
    assert there == "left"
    assert isinstance(here, tdi.DistributedDatasetError)
    assert "rank 1 left its loop after 11 steps" in str(here)


def test_a_killed_rank_is_named_within_the_timeout():
    started = time.monotonic()
    here, there = run_ranks(failing, 2, "SIGKILL")
    assert there == GONE
    assert isinstance(here, tdi.DistributedDatasetError)
    assert "rank 1 gave no sign of life for" in str(here)
    assert time.monotonic() - started < 20


def test_a_frozen_rank_is_named_within_the_timeout():
    here, there = run_ranks(failing, 2, "SIGSTOP", limit=15, may_hang=(1,), store="agent")
    assert there == LATE
    assert isinstance(here, tdi.DistributedDatasetError)
    assert "rank 1 gave no sign of life for" in str(here)


def disagree(rank, what):
    strategy = tdi.MultiWorkerMirroredStrategy()
    dataset = tdi.Dataset.range(11 if what == "length" and rank == 1 else 10)
    if what == "content":
        dataset = tdi.Dataset.from_tensor_slices(torch.full((10,), rank))
    if what == "seed":
        dataset = dataset.shuffle(seed=rank)
    options = tdi.InputOptions(peer_timeout=2 if what == "iter" else 60)
    distributed = strategy.distribute_dataset(dataset.batch(2), options)
    if what == "epoch":
        distributed.set_epoch(rank)
    if what == "iter" and rank == 1:
        time.sleep(4)
        return None
    return next(iter(distributed))


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("length", "on pipeline, but ranks 0 and 2 have ["),
        ("content", "on content, but "),
        ("seed", "on pipeline, but rank 0 has ["),
        ("epoch", "on epoch, but rank 0 has 0; rank 1 has 1; rank 2 has 2. Call `set_epoch`"),
    ],
)
def test_what_differs_between_ranks_is_the_same_error_on_all(what, text):
    errors = run_ranks(disagree, 3, what)
    assert all(isinstance(error, tdi.DistributedDatasetError) for error in errors)
    assert len({str(error) for error in errors}) == 1
    assert text in str(errors[0])


def test_a_rank_that_never_iterates_is_named_after_the_timeout():
    here, there = run_ranks(disagree, 2, "iter")
    assert there is None
    assert isinstance(here, tdi.DistributedDatasetError)
    assert "rank 0 waited 2 s (`peer_timeout`) for rank 1" in str(here)
