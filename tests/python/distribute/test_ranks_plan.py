# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Several real processes over one stream: which rank gets which rows, and where a resumed run continues."""

import itertools
import logging
import random
import time

import pytest
import torch
import torch.distributed as dist
from ranks import returned, run_ranks

import torch_distinput as tdi
from torch_distinput.distribute import _multi_worker as multi_worker


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
        (8, 1009, 40, "zero_rows", "balanced"),
        (3, 101, 10, "merge", "tf"),
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
    rows = [row for step in itertools.islice(iterator, steps) for row in rows_of(strategy, step)]
    return rows, iterator.state_dict()


def test_a_run_goes_on_exactly_once_on_another_number_of_processes():
    n, state, seen = 1009, None, []
    for world, steps in ((4, 7), (3, 11), (5, 3), (1, 10), (2, 10_000)):
        results = returned(run_ranks(restart, world, n, 16, state, steps))
        seen += [row for rows, _ in results for row in rows]
        state = results[0][1]
        assert all(other == state for _, other in results)
    assert sorted(seen) == list(range(n))


def two_groups(rank):
    """Ranks 0 and 1, and 2 and 3, are data-parallel groups; ranks 0 and 2, and 1 and 3, work on one replica each."""
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("tp", "dp"))
    strategy = tdi.MultiWorkerMirroredStrategy(mesh["dp"])
    dataset = strategy.distribute_dataset(tdi.Dataset.range(40).shuffle(seed=4).batch(8))
    return [rows_of(strategy, step) for step in dataset]


def test_ranks_of_one_model_replica_get_the_same_rows():
    rows = returned(run_ranks(two_groups, 4))
    assert rows[0] == rows[2] and rows[1] == rows[3]
    assert sorted(row for rank in (0, 1) for step in rows[rank] for row in step) == list(range(40))


def test_an_environment_of_several_processes_without_a_group_is_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(RuntimeError, match=r"process_group_from_env\(\) first"):
        tdi.MultiWorkerMirroredStrategy()


def test_without_a_group_there_is_one_process(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    strategy = tdi.MultiWorkerMirroredStrategy(devices=["cpu", "cpu"])
    assert strategy.num_replicas_in_sync == 2
    steps = [rows_of(strategy, step) for step in strategy.distribute_dataset(tdi.Dataset.range(5).batch(4))]
    assert steps == [[0, 1, 2, 3], [4]]


def restarted(rank):
    """An earlier run of the group left its keys in the store."""
    seen = []
    for life in range(2):
        multi_worker._made.clear()  # as in a new process
        strategy = tdi.MultiWorkerMirroredStrategy()
        iterator = iter(strategy.distribute_dataset(tdi.Dataset.range(20).batch(4)))
        seen.append(rows_of(strategy, next(iterator)))
        if life == 0 and rank == 1:
            iterator.close()  # reports to the other ranks that this one left
    return seen


def test_keys_of_an_earlier_run_of_the_group_are_ignored():
    assert returned(run_ranks(restarted, 2)) == [[[0, 1], [0, 1]], [[2, 3], [2, 3]]]


def listening(rank):
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger = logging.getLogger("torch_distinput")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    strategy = tdi.MultiWorkerMirroredStrategy()
    dataset = strategy.distribute_dataset(tdi.Dataset.range(4).batch(2))
    for _ in range(2):
        list(dataset)
    return lines, dataset.explain()


def test_rank_0_says_once_how_data_is_assigned():
    (lines, report), (silent, _) = returned(run_ranks(listening, 2))
    assert silent == []
    assert len(lines) == 1
    assert "AUTO, applied as DATA: each rank keeps its parts of each batch: " in lines[0]
    assert lines[0].removeprefix("auto_shard_policy ") in report


def any_order(rank, make):
    strategy = tdi.MultiWorkerMirroredStrategy()
    steps = strategy.distribute_dataset(ANY_ORDER[make](random.Random(rank)).batch(4))
    return [row for step in steps for row in rows_of(strategy, step)]


def delayed(pauses):
    """A function whose parallel calls end in a different order on every rank."""

    def wait(row):
        time.sleep(pauses.random() * 0.003)
        return row

    return wait


ANY_ORDER = {
    "map": lambda pauses: (
        tdi.Dataset.range(60).filter(lambda row: True).map(delayed(pauses), num_parallel_calls=4, deterministic=False)
    ),
    "interleave": lambda pauses: tdi.Dataset.range(6).interleave(
        lambda ten: tdi.Dataset.range(10).map(lambda row: delayed(pauses)(row) + 10 * ten),
        cycle_length=3,
        num_parallel_calls=3,
        deterministic=False,
    ),
    "option": lambda pauses: (
        tdi.Dataset.range(60)
        .filter(lambda row: True)
        .map(delayed(pauses), num_parallel_calls=4)
        .with_options(tdi.Options(deterministic=False))
    ),
}


@pytest.mark.parametrize("make", ANY_ORDER)
def test_a_stream_that_ranks_share_has_one_order_also_without_determinism(make):
    here, there = returned(run_ranks(any_order, 2, make))
    assert sorted(here + there) == list(range(60))


def state_before_a_step(rank):
    strategy = tdi.MultiWorkerMirroredStrategy()
    iterator = iter(strategy.distribute_dataset(tdi.Dataset.range(40).shuffle().batch(4)))
    before = iterator.state_dict()
    next(iterator)
    iterator.load_state_dict(before)
    return before, [row for step in iterator for row in rows_of(strategy, step)]


def test_states_are_the_same_on_every_rank_before_the_first_step_too():
    (here, rows), (there, other_rows) = returned(run_ranks(state_before_a_step, 2))
    assert here == there and here["seed"] is None
    assert sorted(rows + other_rows) == list(range(40))


def draws(rank, folder):
    """The number that each row draws, where every rank reads files of its own."""

    def draw(line):
        return line, torch.rand((), generator=tdi.random())

    lines = tdi.TextLineDataset([f"{folder}/{file}" for file in range(8)], index=False)
    strategy = tdi.MultiWorkerMirroredStrategy()
    steps = strategy.distribute_dataset(lines.map(draw).batch(4).with_options(tdi.Options(seed=7)))
    return [number for _, numbers in steps for number in rows_of(strategy, numbers)]


def test_rows_of_different_ranks_draw_different_numbers(tmp_path):
    for file in range(8):
        (tmp_path / str(file)).write_text(f"{file}a\n{file}b\n")
    numbers = [number for mine in returned(run_ranks(draws, 2, str(tmp_path))) for number in mine]
    assert len(set(numbers)) == len(numbers) == 16
