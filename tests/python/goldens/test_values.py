# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`distribute_values_from_function`, its contexts, `reduce` and `run` against the recordings."""

import pytest
import torch
from goldens import cases_of, check_all, compare, differences, drivers, runnable

import torch_distinput as tdi

VALUES = {
    "replica_id": lambda context: torch.tensor(context.replica_id_in_sync_group),
    "python_int": lambda context: context.replica_id_in_sync_group,
    "constant_1": lambda context: torch.tensor(1.0),
    "num_replicas": lambda context: context.num_replicas_in_sync,
    "tuple": lambda context: tuple(factor * context.replica_id_in_sync_group for factor in (1, 2, 3)),
    "dict": lambda context: {
        "a": torch.tensor([context.replica_id_in_sync_group] * (context.replica_id_in_sync_group + 1))
    },
    "different_shapes": lambda context: torch.arange(context.replica_id_in_sync_group),
    "sparse": lambda context: torch.sparse_coo_tensor([[0, 1], [0, 2]], [1, 2], (3, 4)),
    "string": lambda context: f"r{context.replica_id_in_sync_group}",
    "list": lambda context: [1, context.replica_id_in_sync_group],
}


def render(value):
    if isinstance(value, torch.Tensor) and value.is_sparse:
        value = value.coalesce()
        parts = {"indices": value.indices().T, "values": value.values(), "dense_shape": torch.tensor(value.shape)}
        return {"sparse": {name: part.tolist() for name, part in parts.items()}}
    # The recorder wrote the lists of a structure as tuples.
    return compare.render(tuple(value) if isinstance(value, list) else value)


def leaf_of(value):
    while isinstance(value, (tuple, list, dict)):
        value = value["a"] if isinstance(value, dict) else value[0]
    return value


def check_values(case: dict) -> None:
    given, out = case["in"], case["out"]
    strategy = drivers.strategy_of(given)
    calls = []

    def value_fn(context):
        calls.append([context.replica_id_in_sync_group, context.num_replicas_in_sync])
        return VALUES[given["value_fn"]](context)

    value = strategy.experimental_distribute_values_from_function(value_fn)
    got = [render(part) for part in strategy.experimental_local_results(value)]
    compare.expect_equal("calls", calls, out["calls"])
    compare.expect_equal("values", got, out["values"])
    compare.expect_equal("wrapped", isinstance(leaf_of(value), tdi.PerReplica), out["wrapped"])


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_values_from_function():
    check_all([case for case in cases_of("values_and_contexts") if "value_fn" in case["in"]], check_values)


def check_input_context(case: dict) -> None:
    given, out = dict(case["in"]), case["out"]
    batch = given.pop("global_batch_size")
    context = tdi.InputContext(**given)
    compare.expect_equal("str", str(context), out["str"])
    if "error" in out:
        compare.expect_error(out, lambda: context.get_per_replica_batch_size(batch))
        try:
            context.get_per_replica_batch_size(batch)
        except ValueError as error:
            compare.expect_equal("text", str(error), out["message"])
    else:
        compare.expect_equal("per replica", context.get_per_replica_batch_size(batch), out["per_replica"])


def test_input_context():
    check_all([case for case in cases_of("values_and_contexts") if "input_context/" in case["id"]], check_input_context)


def context_case(case_id: str) -> dict:
    return next(case for case in cases_of("values_and_contexts") if case["id"] == case_id)


def test_value_context():
    case = context_case("value_context/str")
    context = tdi.ValueContext(**case["in"])
    got = {"str": str(context), "id": context.replica_id_in_sync_group, "num": context.num_replicas_in_sync}
    assert got == case["out"]


def test_contexts_without_arguments():
    out = context_case("context/defaults")["out"]
    context, value = tdi.InputContext(), tdi.ValueContext()
    fields = [context.num_input_pipelines, context.input_pipeline_id, context.num_replicas_in_sync]
    assert fields == out["InputContext"]
    assert [value.replica_id_in_sync_group, value.num_replicas_in_sync] == out["ValueContext"]
    assert str(context) == out["str_input"]
    assert str(value) == out["str_value"]


def test_no_case_is_left_out():
    ids = {case["id"].partition("/")[0] for case in cases_of("values_and_contexts")}
    assert ids == {"values", "input_context", "value_context", "context"}


def value_of(case_in: dict, values: list) -> torch.Tensor:
    dtype = getattr(torch, case_in.get("dtype", "float32" if isinstance(values, float) else "int64"))
    if isinstance(values, dict):
        return torch.empty(values["shape"], dtype=dtype)
    return torch.tensor(differences.numbers_of(values), dtype=dtype)


def axis_of(axis):
    return tuple(axis) if isinstance(axis, list) else axis


def check_reduce(case: dict) -> None:
    given, out = case["in"], differences.wanted(case)
    if "values" in given:
        strategy = tdi.MirroredStrategy(["cpu"] * len(given["values"]))
        value = tdi.PerReplica([value_of(given, values) for values in given["values"]])
    else:
        strategy = drivers.strategy_of(given)
        value = given["plain_value"]
        value = value if isinstance(value, int) else torch.tensor(value)

    def call():
        return strategy.reduce(given["op"], value, axis=axis_of(given["axis"]))

    if "error" in out:
        compare.expect_error(out, call)
        return
    got = call()
    compare.expect_equal("value", compare.render(got), out["value"])
    if "dtype" in out:
        compare.expect_equal("dtype", str(got.dtype), f"torch.{out['dtype']}")
        compare.expect_equal("shape", list(got.shape), out["shape"])


def test_reduce_gives_the_recorded_values_and_errors():
    cases = [case for case in runnable("reduce_gather_run") if case["in"].get("call") == "reduce"]
    check_all(cases, check_reduce)


def check_gather(case: dict) -> None:
    given, out = case["in"], differences.wanted(case)
    strategy = tdi.MirroredStrategy(["cpu"] * len(given["values"]))
    value = tdi.PerReplica([value_of(given, values) for values in given["values"]])
    if "error" in out:
        compare.expect_error(out, lambda: strategy.gather(value, given["axis"]))
        return
    got = strategy.gather(value, given["axis"])
    compare.expect_equal("value", compare.render(got), out["value"])
    compare.expect_equal("dtype", str(got.dtype), f"torch.{out['dtype']}")
    compare.expect_equal("shape", list(got.shape), out["shape"])


def test_gather_gives_the_recorded_values_and_errors():
    cases = [case for case in runnable("reduce_gather_run") if case["in"].get("call") == "gather"]
    assert len(cases) > 60
    check_all(cases, check_gather)


def both(call):
    """`call` of the replica's context, on every replica."""
    return lambda x: call(tdi.get_replica_context(), x)


FUNCTIONS = {
    "all_reduce SUM": both(lambda context, x: context.all_reduce("SUM", x)),
    "all_reduce MEAN": both(lambda context, x: context.all_reduce(tdi.ReduceOp.MEAN, x)),
    "all_gather axis 0": both(lambda context, x: context.all_gather(x, axis=0)),
    "replica_id + 1": lambda: tdi.get_replica_context().replica_id_in_sync_group + 1,
    "{a:2x,b:x*x}": lambda x: {"a": 2 * x, "b": x * x},
    "x + replica_id": lambda x: x + tdi.get_replica_context().replica_id_in_sync_group,
    "7": lambda: 7,
    "None": lambda: None,
    "reduce_mean": torch.mean,
}


@pytest.fixture
def strategy():
    return tdi.MirroredStrategy(["cpu", "cpu"])


def check_run(case: dict) -> None:
    given, out = case["in"], case["out"]
    strategy = tdi.MirroredStrategy(["cpu"] * given["R"])
    arguments = [tdi.PerReplica(arg) if isinstance(arg, list) else arg for arg in given.get("args", [])]
    if "values" in given:
        dtype = {"dtype": "int64" if given["fn"] == "all_gather axis 0" else "float32"}
        arguments = [tdi.PerReplica([value_of(dtype, values) for values in given["values"]])]
    results = strategy.experimental_local_results(strategy.run(FUNCTIONS[given["fn"]], args=arguments))
    if given["fn"] == "None":  # the recorder noted whether each result was None
        results = tuple(result is None for result in results)
    compare.expect_equal("values", [compare.render(result) for result in results], out["values"])


def test_run_gives_the_recorded_values():
    cases = [case for case in runnable("reduce_gather_run") if case["in"].get("fn") in FUNCTIONS]
    assert len(cases) == len(FUNCTIONS)
    check_all(cases, check_run)


def test_the_cases_with_a_test_of_their_own_are_all_there():
    own = {"run/per_replica_as_tensor", "run/repr", "run/local_results_plain", "run/local_results_nested"}
    own |= {"run/num_replicas", "run/gather_in_replica_ctx"}
    others = [case["id"] for case in runnable("reduce_gather_run") if "call" not in case["in"]]
    assert {case_id for case_id in others if case_id in own} == own
    assert len(others) == len(own) + len(FUNCTIONS)


def test_gather_inside_run_is_a_runtime_error(strategy):
    with pytest.raises(RuntimeError, match="all_gather"):
        strategy.run(lambda: strategy.gather(torch.ones(1), 0))


def test_an_operator_on_a_per_replica_outside_run_is_a_type_error():
    with pytest.raises(TypeError, match=r"unsupported operand type.*'PerReplica' and 'int'.*strategy.run"):
        tdi.PerReplica([1, 2]) + 1


def test_repr_is_the_original_one():
    assert repr(tdi.PerReplica(["a", "b"])) == "PerReplica:{\n  0: 'a',\n  1: 'b'\n}"


def test_local_results_of_a_plain_value_is_that_value(strategy):
    assert strategy.experimental_local_results(5) == (5,)


def test_local_results_of_a_structure_has_one_structure_a_replica(strategy):
    value = (tdi.PerReplica([1, 2]), {"k": tdi.PerReplica([3, 4])})
    assert strategy.experimental_local_results(value) == ((1, {"k": 3}), (2, {"k": 4}))


def test_num_replicas_in_sync(strategy):
    assert strategy.num_replicas_in_sync == 2
