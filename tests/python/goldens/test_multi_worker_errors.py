# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Real processes in situations in which the original hangs, dies or fails silently.

Here each ends with the wanted error on every rank, or with the wanted rows."""

import fnmatch

from goldens import cases_of, check_all
from goldens.rank_drivers import play
from ranks import returned, run_ranks


def refused(*says):
    """Every rank raises before its first step an error of this type with these words."""

    def check(case, saw):
        errors = [one.get("error") for one in saw]
        assert errors == [says[0]] * len(saw), saw
        for part in says[1:]:
            assert all(part in one["text"] for one in saw), saw

    return check


def ends_in(error, steps):
    """Every driver of every rank ends in `error` after `steps` steps."""

    def check(case, saw):
        for one in saw:
            assert "error" not in one, one
            for driver in ("for", "get_next", "optional"):
                assert (one[driver]["end"], len(one[driver]["steps"])) == (error, steps), (driver, one)

    return check


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


def check(case, saw):
    (wanted,) = (check for pattern, check in WANTED.items() if fnmatch.fnmatch(case["id"], pattern))
    wanted(case, saw)


def test_situations_that_hang_the_original_end_as_wanted(tmp_path):
    cases = cases_of("multi_worker_errors")
    saw = returned(run_ranks(play, 2, cases, limit=120, SAMPLE_FILES=str(tmp_path)))
    by_case = {case["id"]: [rank[index] for rank in saw] for index, case in enumerate(cases)}
    check_all(cases, lambda case: check(case, by_case[case["id"]]))
