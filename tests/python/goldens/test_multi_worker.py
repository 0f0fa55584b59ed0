# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Real processes against the recordings of MultiWorkerMirroredStrategy.

One group of processes runs all the cases of its size one after the other; their results are combined here. Batches with
num_parallel_calls (limit L17) must be assigned like those without, of which none was recorded."""

import pytest
from goldens import check_all, compare, differences, runnable
from goldens.rank_drivers import play
from ranks import returned, run_ranks


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
