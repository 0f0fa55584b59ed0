# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""batch_by_cost: batches, budgets, laws, shards, restarts and errors, against a model in plain Python."""

import numpy
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

import torch_distinput as tdi

SPEC = {"id": tdi.TensorSpec([], torch.int64), "tokens": tdi.TensorSpec([None], torch.int64)}
COSTS = st.lists(st.integers(0, 9), max_size=40)
BUDGETS = st.integers(9, 40)
WINDOWS = st.integers(1, 50)


def rows_of(costs: list[int]) -> tdi.Dataset:
    """Rows with as many tokens as they cost, each token the number of its row."""
    lengths = torch.tensor(costs, dtype=torch.int64)
    return tdi.Dataset.range(len(costs)).map(
        lambda n: {"id": n, "tokens": n.repeat(int(lengths[n]))}, element_spec=SPEC
    )


def runs(costs: list[int], most: float) -> list[list[int]]:
    """The dearest rows that are left while they fit, and then the dearest that fit of at least half the first cost."""
    left = sorted(range(len(costs)), key=lambda row: (-costs[row], row))
    found: list[list[int]] = []
    while left:
        run, total = [left[0]], costs[left.pop(0)]
        found.append(run)
        in_turn = True
        while (row := next((row for row in left if total + costs[row] <= most), None)) is not None:
            in_turn = in_turn and row == left[0]
            if not in_turn and 2 * costs[row] < costs[run[0]]:
                break
            run.append(row)
            total += costs[row]
            left.remove(row)
    return found


def model(costs: list[int], budget: int) -> list[list[int]]:
    """The batches of one window: as few runs as the budget allows, and then of about the least cost."""
    if not costs:
        return []
    found, high = runs(costs, budget), float(budget)
    low = max(max(costs), sum(costs) / len(found))
    for _ in range(8):
        middle = low + (high - low) / 2
        cheaper = runs(costs, middle)
        if len(cheaper) > len(found):
            low = middle
        else:
            found, high = cheaper, middle
    return [sorted(run) for run in sorted(found, key=lambda run: run[0])]


def windows(costs: list[int], budget: int, window: int) -> list[list[int]]:
    """The batches of all windows."""
    return [
        [begin + row for row in batch]
        for begin in range(0, len(costs), window)
        for batch in model(costs[begin : begin + window], budget)
    ]


def batches_of(dataset: tdi.Dataset, **options) -> list[list[int]]:
    return [batch["id"].tolist() for batch in dataset._native.iterate(**options)]


@given(COSTS, BUDGETS, WINDOWS)
def test_batches_are_those_of_the_model_however_costs_are_given(costs, budget, window):
    rows = rows_of(costs)
    expected = windows(costs, budget, window)
    for cost in (torch.tensor(costs, dtype=torch.int64), "tokens", lambda row: len(row["tokens"])):
        dataset = rows.batch_by_cost(cost, budget, window=window)
        assert batches_of(dataset) == expected
        tdi.testing.assert_resumable(dataset)
        tdi.testing.assert_paths_agree(dataset)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.floats(1, 5), WINDOWS)
def test_no_batch_costs_more_than_the_budget_and_no_row_is_lost(costs, budget, window):
    dataset = tdi.Dataset.range(len(costs)).batch_by_cost(costs, budget, window=window)
    batches = [batch.tolist() for batch in dataset]
    assert sorted(row for batch in batches for row in batch) == list(range(len(costs)))
    for batch in batches:
        assert sum(costs[row] for row in batch) <= budget * (1 + 1e-9)
        assert len({row // window for row in batch}) == 1


@given(COSTS, BUDGETS, WINDOWS, st.integers(0, 3))
def test_costs_follow_their_rows(costs, budget, window, epoch):
    rows = rows_of(costs).shuffle(seed=5).skip(1).repeat(2).take(30)
    order = [int(row["id"]) for row in rows._native.iterate(epoch=epoch)]
    expected = [[order[place] for place in batch] for batch in windows([costs[row] for row in order], budget, window)]
    dataset = rows.batch_by_cost(costs, budget, window=window) if costs else None
    assume(dataset is not None)
    assert batches_of(dataset, epoch=epoch) == expected
    assert batches_of(dataset, epoch=epoch, stream_only=True) == expected
    tdi.testing.assert_resumable(dataset)


@given(COSTS, BUDGETS, WINDOWS, st.integers(1, 7))
def test_shards_share_the_batches(costs, budget, window, shards):
    dataset = rows_of(costs).batch_by_cost(torch.tensor(costs, dtype=torch.int64), budget, window=window)
    expected = windows(costs, budget, window)
    for shard in range(shards):
        assert batches_of(dataset.shard(shards, shard)) == expected[shard::shards]


@given(COSTS, BUDGETS, WINDOWS)
def test_rows_are_padded_to_the_longest_of_their_batch(costs, budget, window):
    dataset = rows_of(costs).batch_by_cost("tokens", budget, window=window, padding_values=-1)
    for batch in dataset:
        for row, tokens in zip(batch["id"].tolist(), batch["tokens"].tolist(), strict=True):
            assert tokens == [row] * costs[row] + [-1] * (len(tokens) - costs[row])
        assert batch["tokens"].shape[1] == max(costs[row] for row in batch["id"].tolist())


@given(COSTS, BUDGETS, st.integers(1, 4), st.sampled_from(["tf", "balanced"]))
def test_replicas_share_each_batch(costs, budget, replicas, split):
    assume(costs)
    dataset = tdi.Dataset.range(len(costs)).batch_by_cost(costs, budget, window=16)
    strategy = tdi.MirroredStrategy(["cpu"] * replicas)
    steps = [
        torch.cat([strategy.experimental_local_results(step)[i] for i in range(replicas)]).tolist()
        if replicas > 1
        else step.tolist()
        for step in strategy.distribute_dataset(dataset, tdi.InputOptions(split=split))
    ]
    assert steps == windows(costs, budget, 16)


def test_a_column_of_numbers_is_the_cost_itself():
    data = {"cost": torch.tensor([3.0, 1.0, 2.0]), "text": ["a", "bcd", "ef"]}
    dataset = tdi.Dataset.from_tensor_slices({"cost": data["cost"], "x": torch.arange(3)})
    assert [batch["x"].tolist() for batch in dataset.batch_by_cost("cost", 3)] == [[0], [1, 2]]


def test_arrays_and_lists_are_costs_by_row():
    for costs in ([1, 2, 3], numpy.array([1, 2, 3]), torch.tensor([1.0, 2.0, 3.0])):
        assert [batch.tolist() for batch in tdi.Dataset.range(3).batch_by_cost(costs, 3)] == [[0, 1], [2]]


def test_a_later_write_to_the_costs_changes_nothing():
    costs = torch.tensor([1, 2, 3])
    dataset = tdi.Dataset.range(3).batch_by_cost(costs, 3)
    costs.fill_(100)
    assert [batch.tolist() for batch in dataset] == [[0, 1], [2]]


def test_a_row_over_the_budget_is_an_error_that_names_it():
    costs = torch.tensor([1, 9, 3])
    for dataset in (
        tdi.Dataset.range(3).batch_by_cost(costs, 5),
        tdi.Dataset.range(3).batch_by_cost(lambda n: int(costs[n]), 5),
        tdi.Dataset.range(3).shuffle(seed=3).batch_by_cost(costs, 5),
    ):
        with pytest.raises(ValueError, match="row 1 costs 9, which is more than `budget`, 5"):
            list(dataset)
    assert [batch.tolist() for batch in tdi.Dataset.range(3).skip(2).batch_by_cost(costs, 5)] == [[2]]


def test_rows_that_fail_are_skipped_where_the_options_say_so():
    costs = torch.tensor([1, 9, 3])
    dataset = tdi.Dataset.range(3).batch_by_cost(lambda n: int(costs[n]), 5)
    dataset = dataset.with_options(tdi.Options(on_error="skip"))
    assert [batch.tolist() for batch in dataset] == [[0, 2]]
    tdi.testing.assert_resumable(dataset)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda ds: ds.batch_by_cost([1, 2], 5), ValueError, "one entry for each of the 3 rows of `range"),
        (lambda ds: ds.batch_by_cost([1, -2, 3], 5), ValueError, "at least 0, but row 1 costs -2"),
        (lambda ds: ds.batch_by_cost([1, float("nan"), 3], 5), ValueError, "must be finite"),
        (lambda ds: ds.batch_by_cost(torch.ones(3, 1), 5), TypeError, "of one dimension, but has 2"),
        (lambda ds: ds.batch_by_cost(7.5, 5), TypeError, "of one dimension, but has 0"),
        (lambda ds: ds.batch_by_cost(object(), 5), TypeError, "must be a tensor, an array or a list"),
        (lambda ds: ds.batch_by_cost([1, 2, 3], 0), ValueError, "`budget` must be a positive number, but is 0"),
        (lambda ds: ds.batch_by_cost([1, 2, 3], 5, window=0), ValueError, "`window` must be at least 1"),
        (lambda ds: list(ds.batch_by_cost("tokens", 5)), ValueError, "must be the key of one leaf of the rows"),
        (lambda ds: list(ds.batch_by_cost(lambda n: [n, n], 5)), TypeError, "the function must return one number"),
        (lambda ds: list(ds.batch_by_cost(lambda n: -1, 5)), ValueError, "at least 0, but row 0 costs -1"),
        (
            lambda ds: list(ds.filter(lambda n: n > 0).batch_by_cost([1, 2, 3], 5)),
            ValueError,
            "needs a known number of rows|needs random access",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make(tdi.Dataset.range(3))


def test_states_of_other_costs_are_refused():
    iterator = iter(tdi.Dataset.range(3).batch_by_cost([1, 2, 3], 3))
    next(iterator)
    state = iterator.state_dict()
    with pytest.raises(ValueError, match="another pipeline"):
        iter(tdi.Dataset.range(3).batch_by_cost([1, 2, 2], 3)).load_state_dict(state)
