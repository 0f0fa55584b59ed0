# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Several real processes that deal out one stream: who gets which rows, what is agreed on, what a fault does."""

import os
import signal
import time

import pytest
import torch
import torch.distributed as dist
from ranks import GONE, LATE, returned, run_ranks

import torch_distinput as tdi


def rows_of(strategy, step):
    return [row for part in strategy.experimental_local_results(step) for row in part.tolist()]


def take_all(rank, n, batch, tail, split):
    strategy = tdi.MultiWorkerMirroredStrategy()
    options = tdi.InputOptions(tail=tail, split=split)
    dataset = strategy.distribute_dataset(tdi.Dataset.range(n).shuffle().batch(batch), options)
    iterator = iter(dataset)
    steps = [rows_of(strategy, step)[: iterator.step_info.valid[0]] for step in iterator]
    return steps, len(dataset), iterator.stats()["rounds"]


@pytest.mark.parametrize(
    ("world", "n", "batch", "tail", "split"),
    [
        (1, 31, 4, "zero_rows", "tf"),
        (2, 0, 4, "zero_rows", "tf"),
        (2, 1, 4, "zero_rows", "balanced"),
        (3, 97, 10, "padded", "balanced"),
        (3, 2000, 64, "zero_rows", "tf"),
        (5, 4, 5, "padded", "tf"),
    ],
)
def test_every_row_reaches_one_rank_in_as_many_steps_on_all(world, n, batch, tail, split):
    results = returned(run_ranks(take_all, world, n, batch, tail, split))
    assert len({len(steps) for steps, _, _ in results}) == 1
    assert all(length == len(steps) for steps, length, _ in results)
    assert all(rounds == 0 for _, _, rounds in results)
    assert sorted(row for steps, _, _ in results for step in steps for row in step) == list(range(n))


def restart(rank, n, batch, state, steps):
    strategy = tdi.MultiWorkerMirroredStrategy()
    iterator = iter(strategy.distribute_dataset(tdi.Dataset.range(n).shuffle().batch(batch)))
    if state is not None:
        iterator.load_state_dict(state)
    rows = []
    for _ in range(steps):
        step = next(iterator, None)
        if step is None:
            break
        rows += rows_of(strategy, step)
    return rows, iterator.state_dict()


def test_a_run_goes_on_exactly_once_on_another_number_of_processes():
    n, state, seen = 1009, None, []
    for world, steps in ((4, 7), (3, 11), (5, 3), (1, 10), (2, 10_000)):
        results = returned(run_ranks(restart, world, n, 16, state, steps))
        seen += [row for rows, _ in results for row in rows]
        state = results[0][1]
        assert all(other == state for _, other in results)
    assert sorted(seen) == list(range(n))


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


@pytest.mark.slow
def test_a_frozen_rank_is_named_within_the_timeout():
    here, there = run_ranks(failing, 2, "SIGSTOP", limit=15, may_hang=(1,))
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


def two_groups(rank):
    """Ranks 0, 1 and 2, 3 read for themselves; 0, 2 and 1, 3 work on one replica each."""
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("tp", "dp"))
    strategy = tdi.MultiWorkerMirroredStrategy(mesh["dp"])
    with pytest.raises(ValueError, match="mesh of 2"):
        tdi.MultiWorkerMirroredStrategy(mesh)
    dataset = strategy.distribute_dataset(tdi.Dataset.range(40).shuffle(seed=4).batch(8))
    return [rows_of(strategy, step) for step in dataset]


def test_ranks_of_one_model_replica_get_the_same_rows():
    rows = returned(run_ranks(two_groups, 4))
    assert rows[0] == rows[2] and rows[1] == rows[3]
    assert sorted(row for rank in (0, 1) for step in rows[rank] for row in step) == list(range(40))


def test_an_environment_of_several_processes_without_a_group_is_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(RuntimeError, match=r"init_process_group\(\) first"):
        tdi.MultiWorkerMirroredStrategy()


def test_without_a_group_there_is_one_process(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    strategy = tdi.MultiWorkerMirroredStrategy(devices=["cpu", "cpu"])
    assert strategy.num_replicas_in_sync == 2
    steps = [rows_of(strategy, step) for step in strategy.distribute_dataset(tdi.Dataset.range(5).batch(4))]
    assert steps == [[0, 1, 2, 3], [4]]


def restarted(rank):
    """An earlier life of the group left its keys in the store."""
    seen = []
    for life in ("0", "1"):
        os.environ["TORCHELASTIC_RESTART_COUNT"] = life
        strategy = tdi.MultiWorkerMirroredStrategy()
        iterator = iter(strategy.distribute_dataset(tdi.Dataset.range(20).batch(4)))
        seen.append(rows_of(strategy, next(iterator)))
        if life == "0" and rank == 1:
            iterator.close()  # leaves a note for those who go on
    return seen


def test_keys_of_an_earlier_life_of_the_group_mean_nothing():
    assert returned(run_ranks(restarted, 2)) == [[[0, 1], [0, 1]], [[2, 3], [2, 3]]]
