# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`stats()` and `verdict()`: what iterators measure about themselves, and what is concluded from it."""

import dataclasses
import os
import threading
import time

import pytest
import torch
from processes import wait_until
from torch_datasets import Indices

import torch_distinput as tdi
from torch_distinput.observe._stats import Stats, verdict_over_ranks

ROWS = torch.arange(40)


def drained(loader, work=0.0):
    """The stats of an iterator of `loader` after an epoch with steps of `work` seconds."""
    for _ in loader:
        time.sleep(work)
        stats = loader.stats()
    return stats


def test_stats_are_a_mapping_and_a_dataclass():
    iterator = iter(tdi.Dataset.range(10).batch(4))
    list(iterator)
    stats = iterator.stats()
    assert stats["batches"] == stats.batches == 3 and dict(stats) == dataclasses.asdict(stats)
    with pytest.raises(KeyError):
        stats["verdict"]


@pytest.mark.parametrize("ahead", [False, True])
def test_the_times_of_an_iterator_add_up_to_the_time_that_passed(ahead):
    dataset = tdi.Dataset.from_torch(Indices(12, seconds=0.001)).batch(4)
    iterator = iter(dataset.prefetch(2) if ahead else dataset)
    began = time.perf_counter()
    for _ in iterator:
        time.sleep(0.004)
    passed = time.perf_counter() - began
    stats = iterator.stats()
    assert 0.8 * passed <= stats.wait_seconds + stats.consumer_seconds <= passed
    assert stats.consumer_seconds >= 3 * 0.004 and stats.python_seconds >= 12 * 0.001
    assert sum(stats.wait_histogram) == stats.batches == 3
    assert (stats.queue_room > 0) == ahead


def test_busy_times_count_no_work_twice():
    """One thread works: its busy times together are at most the time of the calls."""
    stats = drained(tdi.DataLoader(tdi.Dataset.from_torch(Indices(12, seconds=0.001)).batch(4), batch_size=None))
    seconds = (stats.read_seconds, stats.build_seconds, stats.python_seconds, stats.copy_seconds)
    busy = sum(round(each * 1e9) for each in seconds)  # nanoseconds: floats would be rounded when added
    assert 0 < round(stats.python_seconds * 1e9) <= busy <= round(stats.wait_seconds * 1e9)


def test_work_of_threads_counts_for_the_iterator_that_they_work_for():
    threads = set()

    def slow(x):
        threads.add(threading.get_ident())
        time.sleep(0.002)
        return x

    one = iter(tdi.Dataset.range(16).map(slow, num_parallel_calls=2).filter(lambda x: True))
    other = iter(tdi.Dataset.range(16))
    assert len(list(one)) == len(list(other)) == 16
    assert threads - {threading.get_ident()}
    assert one.stats().python_seconds >= 16 * 0.002 and other.stats().python_seconds == 0


def test_files_count_as_reading(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("row\n" * 20000)
    iterator = iter(tdi.TextLineDataset(str(path)).batch(1000))
    list(iterator)
    assert iterator.stats().read_seconds > 0


LOADERS = {
    "rows": lambda: tdi.DataLoader(ROWS, batch_size=4),
    "rows ahead": lambda: tdi.DataLoader(ROWS, batch_size=4, num_workers=1),
    "sampled rows": lambda: tdi.DataLoader(ROWS, batch_size=4, sampler=list(range(40))),
    "python": lambda: tdi.DataLoader([int(x) for x in ROWS], batch_size=4, collate_fn=list),
    "distributed": lambda: tdi.DataLoader(ROWS, batch_size=4, distributed=True),
    "distributed python": lambda: tdi.DataLoader(ROWS, batch_size=4, distributed=True, collate_fn=list),
    "distributed stream": lambda: tdi.DataLoader(ROWS, batch_size=4, distributed=True, sampler=list(range(40))),
}


@pytest.mark.parametrize("path", LOADERS)
def test_every_path_measures_the_consumer(path):
    stats = drained(LOADERS[path](), work=0.002)
    assert stats.batches == 10 and stats.consumer_seconds >= 0.016
    assert 0 < stats.wait_seconds < 1 and sum(stats.wait_histogram) in (9, 10)
    assert stats.rows in (40, None)


def test_a_failing_call_leaves_the_next_ones_measured():
    fails = iter([False, True, False])

    def collate(rows):
        if next(fails):
            raise ValueError("bad row")
        return rows

    iterator = iter(tdi.DataLoader([1, 2, 3], collate_fn=collate))
    next(iterator)
    with pytest.raises(ValueError, match="bad row"):
        next(iterator)
    next(iterator)
    assert sum(iterator.stats().wait_histogram) == 2


def test_a_loader_without_an_iterator_has_no_counts():
    assert tdi.DataLoader(ROWS).stats() == Stats()
    assert tdi.DataLoader(ROWS).verdict().bound == "unknown"


@pytest.mark.parametrize("path", [*LOADERS, "workers"])
def test_counts_outlive_the_iterator(path):
    made = {"workers": lambda: tdi.DataLoader([int(x) for x in ROWS], batch_size=4, num_workers=1)}
    loader = (LOADERS | made)[path]()
    for _ in loader:
        pass
    assert loader.stats().batches == 10 and loader.stats().wait_seconds > 0
    for number, _ in enumerate(loader):
        if number == 3:
            break
    assert loader.stats().batches == 4 and sum(loader.stats().wait_histogram) in (3, 4)
    older, newer = iter(loader), iter(loader)
    next(newer)
    del newer, older
    assert loader.stats().batches == 1
    with loader:
        next(iter(loader))
        next(iter(loader))
    assert loader.stats().batches == 1


def test_a_slow_program_is_consumer_bound_and_slow_rows_are_python_bound():
    assert drained(tdi.DataLoader(ROWS, batch_size=4), work=0.02).verdict().bound == "consumer"
    loader = tdi.DataLoader(Indices(12, seconds=0.001), batch_size=4)
    verdict = drained(loader).verdict()
    assert verdict.bound == "python" and "num_workers" in verdict.advice and "spent waiting" in verdict.evidence


def test_slow_files_are_read_bound(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write():
        with pipe.open("w") as file:
            for row in range(12):
                time.sleep(0.003)
                print(row, file=file, flush=True)

    writer = threading.Thread(target=write)
    writer.start()
    verdict = drained(tdi.DataLoader(tdi.TextLineDataset(str(pipe)).batch(4), batch_size=None)).verdict()
    writer.join()
    assert verdict.bound == "read" and "faster disk" in verdict.advice


@pytest.mark.parametrize("threads", [0, 1])
def test_native_work_on_rows_is_decode_bound(threads):
    images = torch.randint(0, 256, (48, 3, 320, 320), dtype=torch.uint8)
    dataset = tdi.Dataset.from_tensor_slices(images).resize(200).batch(4).with_options(tdi.Options(num_threads=threads))
    verdict = drained(tdi.DataLoader(dataset, batch_size=None)).verdict()
    assert verdict.bound == "decode" and "less per row" in verdict.advice


@pytest.mark.parametrize(
    "field, bound",
    [("read_seconds", "read"), ("build_seconds", "decode"), ("python_seconds", "python"), ("copy_seconds", "copy")],
)
def test_the_largest_busy_time_is_what_a_waiting_program_is_bound_by(field, bound):
    stats = Stats(batches=9, wait_seconds=1.0, consumer_seconds=1.0, **{field: 0.8})
    assert stats.verdict().bound == bound
    assert dataclasses.replace(stats, peer_seconds=0.9).verdict().bound == "peer"
    assert dataclasses.replace(stats, consumer_seconds=99.0).verdict().bound == "consumer"


def test_a_program_is_bound_by_what_was_busy_while_it_waited():
    hidden = Stats(batches=9, wait_seconds=1.0, consumer_seconds=1.0, python_seconds=9.0, read_seconds=2.0)
    assert hidden.verdict().bound == "python"
    known = dataclasses.replace(hidden, waited_read_seconds=0.9, waited_python_seconds=0.1)
    assert known.verdict().bound == "read" and "meanwhile read 900 ms, python 100 ms" in known.verdict().evidence


def test_work_that_is_done_ahead_is_not_waited_for():
    def slow(x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.005)
        return x

    rows = tdi.Dataset.range(12).map(slow)
    waiting = drained(iter(rows.with_options(tdi.Options(prefetch=0, num_threads=0))))
    assert 0.9 * waiting.python_seconds <= waiting.waited_python_seconds <= waiting.python_seconds
    ahead = iter(rows.with_options(tdi.Options(prefetch=12)))
    next(ahead)
    wait_until(lambda: ahead.stats().python_seconds >= 12 * 0.005)
    rest = drained(ahead)
    assert rest.waited_python_seconds < 0.5 * rest.python_seconds


def test_over_ranks_the_verdict_names_the_one_that_the_others_wait_for():
    fast = Stats(batches=100, wait_seconds=0.1, consumer_seconds=9.9)
    slow = Stats(batches=100, wait_seconds=8.0, consumer_seconds=2.0, read_seconds=7.0)
    verdict = verdict_over_ranks([fast, slow, fast])
    assert (verdict.bound, verdict.rank) == ("read", 1) and "wait for rank 1" in verdict.advice
    started_early = dataclasses.replace(slow, wait_seconds=108.0, peer_seconds=100.0)
    assert verdict_over_ranks([fast, started_early, fast]) == verdict
    assert verdict_over_ranks([fast, fast]).rank is None


def test_the_memory_of_workers_is_told():
    loader = tdi.DataLoader(Indices(40), batch_size=2, num_workers=2)
    iterator = iter(loader)
    next(iterator)
    told = loader.stats().worker_bytes
    assert told > 1 << 20 and "workers have" in repr(loader.stats())
    del iterator
    assert loader.stats().worker_bytes == told  # of a moment ago
    assert drained(tdi.DataLoader(Indices(4))).worker_bytes is None


def test_the_repr_can_be_read():
    text = repr(Stats(batches=16, rows=1000, bytes=84_000, wait_seconds=0.01, consumer_seconds=0.09, skipped=2))
    assert "16 batches, 1000 rows, 84 kB in 100 ms" in text and "10.0%" in text and "skipped 2 rows" in text
