# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`distribute_datasets_from_function` against the recordings."""

from goldens import check_all, compare, differences, drivers, recipes, runnable

import torch_distinput as tdi


def options_of(given: dict) -> tdi.InputOptions | None:
    if "options" not in given:
        return None
    names = {
        "mode": "experimental_replication_mode",
        "place": "experimental_place_dataset_on_device",
        "fetch": "experimental_fetch_to_device",
        "buffer": "experimental_per_replica_buffer_size",
    }
    return tdi.InputOptions(**{names[name]: value for name, value in given["options"].items()})


def check(case: dict) -> None:
    given, out = case["in"], differences.wanted(case)
    strategy = drivers.strategy_of(given)
    datasets = iter(map(recipes.build, given.get("dataset_per_call", [given.get("dataset")])))
    contexts = []

    def dataset_fn(context):
        contexts.append({name: getattr(context, name) for name in CONTEXT})
        return next(datasets)

    def distribute():
        if given["api"] == "experimental_distribute_dataset":
            return strategy.experimental_distribute_dataset(tdi.Dataset.range(8).batch(4), options_of(given))
        return strategy.distribute_datasets_from_function(dataset_fn, options_of(given))

    if "distribute_error" in out:
        compare.expect_error(out["distribute_error"], distribute)
    else:
        distributed = distribute()
        drivers.check_facts(distributed, out)
        drivers.check_steps(strategy, distributed, out, given.get("max_steps"))
    if "contexts" in out:
        compare.expect_equal("contexts", contexts, out["contexts"])


CONTEXT = ("num_input_pipelines", "input_pipeline_id", "num_replicas_in_sync")


def test_from_function():
    check_all([case for case in runnable("from_function") if case["id"].startswith("from_function/")], check)


def test_no_case_is_left_out():
    assert all(case["id"].startswith("from_function/") for case in runnable("from_function"))
