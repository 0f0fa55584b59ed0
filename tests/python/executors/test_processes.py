# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Worker processes that are killed, stopped and left alone."""

import gc
import os
import random
import signal

import pytest
import torch

import torch_distinput as tdi
from torch_distinput.executors._processes import Processes


@pytest.mark.parametrize("seed", range(3))
def test_killed_workers_lose_and_repeat_no_row(seed, own_children):
    draws, rows = random.Random(seed), []
    dataset = tdi.Dataset.range(400).shuffle(seed=1).batch(4)
    executor = tdi.Executor("processes", min_workers=2, max_workers=2)
    with tdi.DataLoader(dataset, batch_size=None, executor=executor) as loader:
        for step, batch in enumerate(loader):
            rows += batch.tolist()
            if step % 12 == 5 and own_children():
                os.kill(draws.choice(sorted(own_children())), signal.SIGKILL)
        assert loader.stats().workers.lost >= 1
    assert rows == [int(row) for row in tdi.Dataset.range(400).shuffle(seed=1)]


def with_process(row):
    return {"row": row, "process": torch.tensor(os.getpid())}


def test_a_stopped_worker_is_passed_by():
    rows, seen, left = [], set(), 200
    executor = tdi.Executor("processes", min_workers=2, max_workers=2)
    dataset = tdi.Dataset.range(10**6).map(with_process).batch(2)
    with tdi.DataLoader(dataset, batch_size=None, executor=executor) as loader:
        for batch in loader:
            rows += batch["row"].tolist()
            if len(seen) < 2:
                seen.add(int(batch["process"][0]))
                if len(seen) == 2:  # both work
                    os.kill(min(seen), signal.SIGSTOP)
            elif (left := left - 1) == 0:
                break
        assert loader.stats().workers.asked_again >= 1
    assert rows == list(range(len(rows)))


def test_no_process_is_left(own_children):
    with tdi.DataLoader(tdi.Dataset.range(6), batch_size=2, executor="processes") as loader:
        list(loader)
        assert own_children()
    assert not own_children()
    loader = tdi.DataLoader(tdi.Dataset.range(6), batch_size=2, executor="processes")
    next(iter(loader))
    del loader
    assert not own_children()


class Exits:
    def open(self):
        return lambda request: os._exit(3)


def events_of(processes):
    while True:
        events = processes.wait(10.0)
        if events:
            return events


def test_how_a_process_has_ended_is_told():
    processes = Processes(Exits())
    try:
        worker = processes.start()
        events_of(processes)
        processes.ask(worker, 0, b"1")
        assert "ended with exit code 3" in events_of(processes)[0].why
    finally:
        processes.close()


def mappings():
    with open("/proc/self/maps") as maps:
        found = [line.split()[0].split("-") for line in maps if "torch_distinput_batch" in line]
    return [range(int(begin, 16), int(end, 16)) for begin, end in found]


def row_and_wide_row(row):
    return {"row": row, "wide": row.expand(9).clone()}


def test_batches_are_views_of_the_memory_that_a_worker_wrote_and_hold_it():
    gc.collect()
    before = len(mappings())
    dataset = tdi.Dataset.range(6).map(row_and_wide_row)
    with tdi.DataLoader(dataset, batch_size=2, executor="processes") as loader:
        batches = list(loader)
    del loader
    for batch in batches:
        places = [[value.data_ptr() in each for each in mappings()].index(True) for value in batch.values()]
        assert len(set(places)) == 1
    last = batches[2]["wide"]
    del batches, batch
    gc.collect()
    assert len(mappings()) == before + 1
    assert last.tolist() == [[4] * 9, [5] * 9]
    del last
    assert len(mappings()) == before


def as_table(rows):
    import pyarrow as pa

    return {"rows": pa.table({"n": rows, "name": [f"row {row}" for row in rows]}), "x": torch.tensor(rows)}


def test_arrow_tables_travel_as_they_are():
    pytest.importorskip("pyarrow")
    local = list(tdi.DataLoader(list(range(7)), batch_size=3, collate_fn=as_table))
    with tdi.DataLoader(list(range(7)), batch_size=3, collate_fn=as_table, executor="processes") as loader:
        remote = list(loader)
    assert [batch["rows"] for batch in remote] == [batch["rows"] for batch in local]
    text = remote[0]["rows"].column("name").chunk(0).buffers()[2]
    assert any(text.address in each for each in mappings())


def test_batches_stay_when_the_loader_is_gone():
    with tdi.DataLoader(torch.arange(6), batch_size=2, executor="processes") as loader:
        batches = list(loader)
    batches[0].add_(1)  # nobody else sees the memory
    assert [batch.tolist() for batch in batches] == [[1, 2], [2, 3], [4, 5]]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_all_ways_to_start(method, monkeypatch):
    monkeypatch.setattr("torch_distinput.base._start_method.start_method", lambda: method)
    with tdi.DataLoader(tdi.Dataset.range(4), batch_size=2, executor="processes") as loader:
        assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3]]
