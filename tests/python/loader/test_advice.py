# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What `verdict()` advises: each loader takes it, does not have it yet, and waits less with it."""

import re
import time

import pytest
import torch
from torch.utils import data
from torch.utils.data import TensorDataset
from torch_datasets import IndexTensors, Indices

import torch_distinput as tdi
from torch_distinput import _C
from torch_distinput.loader import _advice as advice
from torch_distinput.loader._data_loader import advise

BATCHES, ROW = 16, 0.004


class TimedRows(Indices):
    """Rows that tell when they were made: begin and end, by the clock of all processes."""

    def __getitem__(self, index):
        began = time.monotonic()
        time.sleep(2 * ROW)
        return torch.tensor([began, time.monotonic()], dtype=torch.float64)


class Stream(data.IterableDataset):
    def __iter__(self):
        for index in range(2 * BATCHES):
            time.sleep(ROW)
            yield torch.tensor(index)


def waiting_rows():
    """Rows that wait, as for a network."""
    return IndexTensors(2 * BATCHES, ROW)


def slowly(x):
    time.sleep(ROW)
    return x


def as_list(samples):
    return torch.stack(samples)


def images():
    return TensorDataset(torch.zeros(4 * BATCHES, 200_000, dtype=torch.uint8))


def weighted():
    return data.WeightedRandomSampler(torch.ones(4 * BATCHES), 4 * BATCHES)


def native():
    return tdi.Dataset.range(2 * BATCHES)


LOADERS = {
    "rows of Python": (waiting_rows, {}),
    "rows of workers": (waiting_rows, {"num_workers": 1}),
    "rows of many workers": (waiting_rows, {"num_workers": 2}),
    "a stream": (Stream, {}),
    "a stream of a worker": (Stream, {"num_workers": 1}),
    "a pipeline in Python": (native, {"collate_fn": as_list}),
    "a map": (lambda: native().map(slowly), {}),
    "a parallel map": (lambda: native().map(slowly, num_parallel_calls=2), {}),
    "native rows": (images, {}),
    "native rows of a thread": (images, {"num_workers": 1}),
    "native rows ahead": (images, {"prefetch_bytes": 1 << 20}),
    "native rows of a sampler": (images, {"sampler": weighted()}),
    "distributed rows of Python": (waiting_rows, {"distributed": True}),
    "a distributed stream": (Stream, {"distributed": True}),
    "distributed native rows": (images, {"distributed": True}),
}
ARGUMENT = re.compile(r"`(num_workers|prefetch_bytes|shuffle)=(\w+)`")


def advised(text):
    """The arguments that an advice tells."""
    return {name: {"True": True}.get(value) or int(value) for name, value in ARGUMENT.findall(text)}


def drained(loader, work=0.0):
    for _ in loader:
        time.sleep(work)
    return loader


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # more workers than CPUs, as the advice says
@pytest.mark.parametrize("bound", ["read", "decode", "python", "copy"])
@pytest.mark.parametrize("kind", LOADERS)
def test_a_loader_takes_what_it_is_advised_and_has_not_got_it_yet(kind, bound, monkeypatch):
    monkeypatch.setattr(advice, "available_cpus", lambda: 2)
    make, arguments = LOADERS[kind]
    loader = tdi.DataLoader(make(), batch_size=2, **arguments)
    for stats in (tdi.Stats(batches=9, bytes=90), tdi.Stats(batches=9, bytes=90, queue_room=4.0)):
        text = advise(loader, bound, stats)
        changes = advised(text)
        assert all(arguments.get(name) != value for name, value in changes.items()), text
        rest = {name: value for name, value in arguments.items() if not (name == "sampler" and "Without it" in text)}
        better = tdi.DataLoader(make(), batch_size=2, **rest | changes)
        assert "path" in better.explain()
        assert text[0].isupper() or text[0] == "`"
        assert text.endswith(".")


def most_at_once(loader):
    """How many rows were being made at the same time, at most."""
    spans = torch.cat(list(loader)).tolist()
    return max(sum(begin <= moment < end for begin, end in spans) for moment, _ in spans)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize(("workers", "distributed"), [(0, None), (0, True), (1, None), (2, None)])
def test_the_advice_of_rows_that_wait_lets_more_of_them_wait_at_once(workers, distributed, monkeypatch):
    monkeypatch.setattr(advice, "available_cpus", lambda: 2)
    loader = tdi.DataLoader(TimedRows(2 * BATCHES), 2, distributed=distributed, num_workers=workers)
    before, verdict = most_at_once(loader), loader.verdict()
    changes = advised(verdict.advice)
    assert verdict.bound == "python" and list(changes) == ["num_workers"]
    after = most_at_once(tdi.DataLoader(TimedRows(2 * BATCHES), 2, distributed=distributed, **changes))
    assert after > before == max(workers, 1)


@pytest.mark.parametrize("distributed", [None, True])
def test_the_advice_of_a_stream_makes_its_program_wait_less(distributed):
    loader = drained(tdi.DataLoader(Stream(), 2, distributed=distributed), work=2 * ROW)
    changes = advised(loader.verdict().advice)
    assert loader.verdict().bound == "python" and changes == {"num_workers": 1}
    better = drained(tdi.DataLoader(Stream(), 2, distributed=distributed, **changes), work=2 * ROW)
    assert better.stats().wait_quantile(0.5) < loader.stats().wait_quantile(0.5)


def test_the_advice_of_a_map_lets_calls_overlap():
    loader = drained(tdi.DataLoader(native().map(slowly), 2))
    assert loader.verdict().bound == "python" and "`map(..., num_parallel_calls=2)`" in loader.verdict().advice
    better = drained(tdi.DataLoader(native().map(slowly, num_parallel_calls=2), 2))
    assert better.stats().wait_seconds < 0.8 * loader.stats().wait_seconds
    assert "num_parallel_calls" not in better.verdict().advice


@pytest.mark.parametrize("kind", ["native rows", "native rows of a sampler", "distributed native rows"])
def test_the_advice_of_native_rows_lets_threads_copy_ahead(kind):
    make, arguments = LOADERS[kind]
    loader = drained(tdi.DataLoader(make(), 2, **arguments))
    assert not loader.stats().queue_room
    changes = advised(advise(loader, "decode", loader.stats()))
    rest = {name: value for name, value in arguments.items() if name != "sampler"}
    better = drained(tdi.DataLoader(make(), 2, **rest | changes))
    assert better.stats().queue_room > 0 and better.stats().rows == 4 * BATCHES
    assert "ahead" not in advise(better, "decode", better.stats())


def test_the_advice_names_no_more_cpus_than_there_are():
    cpus = _C.available_cpus()
    loader = tdi.DataLoader(images(), 2, num_workers=cpus)
    assert advised(advise(loader, "decode", tdi.Stats(batches=9, queue_room=4.0))) == {}
