# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The programs of tf.distribute's pages on distributed input print the numbers that those pages show.

The tutorial's own programs are in examples/python/02_tutorial.py; its sections are run here one by one. Where the
output on a page is wrong (DistributedIterator.get_next_as_optional), the recorded one is expected.
"""

import importlib.util
import re

import pytest
import torch
from places import EXAMPLES

import torch_distinput as tdi

EXAMPLE = EXAMPLES / "02_tutorial.py"


@pytest.fixture(scope="module")
def tutorial():
    spec = importlib.util.spec_from_file_location("tutorial", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def four():
    return tdi.MirroredStrategy(["cpu"] * 4)


def lists(strategy, value) -> list:
    return [part.tolist() for part in strategy.experimental_local_results(value)]


# --- the tutorial ---------------------------------------------------------------------------------------------------


def test_without_distribution(tutorial, capsys):
    tutorial.without_distribution()
    assert capsys.readouterr().out.split(") ") == ["(16, 1"] * 6 + ["(4, 1", "\n"]
    losses = torch.cat([tutorial.train_step(inputs) for inputs in tutorial.hundred_pairs()])
    torch.testing.assert_close(losses, torch.full((100, 1), 0.7))


def test_one_global_batch_is_one_step(tutorial, four):
    step = next(iter(four.experimental_distribute_dataset(tutorial.hundred_pairs())))
    assert isinstance(step, tuple)
    for leaf in step:
        assert isinstance(leaf, tdi.PerReplica)
        assert [part.tolist() for part in leaf.values] == [[[1.0]] * 4] * 4


def test_rebatched_batches(tutorial, capsys):
    tutorial.rebatch()
    assert capsys.readouterr().out == (
        "range(6).batch(4) over 2 replicas\n[0, 1] | [2, 3]\n[4] | [5]\n"
        "range(4).batch(4) over 5 replicas\n[0] | [1] | [2] | [3] | []\n"
        "range(8).batch(4) over 3 replicas\n[0, 1] | [2, 3] | []\n[4, 5] | [6, 7] | []\n"
    )


def test_the_rebatched_datasets_parts_are_a_multiple_of_the_replicas(two):
    for rows in range(1, 9):
        parts = [
            part
            for step in two.distribute_dataset(tdi.Dataset.range(rows).batch(4))
            for part in two.local_results(step)
        ]
        assert len(parts) % 2 == 0


def test_what_two_workers_read_with_data_and_off(tutorial, capsys):
    tutorial.auto_shard()
    assert capsys.readouterr().out.splitlines() == [
        "DATA worker 0: [0, 1] [4, 5] [8, 9]",
        "DATA worker 1: [2, 3] [6, 7] [10, 11]",
        "OFF worker 0: [0, 1] [2, 3] [4, 5] [6, 7] [8, 9] [10, 11]",
        "OFF worker 1: [0, 1] [2, 3] [4, 5] [6, 7] [8, 9] [10, 11]",
    ]


def test_options_set_the_auto_shard_policy(two):
    dataset = tdi.Dataset.from_tensors(([1.0], [1.0])).repeat(64).batch(16)
    dataset = dataset.with_options(tdi.Options(auto_shard_policy=tdi.AutoShardPolicy.DATA))
    assert "policy: DATA, applied as DATA" in two.distribute_dataset(dataset).explain()


def test_a_dataset_from_a_function(tutorial, four, capsys):
    tutorial.distribute_from_a_function(four)
    assert capsys.readouterr().out == "[(4, 16, 1), (0, 0, 1), (0, 0, 1), (0, 0, 1)]\n"


def test_a_loop_over_all_steps_prints_what_the_tutorial_prints(tutorial, four, capsys):
    tutorial.loop_over_all_steps(four)
    printed = capsys.readouterr().out
    assert printed.count("Loss is  PerReplica:{") == 7
    four_rows = r"tensor\(\[\[0\.7000\],\s+\[0\.7000\],\s+\[0\.7000\],\s+\[0\.7000\]\]\)"
    assert len(re.findall(rf"\n  [0-3]: {four_rows},?", printed)) == 6 * 4
    assert printed.endswith(
        "PerReplica:{\n  0: tensor([[0.7000]]),\n  1: tensor([[0.7000]]),\n  2: tensor([[0.7000]]),\n"
        "  3: tensor([[0.7000]])\n}\n"
    )


def test_a_loop_over_some_steps_starts_each_epoch_anew(tutorial, four, capsys):
    tutorial.loop_over_some_steps(four)
    assert capsys.readouterr().out == "800 rows in 50 steps\n"


def test_get_next_as_optional_stops_the_loop(tutorial, four, capsys):
    tutorial.stop_at_the_end(four)
    assert capsys.readouterr().out == (
        "[0] | [1] | [2] | [3]\n[4] | [5] | [6] | [7]\n[8] | [] | [] | []\nOutOfRangeError\n"
    )


def test_element_spec_and_the_function_that_repeats_its_pair(tutorial, four, capsys):
    tutorial.element_spec(four)
    spec = tdi.PerReplicaSpec(*[tdi.TensorSpec([None, 1], torch.float32)] * 4)
    assert capsys.readouterr().out.splitlines() == [str((spec, spec)), "4 [[1.0], [1.0], [1.0], [1.0]]"]


def test_strings_are_looked_up_in_a_table_that_was_made_before(tutorial, four, capsys):
    with four.scope():
        tutorial.look_up_strings(four)
    assert capsys.readouterr().out == "[1] | [3] | [0] | [1]\n[3] | [0] | [1] | [3]\n[0] | [1] | [3] | [0]\n"


def test_partial_batches_come_with_zero_rows(tutorial, four, capsys):
    tutorial.partial_batches(four)
    assert capsys.readouterr().out.splitlines()[-1] == "step 2: valid (1, 0, 0, 0), rows [1, 0, 0, 0], last: True"


def test_next_ends_with_out_of_range_when_no_replica_has_data(four):
    iterator = iter(four.distribute_dataset(tdi.Dataset.range(9).batch(4)))
    for _ in range(3):
        iterator.get_next()
    for _ in range(2):
        with pytest.raises(tdi.OutOfRangeError):
            iterator.get_next()


def test_predictions_in_order(tutorial, four, capsys):
    tutorial.order_predictions(four)
    assert capsys.readouterr().out.splitlines() == [str({i: 2 * i for i in range(24)}), "True"]


def test_values_from_a_function(tutorial, four, capsys):
    tutorial.values_from_a_function(four)
    assert capsys.readouterr().out == "0 | 1 | 2 | 3\n" * 4


def test_rows_from_a_generator(tutorial, four, capsys):
    tutorial.rows_from_a_generator(four)
    assert capsys.readouterr().out == "[(1,), (1,), (1,), (1,)]\n" * 4


def test_random_maps_draw_per_row_and_not_per_process():
    """The tutorial: "stateful dataset transformations are currently not supported". Here each row draws its number."""

    def noisy(x):
        return x + torch.rand((), generator=tdi.random())

    dataset = tdi.Dataset.range(12).map(noisy).with_options(tdi.Options(seed=5)).batch(6)

    def rows(replicas):
        strategy = tdi.MirroredStrategy(["cpu"] * replicas)
        return [row for step in strategy.distribute_dataset(dataset) for part in lists(strategy, step) for row in part]

    assert rows(1) == rows(2) == rows(3)
    assert len(set(rows(1))) == 12


# --- DistributedIterator --------------------------------------------------------------------------------------------


def pairs(count: int, batch: int) -> tdi.Dataset:
    """`from_tensors(([1.], [2])).repeat(count).batch(batch)` with the integers of TensorFlow."""
    return tdi.Dataset.from_tensors(([1.0], torch.tensor([2], dtype=torch.int32))).repeat(count).batch(batch)


def test_the_iterators_element_spec(two):
    distributed = two.experimental_distribute_dataset(pairs(100, 16))
    float_spec, int_spec = (tdi.TensorSpec([None, 1], dtype) for dtype in (torch.float32, torch.int32))
    wanted = (tdi.PerReplicaSpec(float_spec, float_spec), tdi.PerReplicaSpec(int_spec, int_spec))
    assert iter(distributed).element_spec == distributed.element_spec == wanted


def test_get_next(two):
    iterator = iter(two.experimental_distribute_dataset(tdi.Dataset.range(100).batch(2)))
    for _ in range(5):
        two.run(lambda x: x, args=(iterator.get_next(),))
    assert lists(two, iterator.get_next()) == [[10], [11]]


def test_get_next_as_optional(two):
    """The page prints ([0 1], [2 3]) and ([4], []); the recording agrees with the definition of a global batch of 2."""
    iterator = iter(two.experimental_distribute_dataset(tdi.Dataset.range(10).batch(2)))
    seen = []
    while (step := iterator.get_next_as_optional()).has_value():
        seen.append(lists(two, two.run(lambda x: x, args=(step.get_value(),))))
    assert seen == [[[0], [1]], [[2], [3]], [[4], [5]], [[6], [7]], [[8], [9]]]


def test_the_notes_program():
    strategy = tdi.MirroredStrategy()
    iterator = iter(strategy.experimental_distribute_dataset(tdi.Dataset.range(100).batch(10)))
    rows = [row for _ in range(10) for part in lists(strategy, next(iterator)) for row in part]
    assert rows == list(range(100))


# --- DistributedDataset ---------------------------------------------------------------------------------------------


def test_losses_are_printed_for_each_replica(two, capsys):
    dataset = tdi.Dataset.from_tensors(([1.0], [1.0])).repeat(4).batch(4)
    for x in two.experimental_distribute_dataset(dataset):
        loss = two.run(lambda pair: pair[1] - 0.3 * pair[0], args=(x,))
        print("Loss is", loss)
    assert re.sub(r"\s+", " ", capsys.readouterr().out).strip() == (
        "Loss is PerReplica:{ 0: tensor([[0.7000], [0.7000]]), 1: tensor([[0.7000], [0.7000]]) }"
    )


def test_average_losses_of_an_epoch(two):
    distributed = two.experimental_distribute_dataset(tdi.Dataset.from_tensors(([1.0], [1.0])).repeat(50).batch(4))
    lines = []
    for epoch in range(2):
        total, iterator = 0.0, iter(distributed)
        for _ in range(3):
            losses = two.run(lambda inputs: torch.tensor(0.1), args=(next(iterator),))
            total += two.reduce(tdi.ReduceOp.SUM, losses, axis=None)
        lines.append(f"Epoch {epoch + 1}, Loss: {total / 3:.4f}")
    assert lines == ["Epoch 1, Loss: 0.2000", "Epoch 2, Loss: 0.2000"]


def test_a_squared_element(two):
    distributed = two.experimental_distribute_dataset(tdi.Dataset.from_tensors([2.0]).repeat(100).batch(4))
    output = two.run(torch.square, args=(next(iter(distributed)),))
    assert lists(two, output) == [[[4.0], [4.0]]] * 2
    assert distributed.element_spec == tdi.PerReplicaSpec(*[tdi.TensorSpec([None, 1], torch.float32)] * 2)


def test_the_first_element_of_an_endless_dataset(two):
    dataset = tdi.Dataset.from_tensor_slices([1, 2, 3, 4]).repeat().batch(4)
    step = next(iter(two.experimental_distribute_dataset(dataset)))
    assert repr(step) == "PerReplica:{\n  0: tensor([1, 2]),\n  1: tensor([3, 4])\n}"


def test_it_is_no_dataset(two):
    distributed = two.experimental_distribute_dataset(tdi.Dataset.range(4).batch(2))
    assert not isinstance(distributed, tdi.Dataset)
    for name in ("map", "batch", "shuffle", "repeat"):
        with pytest.raises(AttributeError):
            getattr(distributed, name)
