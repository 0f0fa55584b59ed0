# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The calls of TensorFlow 1 against the recordings. There is no graph mode: its cases run as their eager twins."""

import functools
import itertools

import pytest
from goldens import cases_of, check_all, compare, drivers, recipes

import torch_distinput as tdi
from torch_distinput.compat import v1

# Recorded in graph mode with sessions, which is out of scope. Their eager twins are run below. Not run: that an
# iterator fails before it is initialized; here it may be used at once.
GRAPH = {case["id"] for case in cases_of("v1_strategy") if case["in"].get("mode") == "graph+session"}
ONLY_GRAPH = {"v1/dataset_v1_one_shot_graph", "v1/dataset_v1_initializable_graph"}


def case_of(name: str) -> dict:
    return next(case for case in cases_of("v1_strategy") if case["id"] == f"v1/{name}")


def strategy_of(given: dict) -> v1.Strategy:
    return v1.Strategy(drivers.strategy_of(given))


def take(strategy: v1.Strategy, get, limit: int) -> tuple[list, Exception | None]:
    """At most `limit` steps, and the error that ended them."""
    steps = []
    for _ in range(limit):
        try:
            steps.append(drivers.parts_of(strategy, get()))
        except tdi.OutOfRangeError as error:
            return steps, error
    return steps, None


def check_steps(strategy: v1.Strategy, iterator: v1.InputIterator, get, out: dict) -> None:
    """The steps, the end, and that `initialize` starts again."""
    steps, end = take(strategy, get, 100)
    compare.expect_equal("steps", steps, out["steps"])
    compare.expect_equal("end", type(end).__name__, out["end"]["error"])
    assert iterator.initialize() is None
    if "after_initialize" in out:
        steps, _ = take(strategy, get, len(out["after_initialize"]))
        compare.expect_equal("after initialize", steps, out["after_initialize"])
    if "first_after_initialize" in out:
        steps, end = take(strategy, get, 1)
        got = {"error": type(end).__name__} if end else steps[0]
        wanted = out["first_after_initialize"]
        wanted = {"error": wanted["error"]} if isinstance(wanted, dict) else wanted
        compare.expect_equal("after initialize", got, wanted)


def check_dataset(case: dict) -> None:
    strategy = strategy_of(case["in"])
    iterator = strategy.make_dataset_iterator(recipes.build(case["in"]["dataset"]))
    check_steps(strategy, iterator, iterator.get_next, case["out"])


def test_make_dataset_iterator():
    cases = [case for case in cases_of("v1_strategy") if case["in"].get("call") == "make_dataset_iterator"]
    assert GRAPH & {case["id"] for case in cases}
    check_all([*cases, case_of("Q3_two_epochs_batch6")], check_dataset)


def check_input_fn(case: dict) -> None:
    given, out = case["in"], case["out"]
    strategy = strategy_of(given)
    contexts = []

    def input_fn(context):
        contexts.append([context.num_input_pipelines, context.input_pipeline_id, context.num_replicas_in_sync])
        return recipes.build(given["dataset_fn"])

    iterator = strategy.make_input_fn_iterator(input_fn)
    check_steps(strategy, iterator, iterator.get_next, out)
    compare.expect_equal("contexts", contexts, out["contexts"])


def test_make_input_fn_iterator():
    check_all(
        [case for case in cases_of("v1_strategy") if case["in"].get("call") == "make_input_fn_iterator"], check_input_fn
    )


def check_run(case: dict) -> None:
    strategy = strategy_of(case["in"])
    iterator = strategy.make_dataset_iterator(recipes.build(case["in"]["dataset"]))
    if case["in"]["call"] == "experimental_run":
        get = functools.partial(strategy.experimental_run, lambda x: x, iterator)
        check_steps(strategy, iterator, get, case["out"])
    else:
        # Recorded as missing; here it exists and does the same.
        get = lambda: strategy.experimental_run_v2(lambda x: x, args=(iterator.get_next(),))  # noqa: E731
        check_steps(strategy, iterator, get, case_of("graph_experimental_run")["out"])


def test_runs_of_graph_mode():
    check_all([case_of("graph_experimental_run"), case_of("graph_experimental_run_v2")], check_run)


def test_experimental_run():
    case = case_of("eager_experimental_run")
    strategy = strategy_of(case["in"])
    iterator = strategy.make_dataset_iterator(recipes.build(case["in"]["dataset"]))
    got = strategy.experimental_run(lambda x: 10 * x, iterator)
    assert drivers.parts_of(strategy, got) == case["out"]["experimental_run"]
    got = strategy.run(lambda x: 10 * x, args=(iterator.get_next(),))
    assert drivers.parts_of(strategy, got) == case["out"]["run"]


def test_experimental_run_without_an_iterator():
    case = case_of("eager_experimental_run_no_iterator")
    strategy = strategy_of(case["in"])
    assert drivers.parts_of(strategy, strategy.experimental_run(lambda: 5)) == case["out"]["v"]


def test_values_of_a_callable():
    case = case_of("input_fn_callable_eager")
    strategy = strategy_of(case["in"])
    contexts = []

    def input_fn(context):
        contexts.append([context.num_input_pipelines, context.input_pipeline_id, context.num_replicas_in_sync])
        return functools.partial(next, itertools.count(1))

    iterator = strategy.make_input_fn_iterator(input_fn)
    steps, end = take(strategy, iterator.get_next, case["in"]["max_steps"])
    assert (steps, end, contexts) == (case["out"]["steps"], None, case["out"]["contexts"])
    iterator.initialize()
    assert drivers.parts_of(strategy, iterator.get_next()) == case["out"]["first_after_initialize"]


def test_replication_per_replica_is_a_value_error():
    case = case_of("input_fn_per_replica_mode")
    mode = v1.InputReplicationMode[case["in"]["replication_mode"]]
    strategy = strategy_of({"R": 2})
    compare.expect_error(case["out"], lambda: strategy.make_input_fn_iterator(lambda context: None, mode))


def test_the_calls_that_earlier_versions_had_exist():
    strategy = strategy_of({"R": 2})
    for name in ("experimental_run", "experimental_run_v2", "make_dataset_iterator", "make_input_fn_iterator"):
        assert callable(getattr(strategy, name))


def test_the_default_strategy_works_unchanged():
    strategy = v1.Strategy(tdi.get_strategy())
    iterator = strategy.make_dataset_iterator(tdi.Dataset.range(4).batch(2))
    assert strategy.experimental_run(lambda x: 10 * x, iterator).tolist() == [0, 10]
    assert strategy.experimental_run_v2(lambda x: x, (iterator.get_next(),)).tolist() == [2, 3]
    with pytest.raises(tdi.OutOfRangeError):
        iterator.get_next()


@pytest.mark.parametrize("name", ["dataset_v1_one_shot_eager", *sorted(id_.removeprefix("v1/") for id_ in ONLY_GRAPH)])
def test_distributed_datasets_have_no_makers_of_iterators(name):
    case = case_of(name)
    missing = case["out"]["message"].split("'")[-2]
    distributed = strategy_of(case["in"]).distribute_dataset(recipes.build(case["in"]["dataset"]))
    with pytest.raises(AttributeError):
        getattr(distributed, missing)


def test_no_case_is_left_out():
    own = {
        "Q3_two_epochs_batch6", "graph_experimental_run", "graph_experimental_run_v2", "eager_experimental_run",
        "eager_experimental_run_no_iterator", "input_fn_callable_eager", "input_fn_per_replica_mode",
        "has_experimental_run_v2", "Q6_default_strategy", "dataset_v1_one_shot_eager",
    }  # fmt: skip
    own = {f"v1/{name}" for name in own} | ONLY_GRAPH
    by_call = {
        case["id"]
        for case in cases_of("v1_strategy")
        if case["in"].get("call") in ("make_dataset_iterator", "make_input_fn_iterator")
    }
    assert own | by_call == {case["id"] for case in cases_of("v1_strategy")}
