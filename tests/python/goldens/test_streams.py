# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Workers' streams of parts, steps of one process, and `distribute_datasets_from_function`, against the recordings."""

import pytest
from goldens import check_all, compare, differences, drivers, recipes, runnable

import torch_distinput as tdi


def check_worker_streams(case: dict) -> None:
    given, out = case["in"], differences.wanted(case)
    dataset = recipes.build(given["dataset"])
    policy = tdi.AutoShardPolicy[given["policy"]]
    streams = [
        tdi.testing.worker_stream(dataset, given["W"], given["R"], worker, policy) for worker in range(given["W"])
    ]
    got = differences.trim_streams([list(map(compare.render, stream)) for stream in streams], given["R"])
    for worker, (stream, recorded) in enumerate(zip(got, out["per_worker"])):
        compare.expect_equal(f"stream of worker {worker}", stream, recorded["stream"])
    compare.expect_equal("static dim 0", streams[0].element_spec.shape[0], out["spec_dim0"])


@pytest.mark.parametrize("chunk", range(4))
def test_worker_streams(chunk):
    check_all(runnable("worker_streams")[chunk::4], check_worker_streams)


@pytest.mark.parametrize("chunk", range(2))
def test_mirrored_split(chunk):
    check_all(runnable("mirrored_split")[chunk::2], drivers.check_case)


def test_mirrored_named():
    check_all(runnable("mirrored_named"), drivers.check_case)


def check_spec(case: dict) -> None:
    distributed = drivers.distribute(case["in"])
    compare.expect_equal("element_spec", compare.render_spec(distributed.element_spec), case["out"]["element_spec"])
    assert iter(distributed).element_spec == distributed.element_spec


def test_element_spec():
    check_all(runnable("element_spec"), check_spec)


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
