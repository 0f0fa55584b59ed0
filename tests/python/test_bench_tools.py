# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The tools that draw and compare the results of benchmarks."""

import copy
import json
import runpy
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
RESULTS = BENCHMARKS / "results"
CHECK = runpy.run_path(str(BENCHMARKS / "python/check.py"))
OVERVIEW = runpy.run_path(str(BENCHMARKS / "python/overview.py"))


def slowed(results, factor, own_only):
    """`results` as of a machine, or of a library, that is slower by `factor`."""
    slow = copy.deepcopy(results)
    for work in slow.get("works", slow.get("cases")):
        for name, one in work["series"].items():
            if name.startswith("torch_distinput") or not own_only:
                one["samples_us"] = [sample * factor for sample in one["samples_us"]]
    return slow


@pytest.mark.parametrize("name", ["in_memory_rows", "drop_in"])
def test_a_slower_machine_passes_and_a_slower_library_fails(name):
    committed = json.loads((RESULTS / f"{name}.json").read_text())
    same, machine = (list(CHECK["check"](committed, slowed(committed, factor, False))) for factor in (1, 10))
    assert len(same) >= 5 and all(holds for holds, _ in same)
    assert same == machine
    assert not any(holds for holds, _ in CHECK["check"](committed, slowed(committed, 100, True)))
    missing = {"cases": []} if "cases" in committed else {"works": []}
    assert all("no such series" in line for _, line in CHECK["check"](committed, missing))


def test_the_exit_code_tells(tmp_path, capsys):
    committed = RESULTS / "drop_in.json"
    worse = tmp_path / "new.json"
    worse.write_text(json.dumps(slowed(json.loads(committed.read_text()), 100, True)))
    assert CHECK["main"]([str(committed), str(committed)]) == 0
    assert CHECK["main"]([str(committed), str(worse)]) == 1
    assert "WORSE" in capsys.readouterr().out
    assert CHECK["main"]([str(committed)]) == 2


def test_the_chart_is_drawn_from_the_committed_results():
    drawn = OVERVIEW["draw"](OVERVIEW["comparisons"](RESULTS))
    assert (RESULTS / "overview.svg").read_text() == drawn, "run benchmarks/python/overview.py again"
