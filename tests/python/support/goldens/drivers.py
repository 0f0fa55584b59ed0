# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Runs a distribution case the three ways a user can: `for`, `get_next`, `get_next_as_optional`."""

from collections.abc import Callable
from typing import Any

import torch_distinput as tdi
from goldens import compare, differences, recipes


def strategy_of(given: dict) -> tdi.Strategy:
    kind = given.get("strategy", "Mirrored")
    if kind == "Default":
        return tdi.get_strategy()
    if kind == "OneDevice":
        return tdi.OneDeviceStrategy("cpu")
    return tdi.MirroredStrategy(["cpu"] * given.get("R", 1))


def dataset_of(given: dict) -> tdi.Dataset:
    dataset = recipes.build(given["dataset"])
    policy = tdi.AutoShardPolicy[given.get("policy", "AUTO")]
    return dataset.with_options(tdi.Options(auto_shard_policy=policy))


def distribute(given: dict) -> tdi.DistributedDataset:
    return strategy_of(given).experimental_distribute_dataset(dataset_of(given))


def parts_of(strategy: tdi.Strategy, step: Any) -> list:
    """A step, rendered: one entry for each replica."""
    return [compare.render(part) for part in strategy.experimental_local_results(step)]


class Run:
    """What one driver saw: the steps, which parts hold data (1) or are dummies (0), and how it ended."""

    def __init__(self, strategy: tdi.Strategy, call: Callable[[Any], tuple[bool, Any]], limit: int | None):
        self.strategy = strategy
        self.call = call
        self.limit = limit
        self.steps: list = []
        self.present: list = []
        self.end: Any = None

    def over(self, dataset: tdi.DistributedDataset) -> "Run":
        iterator = iter(dataset)
        while self.end is None:
            if self.limit is not None and len(self.steps) == self.limit:
                self.end = "limit"
                break
            self._one(iterator)
        return self

    def _one(self, iterator: tdi.DistributedIterator) -> None:
        try:
            found, step = self.call(iterator)
        except StopIteration:
            self.end = "StopIteration"
        except Exception as error:  # noqa: BLE001 - the recording holds how a driver ends
            self.end = error
        else:
            if not found:
                self.end = "empty optional"
                return
            self.steps.append(parts_of(self.strategy, step))
            self.present.append([int(there) for there in iterator.step_info.has_value])


def take_next(iterator: tdi.DistributedIterator) -> tuple[bool, Any]:
    return True, next(iterator)


def take_get_next(iterator: tdi.DistributedIterator) -> tuple[bool, Any]:
    return True, iterator.get_next()


def take_optional(iterator: tdi.DistributedIterator) -> tuple[bool, Any]:
    step = iterator.get_next_as_optional()
    return step.has_value(), step.get_value() if step.has_value() else None


def check_end(what: str, got: Any, wanted: Any) -> None:
    if isinstance(wanted, dict):

        def call():
            if isinstance(got, Exception):
                raise got
            return got

        compare.expect_error(wanted, call)
    else:
        compare.expect_equal(what, str(got) if isinstance(got, Exception) else got, wanted)


def check_case(case: dict) -> None:
    """Everything that a distribution case records, in this order: building, facts, steps by each driver."""
    given, out = case["in"], differences.wanted(case)
    if "distribute_error" in out:
        compare.expect_error(out["distribute_error"], lambda: distribute(given))
        return
    strategy = strategy_of(given)
    dataset = dataset_of(given)
    distributed = strategy.experimental_distribute_dataset(dataset)
    if out.get("same_object"):
        assert distributed is dataset
        compare.expect_equal("steps", [[compare.render(element)] for element in dataset], out["steps"])
        return
    _check_facts(dataset, distributed, out)
    check_steps(strategy, distributed, out, given.get("max_steps"))
    if out.get("wrapped") is not None:
        leaf = next(iter(distributed))
        while isinstance(leaf, (tuple, dict)):
            leaf = leaf[0] if isinstance(leaf, tuple) else next(iter(leaf.values()))
        compare.expect_equal("wrapped", isinstance(leaf, tdi.PerReplica), out["wrapped"])


def _check_facts(dataset: tdi.Dataset, distributed: tdi.DistributedDataset, out: dict) -> None:
    if not isinstance(out["inferred_batch"], dict):
        compare.expect_equal("inferred batch", tdi.testing.infer_batch_size(dataset), out["inferred_batch"])
    check_facts(distributed, out)


def check_facts(distributed: tdi.DistributedDataset, out: dict) -> None:
    """The facts that a distributed dataset tells before it is read."""
    compare.expect_equal("partial", distributed.partial_batch_handling, out["partial_batch_handling"])
    compare.expect_equal("cardinality", distributed.cardinality(), out["cardinality"])
    compare.expect_equal("element_spec", compare.render_spec(distributed.element_spec), out["element_spec"])
    compare.expect_equal("iterator spec", compare.render_spec(iter(distributed).element_spec), out["element_spec"])


def check_steps(strategy: tdi.Strategy, distributed: tdi.DistributedDataset, out: dict, limit: int | None) -> None:
    run = Run(strategy, take_next, limit).over(distributed)
    compare.expect_equal("steps", run.steps, out["steps"])
    check_end("end of for", run.end, out["for_end"])
    present = out["present"]
    if present == "all":
        present = [[1] * len(row) for row in run.present]
    if isinstance(present, list):  # else an error that `for` ended with too
        compare.expect_equal("present", run.present, present[: len(run.present)])
    if limit is None and run.end == "StopIteration":
        compare.expect_equal("steps and len", _steps_of(distributed, len(run.steps)), len(run.steps))
    run = Run(strategy, take_get_next, limit).over(distributed)
    compare.expect_equal("steps of get_next", run.steps, out.get("get_next_steps", out["steps"]))
    check_end("end of get_next", run.end, out["get_next_end"])
    if "optional_end" in out:
        run = Run(strategy, take_optional, limit).over(distributed)
        compare.expect_equal("steps of get_next_as_optional", run.steps, out.get("optional_steps", out["steps"]))
        check_end("end of get_next_as_optional", run.end, out["optional_end"])


def _steps_of(distributed: tdi.DistributedDataset, unknown: int) -> int:
    try:
        return len(distributed)
    except TypeError:
        return unknown
