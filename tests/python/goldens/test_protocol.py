# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Order and kind of results of next(), get_next() and get_next_as_optional() against the recordings."""

import pytest
import torch
from goldens import cases_of, check_all, compare, differences, drivers, runnable

import torch_distinput as tdi


def protocol(name: str) -> dict:
    return next(case for case in cases_of("iterator_protocol") if case["id"] == f"protocol/{name}")


def result_of(strategy: tdi.Strategy, iterator: tdi.DistributedIterator, call: str) -> list:
    """One call in the form of the recordings."""
    try:
        if call == "optional":
            step = iterator.get_next_as_optional()
            there = step.has_value()
            return ["optional", there, drivers.parts_of(strategy, step.get_value()) if there else None]
        calls = {
            "next": lambda: next(iterator),
            "get_next": iterator.get_next,
            "optional_get_value": lambda: iterator.get_next_as_optional().get_value(),
        }
        return ["value", drivers.parts_of(strategy, calls[call]())]
    except StopIteration:
        return ["StopIteration"]
    except Exception as error:  # noqa: BLE001
        return ["error", {"error": type(error).__name__}]


def check_calls(case: dict) -> None:
    given = case["in"]
    strategy = drivers.strategy_of(given)
    iterator = iter(strategy.distribute_dataset(drivers.dataset_of(given)))
    got = [result_of(strategy, iterator, call) for call in given["calls"]]
    wanted = [["error", {"error": one[1]["error"]}] if one[0] == "error" else one for one in case["out"]["results"]]
    compare.expect_equal("results", got, wanted)


def test_sequences_of_calls():
    check_all([case for case in runnable("iterator_protocol") if "calls" in case["in"]], check_calls)


def check_flag(case: dict) -> None:
    given, out = case["in"], case["out"]
    batch = {"n": given["B"], "drop": given["drop"]}
    ops = {
        "dense": [["batch", batch]],
        "ragged": [["map", {"fn": "vec_mod4"}], ["ragged_batch", batch]],
        "sparse": [["map", {"fn": "sparse"}], ["batch", batch]],
    }[given["leaf"]]
    dataset = drivers.dataset_of({**given, "dataset": {"src": "range", "n": given["rows"], "ops": ops}})
    strategy = drivers.strategy_of(given)
    strategy.enable_partial_batch_handling = given["enable_partial_batch_handling"]
    distributed = strategy.distribute_dataset(dataset)
    compare.expect_equal("enabled", distributed.partial_batch_handling, out["enabled"])
    run = drivers.Run(strategy, drivers.take_get_next, None).over(distributed)
    compare.expect_equal("steps of get_next", len(run.steps), out["get_next_steps"])
    compare.expect_equal("end of get_next", type(run.end).__name__, out["get_next_end"])
    run = drivers.Run(strategy, drivers.take_optional, None).over(distributed)
    compare.expect_equal("steps of get_next_as_optional", len(run.steps), out["optional_steps"])


def test_the_partial_batch_flag():
    check_all([case for case in runnable("iterator_protocol") if "leaf" in case["in"]], check_flag)


def check_cardinality(case: dict) -> None:
    wanted = differences.wanted(case)["cardinality"]
    compare.expect_equal("cardinality", drivers.distribute(case["in"]).cardinality(), wanted)


def test_cardinality():
    check_all([case for case in runnable("iterator_protocol") if "cardinality" in case["out"]], check_cardinality)


def check_loop(case: dict) -> None:
    """Graph loops are out of scope: their eager twins must agree on steps and sums."""
    given, out = case["in"], case["out"]
    strategy, distributed = drivers.strategy_of(given), drivers.distribute(given)

    def add(state, step):
        return state + sum(int(part.sum()) for part in strategy.local_results(step))

    wanted = out.get("sum", out.get("sum_in_graph_loop"))
    compare.expect_equal("sum by reduce", distributed.reduce(0, add), wanted)
    if "steps_in_eager_loop" in out:
        compare.expect_equal("steps", sum(1 for _ in distributed), out["steps_in_eager_loop"])


def test_loops_and_reduce():
    cases = [case for case in runnable("iterator_protocol") if {"sum", "sum_in_graph_loop"} & set(case["out"])]
    check_all(cases, check_loop)


TESTED_BELOW = {
    "independent_iterators", "restart", "break_then_loop_again", "iter_of_iterator_is_itself", "next_inside_run",
    "optional_inside_run", "other_strategy_scope", "len", "getitem", "bool", "distribute_twice", "host_loop_past_end",
    "error_in_pipeline_row0", "error_in_pipeline_row3", "graph_mode_iter", "graph_enumerate", "graph_break",
    "graph_return", "from_function_returns_none",
}  # fmt: skip


def test_no_case_is_left_out():
    groups = ("calls", "leaf"), ("cardinality", "sum", "sum_in_graph_loop")
    left = {
        case["id"].removeprefix("protocol/")
        for case in runnable("iterator_protocol")
        if not set(groups[0]) & set(case["in"]) and not set(groups[1]) & set(case["out"])
    }
    assert left == TESTED_BELOW


@pytest.fixture
def strategy():
    return tdi.MirroredStrategy(["cpu", "cpu"])


@pytest.fixture
def distributed(strategy):
    return strategy.distribute_dataset(tdi.Dataset.range(6).batch(2))


def test_iterators_are_independent(strategy, distributed):
    iterators = {"a": iter(distributed), "b": iter(distributed)}
    out = protocol("independent_iterators")["out"]
    counts = {"a": 0, "b": 0}
    for name in "aabab":
        parts = drivers.parts_of(strategy, next(iterators[name]))
        assert parts == out[f"{name}{counts[name]}"]
        counts[name] += 1


def test_each_iter_starts_again(strategy, distributed):
    out = protocol("restart")["out"]
    for epoch in ("epoch1", "epoch2"):
        assert [drivers.parts_of(strategy, step) for step in distributed] == out[epoch]


def test_a_loop_after_a_break_starts_again(strategy, distributed):
    firsts = []
    for _ in range(2):
        for step in distributed:
            firsts.append(drivers.parts_of(strategy, step))
            break
    assert firsts == protocol("break_then_loop_again")["out"]["first_of_two_loops"]


def test_iter_of_an_iterator_is_itself(distributed):
    iterator = iter(distributed)
    assert iter(iterator) is iterator


@pytest.mark.parametrize("call", ["__next__", "get_next", "get_next_as_optional"])
def test_next_inside_run_is_an_error(strategy, distributed, call):
    iterator = iter(distributed)
    with pytest.raises(ValueError, match="should be called from outside of"):
        strategy.run(lambda: getattr(iterator, call)())


def test_next_in_another_strategys_scope_is_an_error(distributed):
    iterator = iter(distributed)
    with tdi.MirroredStrategy(["cpu"]).scope(), pytest.raises(RuntimeError, match="Mixing different strategies"):
        next(iterator)


def test_next_in_the_own_scope_works(strategy, distributed):
    with strategy.scope():
        assert drivers.parts_of(strategy, next(iter(distributed))) == [[0], [1]]


def test_len_is_the_number_of_steps(distributed):
    assert len(distributed) == 3


def test_len_of_endless_data_is_a_type_error(strategy):
    with pytest.raises(TypeError, match="infinite"):
        len(strategy.distribute_dataset(tdi.Dataset.range(6).repeat().batch(2)))


def test_it_has_no_items(distributed):
    with pytest.raises(TypeError, match="not subscriptable"):
        distributed[0]


def test_it_is_true_even_when_empty(strategy):
    assert bool(strategy.distribute_dataset(tdi.Dataset.range(0).batch(2)))


def test_distributing_twice_is_a_type_error(strategy, distributed):
    with pytest.raises(TypeError, match="must be a torch_distinput.Dataset, but is a DistributedDataset"):
        strategy.distribute_dataset(distributed)


def test_a_loop_past_the_end(strategy):
    case = protocol("host_loop_past_end")
    iterator = iter(drivers.distribute(case["in"]))
    total = 0
    with pytest.raises(tdi.OutOfRangeError):
        for _ in range(case["in"]["loop"]):
            total += sum(int(part.sum()) for part in strategy.local_results(iterator.get_next()))
    assert total == case["out"]["sum_accumulated"]


@pytest.mark.parametrize("name", ["error_in_pipeline_row0", "error_in_pipeline_row3"])
def test_an_error_repeats_and_the_good_rows_around_it_can_be_read(strategy, name):
    given = protocol(name)["in"]

    def check(x):
        if int(x) == given["fails_at_row"]:
            raise ArithmeticError(f"row {int(x)} is bad")
        return x

    dataset = tdi.Dataset.range(given["rows"]).map(check, element_spec=tdi.TensorSpec([], torch.int64))
    iterator = iter(strategy.distribute_dataset(dataset.batch(given["B"])))
    before = given["fails_at_row"] // given["B"]
    for _ in range(before):
        next(iterator)
    for _ in range(2):
        with pytest.raises(ArithmeticError, match=f"row {given['fails_at_row']} is bad"):
            next(iterator)
    skipping = strategy.distribute_dataset(dataset.with_options(tdi.Options(on_error="skip")).batch(given["B"]))
    iterator = iter(skipping)
    rows = [int(row) for step in iterator for part in strategy.local_results(step) for row in part]
    assert rows == [row for row in range(given["rows"]) if row != given["fails_at_row"]]
    assert iterator.stats()["skipped"] == 1


@pytest.mark.parametrize("returned", [None, [1, 2], torch.ones(2), lambda: tdi.Dataset.range(2)])
def test_a_function_that_returns_no_dataset_is_a_type_error(strategy, returned):
    with pytest.raises(TypeError, match="`dataset_fn` must return a torch_distinput.Dataset, but returned a"):
        strategy.distribute_datasets_from_function(lambda context: returned)


def test_what_graph_mode_refuses_works_here(distributed):
    assert [index for index, _ in enumerate(distributed)] == [0, 1, 2]

    def first():
        for step in distributed:
            return step

    assert first() is not None
