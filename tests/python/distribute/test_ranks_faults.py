# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Several real processes that differ from each other, or one that fails, leaves, dies or freezes."""

import os
import re
import signal
import time

import pytest
import torch
from ranks import GONE, LATE, returned, run_ranks

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
            if how.startswith("SIG"):
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


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
def test_a_killed_rank_is_named_within_the_timeout(how):
    started = time.monotonic()
    here, there = run_ranks(failing, 2, how, store="agent")
    assert there == GONE
    assert isinstance(here, tdi.DistributedDatasetError)
    assert re.search(r"rank 1 on host \S+ ended unexpectedly \(process \d+\)", str(here))
    assert time.monotonic() - started < 20


def test_a_frozen_rank_is_named_within_the_timeout():
    here, there = run_ranks(failing, 2, "SIGSTOP", limit=15, may_hang=(1,), store="agent")
    assert there == LATE
    assert isinstance(here, tdi.DistributedDatasetError)
    assert re.search(r"rank 1 on host \S+ sent no heartbeat for", str(here))


DIFFERENCES = {
    "length": "on length, but ranks 0 and 2 have 5; rank 1 has 6. Give every rank the whole dataset",
    "content": "on content, but ",
    "batch size": "on batch size, but ranks 0 and 2 have 2; rank 1 has 3.",
    "split": "on split, but rank 1 has balanced; ranks 0 and 2 have tf.",
    "tail": "on tail, but rank 1 has padded; ranks 0 and 2 have zero_rows.",
    "policy": "on auto_shard_policy, but ranks 0 and 2 have DATA; rank 1 has OFF.",
    "shuffle": "on pipeline, but ranks 0 and 2 have [",
    "on_error": 'on on_error, but ranks 0 and 2 have "raise"; rank 1 has "skip".',
    "seed": "on seed, but ranks 0 and 2 have 0; rank 1 has 1. Use the same seed on every rank, or none.",
    "epoch": "on epoch, but ranks 0 and 2 have 0; rank 1 has 1. Call `set_epoch`",
}


def disagree(rank):
    """Rank 1 differs from the others in one fact after the other; returns the error for each."""
    strategy = tdi.MultiWorkerMirroredStrategy()
    errors = []
    for what in DIFFERENCES:
        differs = what if rank == 1 else None
        dataset = tdi.Dataset.range(11 if differs == "length" else 10)
        if what == "content":
            dataset = tdi.Dataset.from_tensor_slices(torch.full((10,), rank))
        if what == "shuffle":
            dataset = dataset.shuffle(seed=rank % 2)
        dataset = dataset.batch(3 if differs == "batch size" else 2)
        policy = tdi.AutoShardPolicy.OFF if differs == "policy" else None
        dataset = dataset.with_options(
            tdi.Options(
                seed=rank % 2 if what == "seed" else None,
                auto_shard_policy=policy,
                on_error="skip" if differs == "on_error" else "raise",
            )
        )
        options = tdi.InputOptions(
            split="balanced" if differs == "split" else "tf", tail="padded" if differs == "tail" else "zero_rows"
        )
        distributed = strategy.distribute_dataset(dataset, options)
        if differs == "epoch":
            distributed.set_epoch(1)
        with pytest.raises(tdi.DistributedDatasetError) as caught:
            next(iter(distributed))
        errors.append(str(caught.value))
    return errors


def test_what_differs_between_ranks_is_the_same_error_on_all():
    by_rank = returned(run_ranks(disagree, 3))
    assert by_rank[1] == by_rank[0] and by_rank[2] == by_rank[0]
    for text, error in zip(DIFFERENCES.values(), by_rank[0], strict=True):
        assert text in error


def fails_to_make(rank):
    """First a dataset whose first row fails on one rank, then one that all ranks can make."""
    strategy = tdi.MultiWorkerMirroredStrategy()

    def fail_first(row):
        if rank == 1:
            raise LookupError("row 0 is bad")
        return row

    started, said = time.monotonic(), None
    try:
        next(iter(strategy.distribute_dataset(tdi.Dataset.range(10).map(fail_first).batch(2))))
    except Exception as error:  # noqa: BLE001 - it is the result
        said = f"{type(error).__name__}: {error}"
    assert time.monotonic() - started < 30
    return said, sum(1 for _ in strategy.distribute_dataset(tdi.Dataset.range(10).batch(2)))


def test_a_rank_that_cannot_make_its_dataset_says_why_to_all():
    here, there, also_here = returned(run_ranks(fails_to_make, 3))
    assert there == ("LookupError: row 0 is bad", 5)
    assert here == also_here
    assert here == ("DistributedDatasetError: DistributedIterator: rank 1 failed: LookupError: row 0 is bad", 5)


def asks_again(rank):
    """Rank 1 calls `next` twice more after the last step."""
    strategy = tdi.MultiWorkerMirroredStrategy()
    options = tdi.InputOptions(peer_timeout=5)
    seen = []
    for dataset in (tdi.Dataset.range(10), tdi.Dataset.range(10).filter(lambda row: True)):
        iterator = iter(strategy.distribute_dataset(dataset.batch(4), options))
        steps = sum(1 for _ in iterator)
        if rank == 1:
            assert next(iterator, None) is None and not iterator.get_next_as_optional().has_value()
        seen.append(steps)
    return seen


def test_a_call_after_the_end_finds_the_end():
    assert returned(run_ranks(asks_again, 2)) == [[3, 3], [3, 3]]


def never_iterates(rank):
    strategy = tdi.MultiWorkerMirroredStrategy()
    distributed = strategy.distribute_dataset(tdi.Dataset.range(10).batch(2), tdi.InputOptions(peer_timeout=2))
    if rank == 1:
        time.sleep(4)
        return None
    return next(iter(distributed))


def test_a_rank_that_never_iterates_is_named_after_the_timeout():
    here, there = run_ranks(never_iterates, 2)
    assert there is None
    assert isinstance(here, tdi.DistributedDatasetError)
    assert "rank 0 waited 2 s (`peer_timeout`) for rank 1" in str(here)
