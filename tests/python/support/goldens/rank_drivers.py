# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What one rank of a group does for a recorded case, and what it saw."""

import torch

import torch_distinput as tdi
from goldens import compare, drivers, recipes

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
        "cardinality": distributed.cardinality(),
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
