# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`distribute_values_from_function`, InputContext and ValueContext against the recordings."""

import pytest
import torch
from goldens import cases_of, check_all, compare, drivers

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
