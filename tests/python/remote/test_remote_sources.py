# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Rows of objects are those of the same files, in the same order."""

import io
import random

import numpy as np
import pytest
from remote_sources import ROWS, SOURCES, elements, upload, write

import torch_distinput as tdi


@pytest.fixture(params=SOURCES)
def kind(request):
    return request.param


@pytest.fixture(params=["http", "s3"])
def both(request, kind, tmp_path, object_server):
    """The dataset over files, and that over objects."""
    paths = write(kind, tmp_path)
    return SOURCES[kind].open(paths), SOURCES[kind].open(upload(object_server, paths, request.param))


def test_an_array_is_open_after_one_answer(store):
    file = io.BytesIO()
    np.save(file, np.arange(10_000).reshape(100, 100))
    url = store.put("array.npy", file.getvalue())
    rows = tdi.NumpyDataset(url)
    assert len(rows) == 100
    assert len(store.server.requests()) == 1
    assert next(iter(rows))[1] == 1


def test_rows_are_those_of_the_files(both):
    local, remote = both
    assert remote.cardinality() == local.cardinality() == ROWS
    assert elements(remote) == elements(local)


def test_random_pipelines_yield_the_same(both):
    local, remote = both
    seeds = random.Random(str(both))
    for _ in range(6):
        seed = seeds.randrange(1 << 30)
        assert elements(pipeline(remote, seed)) == elements(pipeline(local, seed)), seed


def pipeline(dataset, seed):
    rng = random.Random(seed)
    for _ in range(rng.randrange(4)):
        step = rng.choice(["shuffle", "window", "take", "skip", "shard", "repeat"])
        if step == "shuffle":
            dataset = dataset.shuffle(ROWS, seed=seed)
        elif step == "window":
            dataset = dataset.shuffle(5, seed=seed)
        elif step == "take":
            dataset = dataset.take(rng.randrange(1, ROWS))
        elif step == "skip":
            dataset = dataset.skip(rng.randrange(20))
        elif step == "shard":
            dataset = dataset.shard(2, rng.randrange(2))
        elif step == "repeat":
            dataset = dataset.repeat(2)
    if rng.random() < 0.3:
        dataset = dataset.prefetch(rng.randrange(4))
    return dataset


def test_streams_yield_the_same(both):
    local, remote = both
    assert elements(remote.filter(lambda *row: True)) == elements(local.filter(lambda *row: True))


def test_an_epoch_goes_on_from_a_state(both):
    local, remote = both
    expected = elements(local.shuffle(ROWS, seed=3))
    iterator = iter(remote.shuffle(ROWS, seed=3))
    begin = elements(next(iterator) for _ in range(20))
    state = iterator.state_dict()
    later = iter(remote.shuffle(ROWS, seed=3))
    later.load_state_dict(state)
    assert begin + elements(later) == expected


def test_ranks_share_the_rows(both):
    local, remote = both
    strategy = tdi.MirroredStrategy(["cpu"] * 3)
    for dataset in (local, remote):
        batches = dataset.shuffle(ROWS, seed=1).map(lambda *row: 1).batch(10)
        distributed = strategy.experimental_distribute_dataset(batches)
        assert sum(int(part.sum()) for step in distributed for part in step.values) == ROWS
