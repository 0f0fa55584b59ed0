# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Workers that die and are replaced: each row comes once and in order, whatever the moment."""

import contextlib
import gc
import os
import random
import signal
import time
import warnings

import pytest
import torch
from pools import POOLS, running_over
from processes import descriptors, is_alive, mappings, wait_until
from resumable_data import CountingStream, ResumingStream, StatefulRows, Stream
from torch.utils import data
from torch_datasets import Made, Rows, loader_of, processes_of

import torch_distinput as tdi

pytestmark = pytest.mark.filterwarnings("ignore:DataLoader. another process takes the place:RuntimeWarning")
METHODS = ["fork", pytest.param("spawn", marks=pytest.mark.slow)]


class Dies:
    """Kills the worker that makes one of `rows`, the first time."""

    def __init__(self, folder, rows):
        self.folder, self.rows = folder, rows

    def __call__(self, row):
        if row in self.rows:
            try:
                open(self.folder / str(row), "x").close()
            except FileExistsError:
                return
            os.kill(os.getpid(), signal.SIGKILL)


def rows_of(loader, kill=0.0):
    """The rows of an epoch, during which a worker is killed after each batch with probability `kill`."""
    rows, iterator = [], iter(loader)
    for values, _ in iterator:
        rows += values[:, 0].tolist()
        if random.random() < kill:
            kill_one_of(iterator)
    return rows


def kill_one_of(iterator):
    with contextlib.suppress(ProcessLookupError):  # it has died, and was not missed yet
        os.kill(random.choice(processes_of(iterator)), signal.SIGKILL)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("persistent_workers", [False, True])
def test_rows_come_once_and_in_order_whichever_rows_kill_their_worker(tmp_path, method, persistent_workers):
    random.seed(3)
    dies = Dies(tmp_path, set(random.sample(range(200), 8)))
    arguments = {"persistent_workers": persistent_workers, "multiprocessing_context": method, "prefetch_factor": 3}
    loader = loader_of(dies, 200, on_worker_death="restart", **arguments)
    for _ in range(3):
        assert rows_of(loader) == list(range(200))
        for path in random.sample(sorted(tmp_path.iterdir()), 2):  # they kill in the next epoch again
            path.unlink()
    loader.close()


@pytest.mark.parametrize("persistent_workers", [False, True])
def test_rows_come_once_and_in_order_whenever_workers_are_killed(persistent_workers):
    random.seed(4)
    gc.collect()
    before = descriptors(), mappings()
    loader = loader_of(size=400, on_worker_death="restart", persistent_workers=persistent_workers)
    for _ in range(3):
        assert rows_of(loader, kill=0.05) == list(range(400))
    loader.close()
    wait_until(lambda: (descriptors(), mappings()) == before)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("persistent_workers", [False, True])
def test_ten_thousand_batches_with_a_hundred_kills_lose_and_repeat_nothing(method, persistent_workers):
    random.seed(5)
    arguments = {"persistent_workers": persistent_workers, "multiprocessing_context": method}
    loader = loader_of(size=4000, on_worker_death="restart", **arguments)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(10):
            assert rows_of(loader, kill=0.015) == list(range(4000))
    assert sum("takes the place" in str(entry.message) for entry in caught) >= 100
    loader.close()


def test_idle_workers_that_are_killed_between_two_epochs_are_replaced():
    loader = loader_of(size=24, on_worker_death="restart", persistent_workers=True)
    for _ in range(3):
        assert rows_of(loader) == list(range(24))
        processes = processes_of(loader._iterator)
        for process in processes:
            os.kill(process, signal.SIGKILL)
        wait_until(lambda processes=processes: not any(map(is_alive, processes)))
    loader.close()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("persistent_workers", [False, True])
@pytest.mark.parametrize("cls", [ResumingStream, CountingStream])
@pytest.mark.parametrize("batch_size", [3, None])
def test_streams_go_on_where_the_worker_died(method, persistent_workers, cls, batch_size):
    random.seed(6)
    arguments = {"num_workers": 2, "multiprocessing_context": method, "persistent_workers": persistent_workers}
    loader = tdi.DataLoader(cls(50), batch_size, on_worker_death="restart", **arguments)
    quiet = tdi.DataLoader(cls(50), batch_size, **arguments)
    for _ in range(3):
        found, iterator = [], iter(loader)
        for values in iterator:
            found.append(torch.as_tensor(values).tolist())
            if random.random() < 0.1:
                kill_one_of(iterator)
        assert found == [torch.as_tensor(values).tolist() for values in quiet]
    loader.close()


def test_a_state_that_was_saved_after_a_death_continues_with_the_next_batch():
    loader = tdi.DataLoader(ResumingStream(60), 4, num_workers=2, on_worker_death="restart")
    expected = [batch.tolist() for batch in loader]
    iterator = iter(loader)
    found = [next(iterator).tolist() for _ in range(3)]
    os.kill(processes_of(iterator)[1], signal.SIGKILL)
    found += [next(iterator).tolist() for _ in range(4)]
    state = loader.state_dict()
    other = tdi.DataLoader(ResumingStream(60), 4, num_workers=2, on_worker_death="restart")
    other.load_state_dict(state)
    assert found + [batch.tolist() for batch in other] == expected


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_map_style_dataset_with_a_state_gets_it_back(on_error):
    loader = tdi.DataLoader(StatefulRows(), 1, num_workers=1, on_worker_death="restart", on_error=on_error)
    iterator = iter(loader)
    next(iterator)
    os.kill(processes_of(iterator)[0], signal.SIGKILL)
    size = 1 + sum(1 for _ in iterator)
    assert loader.state_dict()["torch_distinput.DataLoader"]["workers"]["states"] == [{"count": size}]


def large_row(row):
    return {"tensor": torch.full((70_000,), row), "text": f"{row} " * 30_000}


def test_batches_that_are_kept_and_large_ones_survive_the_death_of_their_worker():
    random.seed(7)
    iterator = iter(tdi.DataLoader(Made(60, large_row), 2, num_workers=2, on_worker_death="restart"))
    kept = []
    for batch in iterator:
        kept.append(batch)
        if random.random() < 0.2:
            kill_one_of(iterator)
    for number, batch in enumerate(kept):
        for place, row in enumerate((2 * number, 2 * number + 1)):
            assert batch["tensor"][place].eq(row).all()
            assert batch["text"][place] == f"{row} " * 30_000


def test_rows_come_once_without_an_order_too(tmp_path):
    dies = Dies(tmp_path, {5, 40, 41, 80})
    loader = loader_of(dies, 100, on_worker_death="restart", in_order=False)
    assert sorted(rows_of(loader)) == list(range(100))


def seed_of(row):
    return data.get_worker_info().seed


def test_a_new_process_draws_other_random_numbers():
    iterator = iter(tdi.DataLoader(Made(40, seed_of), 2, num_workers=2, on_worker_death="restart"))
    seeds = set(next(iterator).tolist() + next(iterator).tolist())
    os.kill(processes_of(iterator)[0], signal.SIGKILL)
    seeds |= {seed for batch in iterator for seed in batch.tolist()}
    assert len(seeds) == 3


def is_slow(row):
    if row == 0:
        time.sleep(6)


@pytest.mark.slow
def test_an_idle_worker_may_die_while_another_one_is_slow():
    iterator = iter(loader_of(is_slow, 40, on_worker_death="restart"))
    wait_until(lambda: iterator._pool.end.activity(1)[0] and iterator._pool.end.activity(1)[1] is None)
    os.kill(processes_of(iterator)[1], signal.SIGKILL)
    assert [row for values, _ in iterator for row in values[:, 0].tolist()] == list(range(40))


def test_the_warning_says_what_the_worker_was_at(tmp_path):
    with pytest.warns(RuntimeWarning, match=r"was killed by SIGKILL at batch 2 \(rows 8, 9, 10, 11\)"):
        assert rows_of(loader_of(Dies(tmp_path, {9}), on_worker_death="restart")) == list(range(64))


def kills_each_time(row):
    if row == 9:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_row_that_kills_each_worker_is_an_error():
    batches = []
    with pytest.raises(RuntimeError, match=r"(?s)^DataLoader worker.*rows 8, 9.*the end of 4 processes in a row"):
        batches += loader_of(kills_each_time, on_worker_death="restart")
    assert len(batches) <= 2


def fails(row):
    if row == 9:
        raise KeyError("of a row")


def test_errors_of_rows_are_still_errors():
    iterator = iter(loader_of(fails, on_worker_death="restart"))
    next(iterator), next(iterator)
    with pytest.raises(KeyError, match="of a row"):
        next(iterator)
    assert next(iterator)[0][0, 0] == 12


def test_what_cannot_be_restarted_is_refused():
    restart = {"num_workers": 2, "on_worker_death": "restart"}
    with pytest.raises(ValueError, match='`on_worker_death` must be "raise" or "restart", but is \'ignore\''):
        tdi.DataLoader(Rows(), on_worker_death="ignore")
    with pytest.raises(ValueError, match="a Stream has no `state_dict`"):
        tdi.DataLoader(Stream(10), **restart)
    with running_over(POOLS[1]), pytest.raises(ValueError, match="needs this library's pool of workers"):
        iter(tdi.DataLoader(Rows(), **restart))
    with pytest.raises(ValueError, match="cannot restore the place of a dataset of this library"):
        iter(tdi.DataLoader(tdi.Dataset.range(6), 3, collate_fn=torch.stack, **restart))
    assert len(list(tdi.DataLoader(tdi.Dataset.range(6), 3, **restart))) == 2  # threads make these batches
