# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""How worker processes get their objects: forked ones share them, the others read what was pickled once."""

import gc
import multiprocessing
import os
import pickle
import sys
import warnings

import pytest
import torch
from processes import run_script
from torch.utils import data
from torch_datasets import Made, Rows

import torch_distinput as tdi
from torch_distinput.loader.workers import _starts

SERVED = ["spawn", "forkserver"]


class CountsPickles(Rows):
    pickled = 0

    def __getstate__(self):
        type(self).pickled += 1
        return self.__dict__


class Shared(data.Dataset):
    """Has what only processes that are being started may get: a tensor that they share, and a number of theirs."""

    def __init__(self):
        self.tensor = torch.zeros(4, dtype=torch.int64)
        self.number = multiprocessing.get_context("spawn").Value("i", 0)

    def __len__(self):
        return 4

    def __getitem__(self, row):
        with self.number.get_lock():
            self.number.value += 1
        self.tensor[row] = row + 1
        return row


def environment_of(row):
    return os.environ.get("TDI_TEST_START", "none")


def frozen_of(row):
    return gc.get_freeze_count()


def forked_workers(rows, workers):
    """A loader of rows that say how many objects their worker has frozen."""
    return tdi.DataLoader(Made(rows, frozen_of), num_workers=workers, multiprocessing_context="fork")


@pytest.mark.slow
@pytest.mark.parametrize("method", SERVED)
def test_a_dataset_is_pickled_once_for_all_workers(method):
    before = CountsPickles.pickled
    loader = tdi.DataLoader(CountsPickles(12), 2, num_workers=3, multiprocessing_context=method)
    assert [values[:, 0].tolist() for values, _ in loader] == [[row, row + 1] for row in range(0, 12, 2)]
    assert CountsPickles.pickled == before + 1


@pytest.mark.slow
@pytest.mark.parametrize("method", SERVED)
@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
def test_shared_tensors_and_numbers_are_shared(method, strategy):
    before = torch.multiprocessing.get_sharing_strategy()
    torch.multiprocessing.set_sharing_strategy(strategy)
    try:
        dataset = Shared()
        loader = tdi.DataLoader(dataset, num_workers=2, multiprocessing_context=method)
        assert [batch.item() for batch in loader] == [0, 1, 2, 3]
        assert dataset.tensor.tolist() == [1, 2, 3, 4]
        assert dataset.number.value == 4
    finally:
        torch.multiprocessing.set_sharing_strategy(before)


@pytest.mark.slow
def test_spawned_workers_have_the_environment_of_the_moment(monkeypatch):
    loader = tdi.DataLoader(Made(2, environment_of), num_workers=1, multiprocessing_context="spawn")
    for value in ("one", "two"):
        monkeypatch.setenv("TDI_TEST_START", value)
        assert list(loader) == [[value], [value]]


@pytest.mark.slow
@pytest.mark.parametrize("method", SERVED)
def test_what_cannot_be_pickled_is_torchs_error_and_says_what_to_do(method):
    loader = tdi.DataLoader(Made(2, lambda row: row), num_workers=1, multiprocessing_context=method)
    errors = (AttributeError, TypeError, pickle.PicklingError)
    with warnings.catch_warnings(record=True) as caught, pytest.raises(errors, match="pickle") as raised:
        warnings.simplefilter("always")
        iter(loader)
    assert any("Got pickle error" in str(entry.message) for entry in caught)
    if sys.version_info >= (3, 11):
        (note,) = (note for note in raised.value.__notes__ if note.startswith("raised by"))
        assert f"by the method '{method}'" in note and 'unless `multiprocessing_context="fork"` is passed' in note


@pytest.mark.slow
@pytest.mark.parametrize("method", SERVED)
@pytest.mark.parametrize("restart", ["raise", "restart"])
def test_what_a_worker_does_not_find_is_an_error_of_the_first_batch(method, restart):
    ran = run_script(f"""
        class Rows(list):
            pass
        loader = tdi.DataLoader(
            Rows(range(8)), 2, num_workers=2, multiprocessing_context="{method}", on_worker_death="{restart}"
        )
        try:
            next(iter(loader))
        except AttributeError as error:
            print(error)
        """)
    assert "in DataLoader worker process 0" in ran.stdout and "Rows" in ran.stdout, ran.stderr
    if sys.version_info >= (3, 11):
        assert 'unless `multiprocessing_context="fork"` is passed' in ran.stdout


@pytest.mark.slow
def test_the_server_keeps_what_the_program_loads_there():
    ran = run_script("""
        from multiprocessing import forkserver, set_forkserver_preload
        from torch_datasets import Rows
        set_forkserver_preload(["json"])
        loader = tdi.DataLoader(Rows(4), num_workers=1, multiprocessing_context="spawn")
        print(sum(1 for _ in loader), forkserver._forkserver._preload_modules[0])
        """)
    assert ran.stdout == "4 json\n", ran.stderr


@pytest.fixture
def nothing_frozen(monkeypatch):
    """The suite itself freezes what was imported."""
    monkeypatch.setattr(_starts, "_user_freezes", False)
    gc.unfreeze()
    yield
    gc.unfreeze()
    gc.freeze()


@pytest.mark.usefixtures("nothing_frozen")
def test_forked_workers_hide_their_objects_from_the_collector():
    assert all(count > 1000 for count in forked_workers(4, 2))
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("nothing_frozen")
def test_what_the_user_has_frozen_is_counted_once(monkeypatch):
    counts = []
    monkeypatch.setattr(gc, "get_freeze_count", lambda: counts.append(len(counts)) or len(counts) - 1)
    for _ in range(3):
        assert len(list(forked_workers(4, 1))) == 4
    assert counts == [0, 1]


@pytest.mark.usefixtures("nothing_frozen")
def test_what_the_user_has_frozen_stays_frozen_alone():
    gc.freeze()
    before = gc.get_freeze_count()
    later = [[] for _ in range(10_000)]
    (frozen,) = forked_workers(1, 1)
    assert 0 < frozen.item() <= before
    assert 0 < gc.get_freeze_count() <= before
    assert len(later) == 10_000
