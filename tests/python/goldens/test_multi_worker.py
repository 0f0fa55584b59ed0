# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Real processes against the recordings of MultiWorkerMirroredStrategy, and where that hangs, dies or fails silently.

One group of processes runs all the cases of its size one after the other; their results are combined here. Batches with
num_parallel_calls (limit L17) must be assigned like those without, of which none was recorded. Where the original
fails, each case ends with the wanted error on every rank, or with the wanted rows."""

import fnmatch

import pytest
from goldens import cases_of, check_all, compare, differences, runnable
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


def refused(*says):
    """Every rank raises before its first step an error of this type with these words."""

    def check_end(case, saw):
        errors = [one.get("error") for one in saw]
        assert errors == [says[0]] * len(saw), saw
        for part in says[1:]:
            assert all(part in one["text"] for one in saw), saw

    return check_end


def ends_in(error, steps):
    """Every driver of every rank ends in `error` after `steps` steps."""

    def check_end(case, saw):
        for one in saw:
            assert "error" not in one, one
            for driver in ("for", "get_next", "optional"):
                assert (one[driver]["end"], len(one[driver]["steps"])) == (error, steps), (driver, one)

    return check_end


def every_row_once(case, saw):
    for driver in ("for", "get_next", "optional"):
        assert len({len(one[driver]["steps"]) for one in saw}) == 1, saw
        parts = [part for one in saw for step in one[driver]["steps"] for part in step if isinstance(part, list)]
        assert sorted(sum(parts, [])) == sorted(sum(case["in"]["dataset"]["files"], [])), saw


def as_recorded_without_empty_end(case, saw):
    for one, recorded in zip(saw, case["out"]["per_worker"], strict=True):
        steps = recorded["for"]["steps"] if "for" in recorded else recorded["steps"]
        assert one["for"]["steps"] == steps[: len(one["for"]["steps"])], one
    rest = [
        part
        for recorded in case["out"]["per_worker"]
        for step in (recorded["for"]["steps"] if "for" in recorded else recorded["steps"])[
            len(saw[0]["for"]["steps"]) :
        ]
        for part in step
    ]
    assert all(isinstance(part, dict) and part["shape"][0] == 0 for part in rest), rest


def empty_result(case, saw):
    assert all(one["shape"] == [0] for one in saw), saw


WANTED = {
    "mw_error*/one_file_*_AUTO_*": every_row_once,
    "mw_error*/one_file_*_FILE_*": refused("InvalidArgumentError", "1 file"),
    "mw_error/file_policy_on_range": refused("NotFoundError"),
    "mw_error*/infinite_on_*": ends_in("DistributedDatasetError", 0),
    "mw_error/generator_fails_*": ends_in("DistributedDatasetError", 2),
    "mw_error/different_structures": ends_in("DistributedDatasetError", 0),
    "mw_error/phantom_*": as_recorded_without_empty_end,
    "mw_error/gather_all_empty": empty_result,
    "mw_error/reduce_shapes_differ": refused("InvalidArgumentError", "[2]", "[1]"),
}


def check_end(case, saw):
    (wanted,) = (check_end for pattern, check_end in WANTED.items() if fnmatch.fnmatch(case["id"], pattern))
    wanted(case, saw)


def test_situations_that_hang_the_original_end_as_wanted(tmp_path):
    cases = cases_of("multi_worker_errors")
    saw = returned(run_ranks(play, 2, cases, limit=120, SAMPLE_FILES=str(tmp_path)))
    by_case = {case["id"]: [rank[index] for rank in saw] for index, case in enumerate(cases)}
    check_all(cases, lambda case: check_end(case, by_case[case["id"]]))
