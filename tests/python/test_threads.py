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
