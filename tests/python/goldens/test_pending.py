# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""pending.json and the list of differences stay true: no case is left out silently."""

import json

import pytest
from goldens import cases_of, check_all, differences, pending, recipes
from places import GOLDENS

TOPICS = sorted(path.stem for path in GOLDENS.glob("*.json") if path.stem != "deliberate_differences")


def all_cases() -> dict[str, dict]:
    return {case["id"]: case for topic in TOPICS for case in cases_of(topic)}


def test_every_golden_file_is_whole():
    for topic in TOPICS:
        assert len(cases_of(topic)) == json.loads((GOLDENS / f"{topic}.json").read_text())["count"]


def test_pending_names_only_cases_that_exist():
    assert set(pending()) <= set(all_cases())


def attempt(case: dict) -> None:
    """Makes the first part of a case; raises Missing while the library lacks what it needs."""
    recipes.build(case["in"]["dataset"])


def check_still_missing(case: dict) -> None:
    """The case must fail to build for the reason that pending.json gives."""
    with pytest.raises(recipes.Missing) as missing:
        attempt(case)
    assert str(missing.value) == pending()[case["id"]]


def test_a_pending_case_cannot_run_yet():
    cases = [case for case_id, case in all_cases().items() if case_id in pending()]
    if cases:
        check_all(cases, check_still_missing)


def test_every_deliberate_difference_is_applied_somewhere():
    known = set(differences.RULES) | set(differences.ELSEWHERE)
    assert {entry["ids"][0] for entry in differences.entries()} == known
