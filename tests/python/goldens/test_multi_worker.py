# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Real processes against the recordings of MultiWorkerMirroredStrategy.

One group of processes runs all the cases of its size one after the other; their results are combined here. Batches with
num_parallel_calls (limit L17) must be assigned like those without, of which none was recorded."""

import pytest
import torch
from ranks import returned, run_ranks

import torch_distinput as tdi
from goldens import check_all, compare, differences, drivers, recipes, runnable

CONTEXT = ("num_input_pipelines", "input_pipeline_id", "num_replicas_in_sync")


def play(rank: int, cases: list[dict]) -> list[dict]:
    """The outcome of each case on this rank; an exception as the name of its type."""
    return [_play_one(rank, case) for case in cases]


def _play_one(rank: int, case: dict) -> dict:
    given = case["in"]
    strategy = tdi.MultiWorkerMirroredStrategy(devices=["cpu"] * given["R"])
    calls = {
        "experimental_distribute_dataset": _play_dataset,
        "distribute_datasets_from_function": _play_from_function,
        "values": _play_values,
    }
    try:
        return calls.get(given["api"], _play_combine)(rank, strategy, given)
    except Exception as error:  # noqa: BLE001 - it may be what was recorded
        return {"error": type(error).__name__, "text": str(error)}


def _play_dataset(rank: int, strategy: tdi.Strategy, given: dict) -> dict:
    dataset = drivers.dataset_of(given)
    distributed = strategy.experimental_distribute_dataset(dataset)
    saw = _play_steps(strategy, distributed, given)
    saw["inferred_batch"] = tdi.testing.infer_batch_size(dataset)
    if given.get("reduce_sum"):
        saw["epoch_sum"] = sum(
            strategy.reduce("SUM", strategy.run(torch.sum, args=(step,))).item() for step in distributed
        )
    return saw


def _play_from_function(rank: int, strategy: tdi.Strategy, given: dict) -> dict:
    contexts = []

    def dataset_fn(context):
        contexts.append({name: getattr(context, name) for name in CONTEXT})
        recipe = given["dataset_per_worker"][rank] if "dataset_per_worker" in given else given["dataset"]
        dataset = recipes.build(recipe)
        if given.get("shard_in_fn"):
            dataset = dataset.shard(context.num_input_pipelines, context.input_pipeline_id)
        if "batch_in_fn" in given:
            dataset = dataset.batch(context.get_per_replica_batch_size(given["batch_in_fn"]))
        return dataset

    distributed = strategy.distribute_datasets_from_function(dataset_fn)
    return {**_play_steps(strategy, distributed, given), "contexts": contexts}


def _play_steps(strategy: tdi.Strategy, distributed: tdi.DistributedDataset, given: dict) -> dict:
    saw = {
        "partial_batch_handling": distributed.partial_batch_handling,
        "cardinality": distributed.cardinality,
        "element_spec": compare.render_spec(distributed.element_spec),
    }
    for name, call in (
        ("for", drivers.take_next),
        ("get_next", drivers.take_get_next),
        ("optional", drivers.take_optional),
    ):
        run = drivers.Run(strategy, call, given.get("max_steps")).over(distributed)
        saw[name] = {"steps": run.steps, "present": run.present, "end": _name(run.end)}
    return saw


def _play_combine(rank: int, strategy: tdi.Strategy, given: dict) -> dict:
    dtype = getattr(torch, given["dtype"])
    if given["api"] == "reduce_plain":
        mine = torch.tensor(given["per_worker"][rank], dtype=dtype)
    else:
        first = rank * given["R"]
        values = iter(_tensor(value, dtype) for value in given["values"][first : first + given["R"]])
        mine = strategy.distribute_values_from_function(lambda context: next(values))
    if given["api"] == "gather":
        result = strategy.gather(mine, axis=given["axis"])
    else:
        axis = tuple(given["axis"]) if isinstance(given["axis"], list) else given["axis"]
        result = strategy.reduce(given["op"], mine, axis=axis)
    saw = {"shape": list(result.shape), "dtype": str(result.dtype).removeprefix("torch.")}
    return {**saw, "value": compare.render(result)}


def _play_values(rank: int, strategy: tdi.Strategy, given: dict) -> dict:
    calls = []

    def value_fn(context):
        calls.append([context.replica_id_in_sync_group, context.num_replicas_in_sync])
        return context.replica_id_in_sync_group

    values = strategy.experimental_distribute_values_from_function(value_fn)
    return {"calls": calls, "values": list(strategy.experimental_local_results(values))}


def _tensor(value, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(value["shape"], dtype=dtype) if isinstance(value, dict) else torch.tensor(value, dtype=dtype)


def _name(end) -> str:
    return type(end).__name__ if isinstance(end, Exception) else end


def check(case: dict, saw: list[dict]) -> None:
    """Compares the outcomes of the ranks with the wanted one."""
    out = differences.wanted(case)
    failed = [one for one in saw if "error" in one]
    if "distribute_error" in out:
        assert len(failed) == len(saw), "not every rank refused"
        assert all(one["error"] == out["distribute_error"]["error"] for one in failed), failed
        return
    assert not failed, failed[0]["text"]
    if "value" in out:
        for one in saw:
            for key in ("value", "shape", "dtype"):
                if key in out:
                    compare.expect_equal(key, one[key], out[key])
        return
    if "values_per_worker" in out:
        compare.expect_equal("values", [one["values"] for one in saw], out["values_per_worker"])
        return
    _check_facts(saw, out)
    _check_steps(case, saw, out)


def _check_facts(saw: list[dict], out: dict) -> None:
    for key in ("partial_batch_handling", "cardinality", "element_spec", "inferred_batch", "epoch_sum"):
        if key in out:
            for one in saw:
                compare.expect_equal(key, one[key], out[key])
    if "contexts_per_worker" in out:
        compare.expect_equal("contexts", [one["contexts"] for one in saw], out["contexts_per_worker"])
    if "cardinality_per_worker" in out:
        compare.expect_equal("cardinality", [one["cardinality"] for one in saw], out["cardinality_per_worker"])


def _check_steps(case: dict, saw: list[dict], out: dict) -> None:
    present = out["present"]
    for name, steps_key, end_key in (
        ("for", "steps", "for_end"),
        ("get_next", "get_next_steps", "get_next_end"),
        ("optional", "optional_steps", "optional_end"),
    ):
        if out.get(end_key, "not recorded") == "not recorded":
            continue
        runs = [one[name] for one in saw]
        steps = [sum(parts, []) for parts in zip(*(run["steps"] for run in runs), strict=True)]
        compare.expect_equal(f"{name}: steps", steps, out.get(steps_key, out["steps"]))
        end = out[end_key]["error"] if isinstance(out[end_key], dict) else out[end_key]
        compare.expect_equal(f"{name}: ends", [run["end"] for run in runs], [end] * len(runs))
        if name == "for" and isinstance(present, list):
            got = [sum(parts, []) for parts in zip(*(run["present"] for run in runs), strict=True)]
            compare.expect_equal("present", got, present[: len(got)])


@pytest.mark.parametrize("world", [2, 3])
def test_processes_agree_with_the_recordings(world, tmp_path):
    there = [case for case in runnable("multi_worker") if case["in"]["W"] == world]
    cases = [case for case in there if "parallel" not in case["id"]]
    parallel = [case["in"] for case in there if "parallel" in case["id"]]
    twins = [{"in": given} for inputs in parallel for given in (inputs, differences.without_parallel(inputs))]
    saw = returned(run_ranks(play, world, cases + twins, limit=240, SAMPLE_FILES=str(tmp_path)))
    by_case = {case["id"]: [rank[index] for rank in saw] for index, case in enumerate(cases)}
    check_all(cases, lambda case: check(case, by_case[case["id"]]))
    assert len(parallel) == (2 if world == 2 else 0)
    for rank in saw:
        for one, other in zip(rank[len(cases) :: 2], rank[len(cases) + 1 :: 2], strict=True):
            assert one == other
            assert one["for"]["steps"] and one["for"]["end"] == "StopIteration"
