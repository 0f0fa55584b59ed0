# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The comparison with peers: what is checked before there is a figure, and what is drawn from the results."""

import dataclasses
import importlib
import json
import os
import statistics
import sys
import types

import pytest
import torch
from pages import as_drawn
from places import BENCHMARKS

RESULTS = json.loads((BENCHMARKS / "results/peers.json").read_text())
# Fewer rows than the tasks have, and not a multiple of a batch.
SMALL = {"rows": 1300, "python_rows": 100, "records": 1300, "images": 70, "tables": 1300, "tokens": 130}


@pytest.fixture(scope="module")
def peers():
    """The modules of the harness, under names that other tests may use for their own."""
    sys.path[:0] = [str(BENCHMARKS / "peers")]
    yield types.SimpleNamespace(**{name: importlib.import_module(name) for name in ("task", "run", *SMALL)})
    sys.path.remove(str(BENCHMARKS / "peers"))
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(BENCHMARKS)):
            del sys.modules[name]


@pytest.fixture
def chart(peers):
    pytest.importorskip("matplotlib")
    return importlib.import_module("chart")


@pytest.fixture
def small(peers, monkeypatch, tmp_path, request):
    """A task with few rows, and what this library delivers for it."""
    if request.param in ("tables", "images"):
        pytest.importorskip({"tables": "pyarrow", "images": "PIL"}[request.param])
    module = getattr(peers, request.param)
    monkeypatch.setattr(module, "ROWS", SMALL[request.param])
    task = dataclasses.replace(module.TASK, rows=SMALL[request.param])
    task.write(tmp_path)
    try:
        return task, [list(batch) for batch in task.systems["torch_distinput"](tmp_path)()]
    except ValueError as error:
        if "built without" in str(error):
            pytest.skip(str(error))
        raise


all_tasks = pytest.mark.parametrize("small", SMALL, indirect=True)


def wrong(peers, task, batches, folder):
    with pytest.raises(peers.task.WrongOutput) as found:
        peers.task.check_epoch(task, batches, folder)
    return str(found.value)


@all_tasks
def test_a_right_epoch_passes_and_wrong_ones_do_not(peers, small, tmp_path):
    task, batches = small
    peers.task.check_epoch(task, batches, tmp_path)
    *full, last = batches
    assert "missing" in wrong(peers, task, full, tmp_path)
    assert "repeated" in wrong(peers, task, [*full, last, last], tmp_path) or len(last[0]) < task.batch
    shorter = [leaf[:-1] for leaf in last]
    assert "1 missing" in wrong(peers, task, [*full, shorter], tmp_path)
    twice = [torch.cat([leaf[:-1], leaf[:1]]) for leaf in last]
    assert "1 rows repeated, 1 missing" in wrong(peers, task, [*full, twice], tmp_path)
    pieces = [[leaf[i : i + 1] for leaf in full[0]] for i in range(task.batch)]
    assert "batches of" in wrong(peers, task, [*pieces, *full[1:], last], tmp_path)


@all_tasks
def test_other_types_shapes_and_contents_do_not_pass(peers, small, tmp_path):
    task, (first, *rest) = small
    for number, leaf in enumerate(first):
        for changed, words in (
            (leaf.double(), "float64"),
            (leaf.unsqueeze(0), "leaf"),
            (leaf.numpy(), "not a tensor"),
            (leaf[:-1], "different numbers" if len(first) > 1 else "batches of"),
        ):
            batch = [*first[:number], changed, *first[number + 1 :]]
            assert words in wrong(peers, task, [batch, *rest], tmp_path)
        if len(first) > 1:  # rows whose parts do not belong together
            batch = [*first[:number], leaf.flip(0), *first[number + 1 :]]
            wrong(peers, task, [batch, *rest], tmp_path)
    assert "tensors in a batch" in wrong(peers, task, [first[:-1], *rest], tmp_path)
    changed = first[0].clone()
    changed.view(-1)[-1] += 1
    if task.name != "images":  # one grey level does not make another image
        wrong(peers, task, [[changed, *first[1:]], *rest], tmp_path)
    wrong(peers, task, [[torch.zeros_like(first[0]), *first[1:]], *rest], tmp_path)


@all_tasks
def test_the_order_is_part_of_a_task(peers, small, tmp_path):
    task, batches = small
    rows = [torch.cat(leaves) for leaves in zip(*batches)]
    ids = task.ids(rows, tmp_path)
    in_order = [leaf[ids.argsort()] for leaf in rows]
    turned = [leaf.flip(0) for leaf in in_order]
    for order, passes in (("kept", in_order), ("shuffled", turned), ("any", turned), ("any", in_order)):
        changed = dataclasses.replace(task, order=order)
        peers.task.check_epoch(changed, zip(*(leaf.split(task.batch) for leaf in passes)), tmp_path)
        other = {"kept": turned, "shuffled": in_order}.get(order)
        if other is not None:
            assert "order" in wrong(peers, changed, zip(*(leaf.split(task.batch) for leaf in other)), tmp_path) or (
                order == "shuffled"
            )


TOY = """
import os, time, torch
from task import Task

def numbers(*ids):
    return lambda folder: lambda: [(torch.tensor(part),) for part in ids]

def dies(folder):
    os._exit(3)

TASK = Task(
    name="toy", title="toy", rows=4, batch=2, leaves=((torch.int64, ()),), write=lambda folder: None,
    ids=lambda batch, folder: batch[0],
    systems={
        "torch_distinput": numbers([0, 1], [2, 3]),
        "loses a row": numbers([0, 1], [2]),
        "is missing": lambda folder: __import__("no_such_package"),
        "dies": dies,
        "hangs": lambda folder: time.sleep(600),
    },
)
"""


@pytest.fixture
def toy(peers, tmp_path, monkeypatch):
    (tmp_path / "toy.py").write_text(TOY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    yield importlib.import_module("toy").TASK
    del sys.modules["toy"]


def test_wrong_output_and_failures_are_named_and_have_no_figure(peers, toy, tmp_path):
    result = peers.run.run_task(toy, [name for name in toy.systems if name != "hangs"], repeats=2)
    own, *failed = result["series"].values()
    assert len(own["samples_us"]) == 2 and own["times_ours"] == 1 and own["us_per_batch"] > 0
    reasons = ["wrong output: 0 rows repeated, 1 missing, of 4", "no_such_package", "ended: without a word"]
    for one, reason in zip(failed, reasons, strict=True):
        assert reason in one["failed"] and "us_per_batch" not in one


def test_a_system_that_hangs_is_ended_at_its_limit(peers, toy, tmp_path, monkeypatch):
    monkeypatch.setattr(peers.run, "CHECK_SECONDS", 0.5)
    side = peers.run.Side(toy, "hangs", tmp_path, tmp_path / "log")
    assert side.failed == "no answer within 0 s" or side.failed == "no answer within 0.5 s"
    assert side.process.returncode is not None


RANKS = """
import dataclasses, os, torch, toy

def shares(*of_ranks):
    def epoch():
        return [(torch.tensor(part),) for part in of_ranks[int(os.environ["RANK"])]]
    return lambda folder: epoch

TASK = dataclasses.replace(
    toy.TASK, name="toy_ranks", rows=8, ranks=2, inexact=True,
    systems={
        "torch_distinput": shares([[0, 1], [2, 3]], [[4, 5], [6, 7]]),
        "repeats and loses": shares([[0, 1], [2, 3]], [[3, 4], [5, 6]]),
        "takes other steps": shares([[0, 1], [2, 3]], [[4, 5]]),
        "takes larger batches": shares([[0, 1, 2], [3]], [[4, 5, 6], [7]]),
        "fails": lambda folder: 1 // 0,
    },
)
"""


@pytest.mark.slow
def test_ranks_are_checked_and_timed_together(peers, toy, tmp_path):
    (tmp_path / "toy_ranks.py").write_text(RANKS)
    task = importlib.import_module("toy_ranks").TASK
    del sys.modules["toy_ranks"]
    own, counted, *failed = peers.run.run_task(task, list(task.systems), repeats=1)["series"].values()
    assert (own["rows_repeated"], own["rows_missing"], counted["rows_repeated"], counted["rows_missing"]) == (
        0,
        0,
        1,
        1,
    )
    reasons = [
        "wrong output: steps of the ranks: [2, 1]",
        "wrong output: batches of [1, 3] rows, not of 2",
        "ZeroDivisionError: integer division or modulo by zero",
    ]
    assert [one["failed"] for one in failed] == reasons


# --- the committed results -------------------------------------------------------------------------------


def test_the_results_say_all_that_they_should():
    assert {"date", "command", "machine", "versions", "packages", "repeats", "tasks", "seconds"} <= RESULTS.keys()
    assert {"cpu", "cpus", "memory_gib"} <= RESULTS["machine"].keys()
    for task in RESULTS["tasks"]:
        assert {"name", "title", "rows", "batch", "ranks", "others_cores", "series"} == task.keys()
        own = task["series"]["torch_distinput"]
        assert own["times_ours"] == 1 and own["rows_repeated"] == own["rows_missing"] == 0
        for name, one in task["series"].items():
            if "failed" in one:
                assert one.keys() == {"failed"}, name
                continue
            assert len(one["samples_us"]) == RESULTS["repeats"]
            assert one["us_per_batch"] == pytest.approx(statistics.median(one["samples_us"]), abs=0.01)
            ratios = [theirs / ours for theirs, ours in zip(one["samples_us"], own["samples_us"])]
            assert one["times_ours"] == pytest.approx(statistics.median(ratios), rel=2e-3, abs=2e-3)
            assert one["times_ours_range"] == pytest.approx([min(ratios), max(ratios)], rel=2e-3, abs=2e-3)


def test_the_results_are_of_the_tasks_as_they_are(peers):
    assert [task["name"] for task in RESULTS["tasks"]] == list(peers.run.TASKS)
    for result in RESULTS["tasks"]:
        task = importlib.import_module(result["name"]).TASK
        assert (task.title, task.rows, task.batch) == (result["title"], result["rows"], result["batch"])
        assert list(result["series"]) == list(task.systems)


def test_image_and_tables_are_made_from_the_committed_results(chart):
    again = "run benchmarks/peers/chart.py again"
    assert as_drawn("peers.svg", chart.draw(RESULTS)), again
    page = (BENCHMARKS / "README.md").read_text()
    assert page == chart.with_tables(page, RESULTS), again


def test_losses_and_errors_are_drawn(chart):
    series = {"us_per_batch": 10.0, "times_ours": 1.0, "times_ours_range": [1.0, 1.0]}
    fine = {"rows_repeated": 0, "rows_missing": 0}
    names = {
        "torch_distinput": {**series, **fine},
        "Grain": {**series, **fine, "times_ours": 0.5, "times_ours_range": [0.4, 0.6]},
        "SPDL": {**series, "rows_repeated": 3, "rows_missing": 0, "times_ours": 2.0},
        "tf.data": {"failed": "wrong output"},
    }
    drawn = chart.draw({**RESULTS, "tasks": [{"title": "t", "others_cores": 1.5, "series": names}]})
    assert chart.FASTER in drawn and ">0.50<" in drawn
    assert ">2.0 (3 repeated)<" in drawn and "tf.data" not in drawn
    assert "no figure: wrong output" in chart.row("tf.data", names["tf.data"])
    with pytest.raises(ValueError, match="lacks the line"):
        chart.with_tables("no marks", RESULTS)
