# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Python threads that use the library at the same time, which builds of Python without the GIL let run at once."""

import collections
import gc
import subprocess
import sys
import sysconfig
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import torch_distinput as tdi
from torch_distinput import _C
from torch_distinput.base._messages import pickle_value, unpickle_value
from torch_distinput.loader.workers._messages import unreadable

THREADS = 8
Pair = collections.namedtuple("Pair", "low high")


def at_once(work: Callable[[int], object]) -> list:
    """What `work(thread)` returns for each of THREADS threads, which begin at the same moment."""
    start = threading.Barrier(THREADS)

    def run(thread: int) -> object:
        start.wait(30)
        return work(thread)

    with ThreadPoolExecutor(THREADS) as pool:
        return [future.result(60) for future in [pool.submit(run, thread) for thread in range(THREADS)]]


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has a GIL")
def test_the_gil_stays_off():
    program = "import sys, torch, torch_distinput; print(sys._is_gil_enabled())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("False", "")


def test_iterators_of_one_dataset_call_one_function_at_once():
    dataset = tdi.Dataset.range(500).map(lambda row: {"b": row, "a": (row * 2, Pair(str(int(row)), None))}).batch(7)

    def read(_: int) -> list:
        return [(batch["b"].tolist(), batch["a"][0].tolist(), list(batch["a"][1].low)) for batch in dataset]

    first, *others = at_once(read)
    assert sum((batch[0] for batch in first), []) == list(range(500))
    assert all(other == first for other in others)


def test_values_of_a_new_structure_are_learned_by_all_threads_alike():
    for kind in range(20):  # a structure that no thread has met
        names = [f"{kind}-{key}" for key in "cab"]
        dataset = tdi.Dataset.range(3).map(lambda row, names=names: dict.fromkeys(names, row))
        results = at_once(lambda _, dataset=dataset: [{key: int(row) for key, row in each.items()} for each in dataset])
        assert results == [[dict.fromkeys(names, row) for row in range(3)]] * THREADS
        assert all(list(each) == names for result in results for each in result)


def test_parallel_calls_of_one_map_keep_rows_and_order():
    numbers = tdi.Dataset.range(2_000).map(lambda row: (row, {"next": (row + 1).numpy()}), num_parallel_calls=4)
    rows = [(batch[0], batch[1]["next"]) for batch in numbers.batch(16)]
    assert torch.cat([row for row, _ in rows]).tolist() == list(range(2_000))
    assert all(torch.equal(row + 1, later) for row, later in rows)


def test_an_iterator_that_threads_share_gives_each_row_once():
    iterator = iter(tdi.Dataset.range(3_000).map(lambda row: row))

    def take(_: int) -> list[int]:
        taken: list[int] = []
        while True:
            try:
                taken.append(int(next(iterator)))
            except StopIteration:
                return taken
            except RuntimeError as error:
                assert "another thread is using this iterator" in str(error)

    assert sorted(sum(at_once(take), [])) == list(range(3_000))


def test_datasets_are_made_and_collected_by_all_threads_at_once():
    held: list[weakref.ref] = []

    def make(thread: int) -> None:
        for number in range(50):
            dataset = tdi.Dataset.range(4).map(lambda row, number=number: row + number)
            holder = {"dataset": dataset}
            dataset = dataset.map(lambda row, holder=holder: row if holder else None)  # refers to itself
            holder["later"] = dataset
            held.append(weakref.ref(dataset))
            assert [int(row) for row in dataset] == [number, number + 1, number + 2, number + 3]
            if number % 10 == thread:
                gc.collect()

    at_once(make)
    gc.collect()
    assert len(held) == 50 * THREADS and not any(dataset() for dataset in held)


def test_iterators_are_made_and_dropped_by_all_threads_at_once():
    def rows():
        yield from range(5)

    def make(dataset: tdi.Dataset) -> None:
        for _ in range(100):
            iterator = iter(dataset)
        assert int(next(iterator)) == 0

    def read_some(dataset: tdi.Dataset) -> None:
        for _ in range(50):
            assert int(next(iter(dataset))) == 0  # and what the function has returned is dropped before its end

    numbers = tdi.Dataset.range(5)
    at_once(lambda _: make(numbers))
    mapped = numbers.map(lambda row: row)
    at_once(lambda _: make(mapped))
    generated = tdi.Dataset.from_generator(rows, None)
    at_once(lambda _: read_some(generated))
    nested = numbers.flat_map(lambda row: tdi.Dataset.range(3).map(lambda number: number + row))
    at_once(lambda _: read_some(nested))


def test_garbage_is_cleared_while_threads_call_it():
    def make(thread: int) -> None:
        for _ in range(5):
            held = {}
            dataset = tdi.Dataset.range(2_000).map(lambda row, held=held: row if held is not None else None)
            held["iterator"] = iter(dataset.prefetch(2_000))
            assert int(next(held["iterator"])) == 0
            del held, dataset
            if thread % 2 == 0:
                gc.collect()

    at_once(make)
    gc.collect()  # what a thread has left while another one collected


def consumer_end() -> _C.ConsumerEnd:
    return _C.ConsumerEnd(1, pickle_value, unpickle_value, unreadable)


def test_classes_of_named_tuples_are_sent_and_received_by_all_threads_at_once():
    ends = [consumer_end() for _ in range(THREADS)]
    workers = [end.worker(0) for end in ends]
    kinds = [collections.namedtuple(f"Kind{number}", "low high", module=__name__) for number in range(80)]
    globals().update({kind.__name__: kind for kind in kinds})  # where pickles look for them

    def send(thread: int) -> None:
        for number in range(len(kinds)):
            kind = kinds[(number + thread) % len(kinds)]
            workers[thread].send(number, kind(thread, "text"))
            task, value = ends[thread].receive()
            assert (task, value, type(value)) == (number, (thread, "text"), kind)

    at_once(send)


def test_one_thread_receives_what_workers_did_for_others():
    """As torch's thread that pins memory does, while another one sends tasks and looks at the workers."""
    end = consumer_end()
    worker = end.worker(0)
    tasks = 400
    received: list[int] = []

    def work(thread: int) -> None:
        if thread == 0:
            while (task := worker.receive(60)[0]) is not None:
                worker.send(task[0], torch.tensor(task[0]))
        if thread == 1:
            while len(received) < tasks:
                result = end.receive()
                if result is None:
                    end.wait(0.01)
                elif result[1] is not None:
                    received.append(int(result[1]))
            end.send(0, None)
        if thread == 2:
            for task in range(tasks):
                end.send(0, (task, [task]))
        if thread == 3:
            while len(received) < tasks:
                waiting = [task[0] for task in end.unfinished(0)]
                assert waiting == list(range(waiting[0], waiting[-1] + 1)) if waiting else True
                end.activity(0)

    at_once(work)
    assert received == list(range(tasks))
    assert end.unfinished(0) == []


def test_tasks_are_sent_while_another_thread_passes_over_them_and_renews_the_worker():
    end = consumer_end()
    tasks = [(number, [number]) for number in range(400)]

    def work(thread: int) -> None:
        for task in tasks:
            if thread == 0:
                end.send(0, task)
            if thread == 1:
                end.pass_over(0)
            if thread == 2 and task[0] % 10 == 0:
                end.renew(0)

    at_once(work)
    assert end.unfinished(0) == tasks
    end.renew(0)
    worker = end.worker(0)
    end.receive()  # sends on what did not fit at once
    assert [worker.receive(0.0)[0] for _ in range(20)] == tasks[:20]


def test_an_iterator_reads_on_while_another_thread_looks_at_it():
    iterator = iter(tdi.Dataset.range(300).map(lambda row: row))
    looked, ended = threading.Event(), threading.Event()

    def use(thread: int) -> list[int]:
        if thread == 0:
            assert looked.wait(30)
            try:
                return [int(row) for row in iterator]
            finally:
                ended.set()
        while thread == 1 and not ended.is_set():
            assert "DatasetIterator" in repr(iterator)
            try:
                assert iterator.stats().batches <= 300
            except RuntimeError as error:
                assert "another thread is using this iterator" in str(error)
            looked.set()
        return []

    assert at_once(use)[0] == list(range(300))


def test_traces_begin_while_threads_end_their_spans():
    def use(thread: int) -> None:
        for _ in range(30):
            if thread == 0 and _C.start_trace(1_000):
                _C.stop_trace()
            list(tdi.Dataset.range(20))

    at_once(use)


def test_times_of_calls_are_read_while_another_thread_calls():
    begin, end, read = _C.call_clock()

    def use(thread: int) -> None:
        for call in range(2_000):
            if thread == 0:
                begin()
                end()
            else:
                wait, _, histogram = read()
                assert wait >= 0 and sum(histogram) <= 2_000

    at_once(use)
    assert sum(read()[2]) == 2_000


class Pairs(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 24

    def __getitem__(self, row: int) -> Pair:
        return Pair(row, torch.tensor(row))


@pytest.mark.slow
def test_loaders_with_workers_serve_threads_at_once():
    def read(_: int) -> list[int]:
        loader = tdi.DataLoader(Pairs(), batch_size=4, num_workers=1, multiprocessing_context="forkserver")
        return [int(row) for batch in loader for row in batch.high]

    assert at_once(read) == [list(range(24))] * THREADS
