# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Known failures of TensorFlow (rows lost or mixed up silently, crashes, wrong errors) and what happens here.

In the order in which the behaviours were recorded. Those that need several processes or files are tested with these;
docs/limits.md names the test for each.
"""

import concurrent.futures
import signal
import subprocess
import sys

import pytest
import torch

import torch_distinput as tdi
from torch_distinput.distribute._strategy import NativeStrategy

OFF, AUTO, DATA = tdi.AutoShardPolicy.OFF, tdi.AutoShardPolicy.AUTO, tdi.AutoShardPolicy.DATA


def mirrored(replicas: int) -> tdi.MirroredStrategy:
    return tdi.MirroredStrategy(["cpu"] * replicas)


def with_policy(dataset: tdi.Dataset, policy) -> tdi.Dataset:
    return dataset.with_options(tdi.Options(auto_shard_policy=policy))


def steps(strategy, distributed) -> list:
    return [[part.tolist() for part in strategy.local_results(step)] for step in distributed]


def distributed_steps(replicas: int, dataset: tdi.Dataset, **options) -> list:
    strategy = mirrored(replicas)
    return steps(strategy, strategy.distribute_dataset(dataset, tdi.InputOptions(**options)))


# --- 2: every row delivered twice after one unrelated call


def test_options_never_change_the_strategy(two):
    dataset = with_policy(tdi.Dataset.range(8).batch(4), OFF)
    before = steps(two, two.distribute_dataset(dataset))
    options = tdi.InputOptions(replication_mode="PER_REPLICA")
    two.distribute_datasets_from_function(lambda context: tdi.Dataset.range(4).batch(2), options)
    assert steps(two, two.distribute_dataset(dataset)) == before == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
    contexts = []
    two.distribute_datasets_from_function(lambda context: contexts.append(str(context)) or dataset)
    assert len(contexts) == 1


# --- 3 and 4: process crashes


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_gather_of_nothing_is_nothing(two, dtype):
    nothing = two.distribute_values_from_function(lambda context: torch.zeros(0, 3, dtype=dtype))
    assert two.gather(nothing, axis=0).shape == (0, 3)


@pytest.mark.parametrize("sizes", [[-1], [], [0], [0, 0]])
def test_sizes_below_one_are_refused(sizes):
    with pytest.raises(ValueError, match="rebatch: `batch_sizes` must"):
        tdi.Dataset.range(4).batch(2).rebatch(sizes)


# --- 5: sparse leaves


@pytest.mark.parametrize(("replicas", "policy"), [(2, AUTO), (2, OFF), (3, AUTO), (3, OFF)])
@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_sparse_rows_work_where_a_replica_has_none(replicas, policy):
    strategy = mirrored(replicas)
    dataset = tdi.Dataset.range(5).map(lambda x: ((torch.arange(4) < x) * (x + 1)).to_sparse()).batch(4)
    parts = [
        part.to_dense()
        for step in strategy.distribute_dataset(with_policy(dataset, policy))
        for part in strategy.local_results(step)
    ]
    assert any(len(part) == 0 for part in parts)
    wanted = torch.stack([(torch.arange(4) < x) * (x + 1) for x in range(5)])
    assert torch.equal(torch.cat([part for part in parts if len(part)]), wanted)


# --- 6: None leaves


@pytest.mark.parametrize("policy", [AUTO, OFF, DATA])
@pytest.mark.parametrize("replicas", [2, 3])
def test_none_leaves_work_where_a_replica_has_no_rows(replicas, policy):
    strategy = mirrored(replicas)
    dataset = with_policy(tdi.Dataset.range(5).map(lambda x: (x, None)).batch(4), policy)
    rows = []
    for step in strategy.distribute_dataset(dataset):
        for x, nothing in strategy.local_results(step):
            rows += x.tolist()
            assert nothing is None
    assert rows == list(range(5))


# --- 7: rows lost at the end


@pytest.mark.parametrize(("replicas", "rows", "delivered"), [(2, 3, 1), (4, 2, 0)])
def test_a_last_step_that_next_leaves_out_can_still_be_read(replicas, rows, delivered):
    strategy = mirrored(replicas)
    distributed = strategy.distribute_datasets_from_function(lambda context: tdi.Dataset.range(rows))
    assert len(distributed) == delivered
    assert "handed out by get_next_as_optional alone" in distributed.explain()
    iterator = iter(distributed)
    for _ in range(delivered):
        iterator.get_next()
    for _ in range(2):
        with pytest.raises(tdi.OutOfRangeError):
            iterator.get_next()
    last = iterator.get_next_as_optional()
    there = [value for value, valid in zip(last.get_value().values, iterator.step_info.valid) if valid]
    assert [value.item() for value in there] == list(range(delivered * replicas, rows))
    assert not iterator.get_next_as_optional().has_value()


def test_made_up_parts_are_marked(two):
    iterator = iter(two.distribute_datasets_from_function(lambda context: tdi.Dataset.range(3)))
    next(iterator)
    step = iterator.get_next_as_optional().get_value()
    assert [value.item() for value in step.values] == [2, 0]
    assert (iterator.step_info.has_value, iterator.step_info.valid) == ((True, False), (1, 0))


# --- 8: the borders of epochs and batches


def test_epochs_and_batches_can_be_kept_apart(two):
    dataset = with_policy(tdi.Dataset.range(5).batch(4).repeat(2), OFF)
    mixed = two.distribute_dataset(dataset)
    assert steps(two, mixed) == [[[0, 1], [2, 3]], [[4, 0], [1, 2]], [[3, 4], []]]
    assert "across the borders of batches" in mixed.explain()
    clean = two.distribute_dataset(dataset, tdi.InputOptions(split="balanced"))
    assert steps(two, clean) == [[[0, 1], [2, 3]], [[4], []]] * 2


# --- 9: steps and replicas without rows


@pytest.mark.parametrize("policy", [AUTO, OFF])
def test_steps_without_rows_are_delivered_in_the_middle_and_not_at_the_end(two, policy):
    dataset = tdi.Dataset.range(12).batch(2).map(lambda x: x[(x < 2) | ((x >= 6) & (x < 8))])
    got = steps(two, two.distribute_dataset(with_policy(dataset, policy)))
    assert got == [[[0], [1]], [[], []], [[], []], [[6], [7]]]


def test_rows_are_shared_as_evenly_as_they_can_be():
    def sizes(replicas, rows, **options):
        return [len(part) for part in distributed_steps(replicas, tdi.Dataset.range(rows).batch(rows), **options)[0]]

    assert sizes(5, 16) == [4, 4, 4, 4, 0]
    assert sizes(5, 16, split="balanced") == [4, 3, 3, 3, 3]
    assert sizes(3, 4) == [2, 2, 0]
    assert sizes(3, 4, split="balanced") == [2, 1, 1]
    assert sizes(3, 2, split="balanced") == [1, 1, 0]  # more replicas than rows


# --- 10: the same data, other steps


def test_one_split_rule_for_all_policies_is_available():
    dataset = tdi.Dataset.range(6).batch(4)
    assert distributed_steps(2, with_policy(dataset, AUTO)) == [[[0, 1], [2, 3]], [[4], [5]]]
    assert distributed_steps(2, with_policy(dataset, OFF)) == [[[0, 1], [2, 3]], [[4, 5], []]]
    mapped = dataset.map(lambda x: x)
    for policy in (AUTO, OFF, DATA):
        for one in (dataset, mapped):
            got = distributed_steps(2, with_policy(one, policy), split="balanced")
            assert got == [[[0, 1], [2, 3]], [[4], [5]]]


# --- 12: errors that name the wrong thing


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: mirrored(2).distribute_dataset([1, 2]), TypeError, ["`dataset`", "Dataset", "list"]),
        (lambda: mirrored(2).distribute_dataset(tdi.Dataset.range(3)), ValueError, ["no rows", "Call `batch`"]),
        (
            lambda: tdi.testing.auto_shard(tdi.Dataset.range(4), 2, 0, tdi.AutoShardPolicy.FILE),
            tdi.NotFoundError,
            ["policy FILE", "range(start=0, stop=4, step=1)"],
        ),
    ],
)
def test_errors_name_what_is_wrong(call, kind, words):
    with pytest.raises(kind) as caught:
        call()
    assert all(word in str(caught.value) for word in words)


# --- 13: hangs where there are more replicas than processors


def test_more_replicas_than_processors_do_not_hang():
    strategy = mirrored(16)
    distributed = strategy.distribute_dataset(tdi.Dataset.range(160).batch(32))

    def total(x):
        return tdi.get_replica_context().all_reduce("SUM", x.sum())

    sums = [strategy.run(total, args=(step,)).values[0].item() for step in distributed]
    assert sum(sums) == sum(range(160))


# --- 14: processes that survive SIGTERM

LOOP = """
import torch_distinput as tdi
from torch_distinput.distribute._strategy import NativeStrategy
strategy = tdi.MirroredStrategy(["cpu", "cpu"])
dataset = tdi.Dataset.range(64).map(lambda x: x).filter(lambda x: x >= 0).repeat().batch(8)
for step in strategy.distribute_dataset(dataset):
    strategy.run(lambda x: tdi.get_replica_context().all_reduce("SUM", x), args=(step,))
    print(".", end="", flush=True)
"""


@pytest.mark.slow
def test_a_process_that_loads_data_ends_when_it_is_told_to():
    with subprocess.Popen([sys.executable, "-c", LOOP], stdout=subprocess.PIPE) as process:
        assert process.stdout.read(20) == b"." * 20
        process.terminate()
        process.stdout.read()
        assert process.wait(timeout=20) == -signal.SIGTERM


# --- 15: means of nothing


def test_a_naive_mean_of_nothing_is_nan_and_the_helpers_are_not(two):
    rows = torch.tensor([5.0, 6.0, 7.0])
    dataset = tdi.Dataset.from_tensor_slices(rows).batch(2)
    got = {"naive": [], "reduce": [], "helper": []}
    iterator = iter(two.distribute_dataset(dataset))
    for step in iterator:
        info = iterator.step_info
        got["naive"].append(two.reduce("MEAN", two.run(torch.mean, args=(step,))).item())
        got["reduce"].append(two.reduce("MEAN", step, axis=0).item())
        losses = two.run(lambda x, info=info: tdi.scaled_mean(x.mean(), info, anchor=x), args=(step,))
        got["helper"].append(two.reduce("MEAN", losses).item())
    assert got["naive"][0] == 5.5
    assert got["naive"][1] != got["naive"][1]
    assert got["reduce"] == got["helper"] == [5.5, 7.0]


def test_reduce_over_no_rows_at_all_is_nan_as_in_the_original(two):
    nothing = tdi.PerReplica([torch.zeros(0), torch.zeros(0)])
    assert two.reduce("MEAN", nothing, axis=0).isnan()
    assert two.reduce("SUM", nothing, axis=0) == 0


# --- 16: an error in one row


def failing(x):
    if int(x) == 3:
        raise ArithmeticError("row 3 is bad")
    return x


def test_the_rows_around_a_bad_one_are_not_lost(two):
    dataset = tdi.Dataset.range(8).map(failing)
    iterator = iter(two.distribute_dataset(dataset.batch(2)))
    next(iterator)
    for _ in range(2):
        with pytest.raises(ArithmeticError, match="row 3"):
            next(iterator)
    skipping = iter(two.distribute_dataset(dataset.with_options(tdi.Options(on_error="skip")).batch(2)))
    assert [row for step in steps(two, skipping) for part in step for row in part] == [0, 1, 2, 4, 5, 6, 7]
    assert skipping.stats()["skipped"] == 1


def test_a_generator_that_fails_never_looks_like_the_end(two):
    def rows():
        yield from map(torch.tensor, range(3))
        raise ArithmeticError("the disk is gone")

    dataset = tdi.Dataset.from_generator(rows, tdi.TensorSpec([], torch.int64))
    iterator = iter(two.distribute_dataset(dataset.batch(2)))
    assert [part.tolist() for part in next(iterator).values] == [[0], [1]]
    for _ in range(3):
        with pytest.raises(ArithmeticError, match="the disk is gone"):
            next(iterator)
    one_by_one = iter(dataset)
    assert [int(next(one_by_one)) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ArithmeticError):
        next(one_by_one)


# --- limits beyond that list


def test_planned_steps_need_no_agreement(two):
    iterator = iter(two.distribute_dataset(tdi.Dataset.range(8).batch(2)))
    assert len(list(iterator)) == 4
    assert iterator.stats()["rounds"] == 0


class CountedRows:
    """A map-style dataset that notes which rows were read."""

    def __init__(self):
        self.read = []

    def __len__(self):
        return 40

    def __getitem__(self, index):
        self.read.append(index)
        return torch.tensor(index)


@pytest.mark.parametrize("split", ["tf", "balanced"])
def test_a_worker_reads_the_rows_of_its_own_replicas_only(split):
    store = torch.distributed.HashStore()

    def worker(number):
        native = tdi._C.MultiWorkerMirroredStrategy(
            tdi._C.ProcessGroup(store, number, 2, f"limits/{split}"), ["cpu", "cpu"]
        )
        strategy = NativeStrategy(native)
        rows = CountedRows()
        dataset = tdi.Dataset.from_torch(rows).shuffle(seed=1).batch(8)
        iterator = iter(strategy.distribute_dataset(dataset, tdi.InputOptions(split=split)))
        got = [row for step in iterator for part in strategy.local_results(step) for row in part.tolist()]
        return got, rows.read, iterator.stats()["rounds"]

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(worker, range(2)))
    assert sorted(row for got, _, _ in results for row in got) == list(range(40))
    for got, read, rounds in results:
        # One more row shows the type of the elements.
        assert len(got) == 20
        assert len(set(read) - set(got)) <= 1
        assert rounds == 0


def test_workers_that_shuffle_with_one_seed_share_out_the_rows():
    dataset = tdi.Dataset.range(100).shuffle().batch(10).with_options(tdi.Options(seed=3))
    workers = [tdi.testing.worker_stream(dataset, 2, 1, worker, DATA) for worker in range(2)]
    rows = [row for worker in workers for part in worker for row in part.tolist()]
    assert sorted(rows) == list(range(100))


def test_a_program_for_many_replicas_runs_on_one_as_it_is():
    def total(strategy):
        rows = 0
        for step in strategy.distribute_dataset(tdi.Dataset.range(7).batch(3)):
            doubled = strategy.run(lambda x: 2 * x, args=(step,))
            parts = strategy.local_results(doubled)
            rows += sum(int(part.sum()) for part in parts)
            assert int(strategy.reduce("SUM", doubled, axis=0)) == sum(sum(p.tolist()) for p in parts)
        return rows

    assert total(tdi.OneDeviceStrategy("cpu")) == total(mirrored(1)) == total(mirrored(3)) == 42


def test_a_placement_that_has_no_effect_is_reported(two):
    options = tdi.InputOptions(place_dataset_on_device=True)
    distributed = two.distribute_dataset(tdi.Dataset.range(4).batch(2), options)
    assert "place_dataset_on_device: ignored" in distributed.explain()
