# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A DataLoader reads the begin of the next epoch when the last batch of this one was taken, and nobody sees it."""

import copy
import gc
import io
import weakref

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from processes import wait_until
from remote_store import twice

import torch_distinput as tdi
from torch_distinput.distribute._distributed import native_of
from torch_distinput.loader.state import _next_epoch
from torch_distinput.loader.state._next_epoch import NextEpoch

ROWS, BATCH, WIDTH = 40, 8, 2048
STEPS = ROWS // BATCH


def array():
    file = io.BytesIO()
    np.save(file, np.arange(ROWS).reshape(-1, 1) * np.ones((1, WIDTH), np.int64))
    return file.getvalue()


def opened(name, **options):
    return tdi.DataLoader(tdi.NumpyDataset(name).shuffle(), batch_size=BATCH, seed=3, **options)


def numbers(batches):
    return [batch[:, 0].tolist() for batch in batches]


@pytest.mark.parametrize("distributed", [None, True])
@pytest.mark.parametrize("options", [{}, {"num_workers": 2}, {"prefetch_bytes": 1 << 20}])
def test_the_next_epoch_is_read_when_the_last_batch_is_taken(http_store, distributed, options):
    loader = opened(http_store.put("rows", array()), distributed=distributed, **options)
    for epoch in range(3):
        iterator = iter(loader)
        for _ in range(STEPS - 1):
            next(iterator)
        assert twice(http_store.reads("rows")) <= epoch * ROWS * WIDTH * 8
        next(iterator)
        wait_until(lambda epoch=epoch: twice(http_store.sent("rows")) > (epoch + 0.1) * ROWS * WIDTH * 8)
        assert next(iterator, None) is None


def test_what_was_read_is_not_read_again(http_store):
    loader = opened(http_store.put("rows", array()))
    first = numbers(loader)
    wait_until(lambda: twice(http_store.sent("rows")) >= ROWS * WIDTH * 8)
    iterator = iter(loader)
    second = numbers(next(iterator) for _ in range(STEPS - 1))
    assert twice(http_store.reads("rows")) <= 1.5 * ROWS * WIDTH * 8
    second += numbers(iterator)
    assert first != second
    assert sorted(sum(first, [])) == sorted(sum(second, [])) == list(range(ROWS))


def again(loader, epoch, k):
    loader.load_state_dict(loader.state_dict())
    return loader


def earlier(loader, epoch, k):
    state = opened_state(loader, k)
    loader.load_state_dict(state)
    return loader


def opened_state(loader, k):
    iterator = iter(loader)
    for _ in range(k):
        next(iterator, None)
    return loader.state_dict()


def called(name, *arguments):
    def act(loader, epoch, k):
        getattr(loader, name)(*[{"k": k, "next": epoch + 1, "rows": [k, 7 * k]}[argument] for argument in arguments])
        return loader

    return act


ACTIONS = {
    "nothing": lambda loader, epoch, k: loader,
    "state": called("state_dict"),
    "set_epoch": called("set_epoch", "k"),
    "set the next epoch": called("set_epoch", "next"),
    "seek": called("seek", "k"),
    "exclude": called("exclude", "rows"),
    "close": called("close"),
    "stats": called("stats"),
    "rows_of": called("rows_of", "next", "k"),
    "load the state": again,
    "load an earlier state": earlier,
    "copy": lambda loader, epoch, k: copy.copy(loader),
}


def epochs_of(loader, actions):
    """The batches of all epochs, some left early, with an action after each."""
    seen = []
    for epoch, (action, k, taken) in enumerate(actions):
        iterator = iter(loader)
        seen.append(numbers(batch for _, batch in zip(range(taken), iterator, strict=False)))
        loader = ACTIONS[action](loader, epoch, k)
    return [*seen, numbers(loader)]


@pytest.mark.parametrize("distributed", [None, True])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(ACTIONS)), st.integers(0, STEPS - 1), st.sampled_from([1, STEPS, STEPS, STEPS + 1])
        ),
        max_size=4,
    )
)
def test_whatever_happens_between_epochs_the_batches_are_those_of_files(http_store, tmp_path, distributed, actions):
    path = tmp_path / "rows.npy"
    path.write_bytes(array())
    remote, local = (opened(name, distributed=distributed) for name in (http_store.put("rows", array()), str(path)))
    assert epochs_of(remote, actions) == epochs_of(local, actions)


@pytest.mark.parametrize("distributed", [None, True])
def test_users_code_does_not_run_before_its_epoch(http_store, distributed):
    seen = []
    rows = tdi.NumpyDataset(http_store.put("rows", array())).map(lambda row: seen.append(int(row[0])) or row)
    loader = tdi.DataLoader(rows, batch_size=BATCH, num_workers=1, distributed=distributed)
    assert rows.element_spec.shape == (WIDTH,)
    seen.clear()
    list(loader)
    wait_until(lambda: twice(http_store.sent("rows")) > 0)
    assert sorted(seen) == list(range(ROWS))
    assert numbers(loader) == np.arange(ROWS).reshape(-1, BATCH).tolist()


def test_a_loader_that_is_dropped_leaves_nothing(http_store):
    loader = opened(http_store.put("rows", array()))
    list(loader)
    ahead = weakref.ref(loader._loader_progress.next_epoch._native)
    assert ahead() is not None
    gc.disable()
    try:
        del loader
        assert ahead() is None
    finally:
        gc.enable()


def test_close_ends_the_reading(http_store):
    loader = opened(http_store.put("rows", array()))
    list(loader)
    loader.close()
    assert loader._loader_progress.next_epoch.take(None) is None
    assert sorted(sum(numbers(loader), [])) == list(range(ROWS))


def test_a_child_process_does_not_use_what_its_parent_reads(http_store, monkeypatch):
    dataset = tdi.NumpyDataset(http_store.put("rows", array()))
    ahead = NextEpoch()
    ahead.begin("key", lambda: dataset._native.iterate(epoch=1))
    assert ahead._native is not None
    monkeypatch.setattr(_next_epoch.os, "getpid", lambda: -1)
    assert ahead.take("key") is None


def test_an_error_is_left_to_the_epoch_that_has_it():
    ahead = NextEpoch()
    ahead.begin("key", lambda: 1 / 0)
    assert ahead.take("key") is None


def test_files_and_streams_are_not_read_before_their_epoch(http_store, tmp_path):
    path = tmp_path / "rows.npy"
    path.write_bytes(array())
    rows = tdi.NumpyDataset(http_store.put("rows", array()))
    for dataset in (tdi.NumpyDataset(path), rows.filter(lambda row: True), rows.repeat()):
        assert iter(dataset).remote_elements_left() is None
    iterator = iter(rows.batch(BATCH))
    next(iterator)
    assert iterator.remote_elements_left() == STEPS - 1


def test_what_was_read_with_another_seed_is_read_again(http_store):
    rows = tdi.NumpyDataset(http_store.put("rows", array())).shuffle().batch(BATCH)
    assigned = native_of(tdi.OneDeviceStrategy("cpu").distribute_dataset(rows))

    def of_epoch(begun_with):
        native = assigned.iterate(epoch=1, seed=3)
        if begun_with is not None:
            native.begin_reading(begun_with)
        assert not native.is_remote or begun_with is not None
        return numbers(step[0] for step in iter(lambda: native.next(None), None))

    assert of_epoch(None) == of_epoch(3) == of_epoch(5)
