# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What consoles and notebooks show of `explain()`."""

import pickle
import threading
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import torch_distinput as tdi
from torch_distinput import _C

ZIPPED = tdi.Dataset.zip((tdi.Dataset.range(6).skip(1), tdi.Dataset.range(9).take(5))).batch(2)


def test_the_tree_has_the_inputs_of_an_op_below_it():
    lines = [line.partition("(")[0] for line in repr(ZIPPED.explain()).splitlines()]
    assert lines == ["batch", "└─ zip", "   ├─ skip", "   │  └─ range", "   └─ take", "      └─ range"]
    assert "5 elements, plan, threads: arena (" in repr(ZIPPED.explain()).splitlines()[1]


LOADERS = (
    lambda: tdi.DataLoader([1, 2, 3]),  # Python makes its rows
    lambda: tdi.DataLoader(torch.arange(6), batch_size=2),
    lambda: tdi.DataLoader(torch.arange(6), batch_size=2, distributed=True),
)


@pytest.mark.parametrize("explain", [ZIPPED.explain, *(lambda make=make: make().explain() for make in LOADERS)])
def test_print_shows_what_consoles_show(explain, capsys):
    text = explain()
    print(text)
    assert isinstance(text, str) and capsys.readouterr().out == f"{text}\n" == f"{text!r}\n"
    copy = pickle.loads(pickle.dumps(text))
    assert copy == text and repr(copy) == repr(text) and copy._repr_html_() == text._repr_html_()


@pytest.mark.parametrize("make", LOADERS[1:])
def test_the_facts_of_a_loader_stand_above_the_tree_of_its_ops(make):
    text = make().explain()
    lines = text.splitlines()
    assert lines[: len(text.facts)] == text.facts and text.facts[0].startswith("path: ")
    title, first, *_ = lines[len(text.facts) :]
    assert title == "DataLoader(Tensor, batch_size=2)" and first.startswith("└─ with_options(")
    assert len({line.partition(": ")[0] for line in text.facts}) == len(text.facts)  # each has a name of its own


def test_a_long_call_moves_no_other_notes():
    text = tdi.Dataset.from_tensor_slices((torch.zeros(2, 3),) * 9).skip(1).explain()
    assert text.splitlines()[0].startswith("skip(count=1)  1 elements")


class Texts(HTMLParser):
    """The tags that are open, and all text."""

    def __init__(self):
        super().__init__()
        self.open, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_notebooks_show_nested_lists():
    page = Texts()
    page.feed(tdi.Dataset.range(4).map(lambda x: x).explain()._repr_html_())
    assert page.open == [] and "map(<lambda>" in page.text and "range(start=0" in page.text


def test_a_loader_shows_its_path_and_its_pipeline():
    shown = repr(tdi.DataLoader(tdi.Dataset.range(6).batch(2), batch_size=None).explain())
    assert "\nDataLoader(Dataset" in shown and "path" in shown and "range(" in shown
    shown = repr(tdi.DataLoader(torch.arange(6), batch_size=2, distributed=True).explain())
    assert "rows of the first step" in shown and "policy" in shown


def facts(loader):
    """The lines `name: fact` of a loader's report."""
    return dict(line.split(": ", 1) for line in str(loader.explain()).partition("\nDataLoader(")[0].splitlines())


def seen(loader):
    """What the facts say, from the batches themselves."""
    sizes = [len(batch) for batch in loader]
    return {"steps": len(sizes), "rows of the first step": sizes[0], "rows of the last step": sizes[-1]}


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("rows", [3, 4, 8, 11])
@pytest.mark.parametrize("kind", [torch.arange, lambda size: list(range(size)), tdi.Dataset.range])
def test_a_loader_tells_its_steps_and_the_rows_of_the_first_and_last_one(kind, rows, drop_last):
    loader = tdi.DataLoader(kind(rows), batch_size=4, drop_last=drop_last)
    told = facts(loader)
    if drop_last and rows < 4:
        assert told["steps"] == "0" and list(loader) == []
    else:
        assert {name: int(told[name]) for name in seen(loader)} == seen(loader)


def test_a_loader_shows_the_pipeline_that_it_runs_and_who_makes_rows_of_pythons():
    shown = repr(tdi.DataLoader(torch.arange(6), batch_size=2, shuffle=True, num_workers=1).explain())
    ops = [line.split("─ ")[1].partition("(")[0] for line in shown.splitlines() if "elements, " in line]
    assert ops == ["with_options", "batch", "shuffle", "from_tensor_slices"] and "arena (1)" in shown
    shown = repr(tdi.DataLoader(torch.arange(6), batch_size=2).explain())
    assert shown.count("threads: caller") == 3  # other threads may not read rows that can be written to
    assert facts(tdi.DataLoader([1, 2], num_workers=2))["threads"] == "2 processes"
    assert facts(tdi.DataLoader([1, 2]))["threads"] == "caller"
    assert facts(tdi.DataLoader(torch.arange(6), sampler=[1, 2]))["threads"] == "caller"


def running(dataset):
    """The names of the threads that run users' functions of `dataset`, as the kernel has them."""
    names = set()

    def look(x):
        time.sleep(0.001)  # so that it is worth another thread
        names.add(Path(f"/proc/self/task/{threading.get_native_id()}/comm").read_text().strip())
        return x

    list(dataset(look))
    return names


@pytest.mark.parametrize(
    "dataset, threads",
    [
        (lambda f: tdi.Dataset.range(20).map(f), "caller"),
        (lambda f: tdi.Dataset.range(20).map(f, num_parallel_calls=2), "tdi-pool (2)"),
        (lambda f: tdi.Dataset.range(20).map(f).prefetch(2), "tdi-pool (1)"),
        (lambda f: tdi.Dataset.range(20).batch(2).unbatch().map(f, num_parallel_calls=2), "tdi-map (2)"),
        (lambda f: tdi.Dataset.range(20).filter(lambda x: f(x) >= 0).prefetch(2), "tdi-prefetch (1)"),
    ],
)
def test_the_threads_that_are_named_run_the_functions(dataset, threads):
    tree = repr(dataset(lambda x: x).explain())
    line = next(line for line in tree.splitlines() if "map(" in line or "filter(" in line)
    assert f"threads: {threads}," in line and "stays in Python" in line
    named, caller = threads.partition(" ")[0], Path("/proc/self/comm").read_text().strip()
    seen = running(dataset)
    if named == "caller":
        assert seen == {caller}
    else:
        assert named in seen and seen <= {named, caller}  # the first elements are made, and measured, by the caller


def test_a_distributed_dataset_has_its_ops_below_it():
    tree = repr(tdi.MirroredStrategy(["cpu", "cpu"]).distribute_dataset(tdi.Dataset.range(6).batch(4)).explain())
    assert [line.split("─ ")[1].partition("(")[0] for line in tree.splitlines()[-2:]] == ["batch", "range"]


def test_ranks_with_streams_of_their_own_have_no_known_steps():
    loader = tdi.DataLoader(torch.arange(6), batch_size=2, distributed=True, sampler=[1, 2, 3])
    assert "agree" in facts(loader)["steps"] and facts(loader)["threads"] == "caller"


def test_the_replicas_of_several_processes_are_told_apart():
    batches = tdi.Dataset.range(6).batch(4)._native
    strategy = _C.MultiWorkerMirroredStrategy(_C.ProcessGroup(dist.HashStore(), 1, 3, "explained"), ["cpu", "cpu"])
    text = strategy.distribute_dataset(batches, _C.InputOptions()).explain()
    assert text.startswith("replicas: 6, 2 in each of 3 processes; this is rank 1\n")
