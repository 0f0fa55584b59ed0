# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The tools that draw and compare the results of benchmarks."""

import copy
import json
import runpy

import pytest
from pages import as_drawn
from places import BENCHMARKS

RESULTS = BENCHMARKS / "results"
CHECK = runpy.run_path(str(BENCHMARKS / "python/check.py"))


def slowed(results, factor, own_only):
    """`results` as of a machine, or of a library, that is slower by `factor`."""
    slow = copy.deepcopy(results)
    for work in next(slow[key] for key in ("works", "cases", "tasks") if key in slow):
        for name, one in work["series"].items():
            if "samples_us" in one and (name.startswith("torch_distinput") or not own_only):
                one["samples_us"] = [sample * factor for sample in one["samples_us"]]
    return slow


@pytest.mark.parametrize("name", ["in_memory_rows", "drop_in", "peers"])
def test_a_slower_machine_passes_and_a_slower_library_fails(name):
    committed = json.loads((RESULTS / f"{name}.json").read_text())
    same, machine = (list(CHECK["check"](committed, slowed(committed, factor, False))) for factor in (1, 10))
    assert len(same) >= 5 and all(holds for holds, _ in same)
    assert same == machine
    assert not any(holds for holds, _ in CHECK["check"](committed, slowed(committed, 100, True)))
    missing: dict = {"works": []}
    assert all("no such series" in line for _, line in CHECK["check"](committed, missing))


def test_what_the_new_command_left_out_is_not_missed():
    committed = json.loads((RESULTS / "peers.json").read_text())
    chosen = {"tasks": ["rows"], "systems": ["torch_distinput", "DataLoader"]}
    new = {"tasks": [task for task in committed["tasks"] if task["name"] == "rows"], "chosen": chosen}
    (found,) = CHECK["check"](committed, new)
    assert found[0] and "rows: torch_distinput beside DataLoader:" in found[1]
    new["tasks"] = []
    assert [holds for holds, _ in CHECK["check"](committed, new)] == [False]


def test_the_exit_code_tells(tmp_path, capsys):
    committed = RESULTS / "drop_in.json"
    worse = tmp_path / "new.json"
    worse.write_text(json.dumps(slowed(json.loads(committed.read_text()), 100, True)))
    assert CHECK["main"]([str(committed), str(committed)]) == 0
    assert CHECK["main"]([str(committed), str(worse)]) == 1
    assert "WORSE" in capsys.readouterr().out
    assert CHECK["main"]([str(committed)]) == 2


def test_other_processors_are_named(tmp_path, capsys):
    committed = RESULTS / "drop_in.json"
    results = json.loads(committed.read_text())
    before, results["machine"]["cpu"] = results["machine"]["cpu"], "Other"
    elsewhere = tmp_path / "new.json"
    elsewhere.write_text(json.dumps(results))
    assert CHECK["main"]([str(committed), str(elsewhere)]) == 0
    assert f"note   drop_in.json: committed on {before}, measured on Other:" in capsys.readouterr().out
    assert CHECK["main"]([str(committed), str(committed)]) == 0
    assert "note" not in capsys.readouterr().out


def test_the_figures_in_the_readme_are_those_of_the_results():
    readme = (BENCHMARKS.parent / "README.md").read_text()
    workers = json.loads((RESULTS / "workers.json").read_text())["us_per_batch"]["50 us of Python, 32 rows"]
    ours, torchs = (f"{workers[f'{name}, 2 workers'] / 1000:.2f}" for name in ("torch_distinput", "torch"))
    assert f"takes {ours} ms (torch: {torchs} ms;" in " ".join(readme.split())


def test_the_chart_is_drawn_from_the_committed_results(monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(BENCHMARKS / "python")
    charts, again = runpy.run_path(str(BENCHMARKS / "python/charts.py")), "run benchmarks/python/charts.py again"
    assert as_drawn("overview.svg", charts["overview"](charts["comparisons"](RESULTS))), again
    memory = json.loads((RESULTS / "in_memory_rows.json").read_text())
    assert as_drawn("in_memory_rows.svg", charts["memory"](memory)), again
