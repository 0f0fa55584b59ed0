# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Conformance with recorded TensorFlow behaviour; the recordings are in tests/goldens."""

import functools
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from places import GOLDENS


class Mismatch(AssertionError):
    """The outcome of a case differs from the wanted one."""


@functools.cache
def cases_of(topic: str) -> list[dict]:
    """All cases of a topic, in file order."""
    return json.loads((GOLDENS / f"{topic}.json").read_text())["cases"]


@functools.cache
def pending() -> dict[str, str]:
    """Case id -> what is missing, for the cases that need something that is not built yet."""
    listed = json.loads((Path(__file__).parent / "pending.json").read_text())
    return {case_id: missing for missing, ids in listed.items() for case_id in ids}


def runnable(topic: str) -> list[dict]:
    """The cases of a topic that are not listed as pending."""
    return [case for case in cases_of(topic) if case["id"] not in pending()]


def check_all(cases: Iterable[dict], check: Callable[[dict], None]) -> None:
    """Runs `check` on every case, then fails with the ids and reasons of those that failed."""
    failures = []
    count = 0
    for count, case in enumerate(cases, start=1):
        try:
            check(case)
        except Exception as error:  # noqa: BLE001 - one broken case must not hide the others
            failures.append(f"{case['id']}: {type(error).__name__}: {error}")
    assert count > 0, "no case was run"
    shown = "\n".join(failures[:30])
    assert not failures, f"{len(failures)} of {count} cases failed:\n{shown}"
