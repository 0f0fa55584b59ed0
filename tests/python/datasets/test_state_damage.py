# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Damaged states of every op: an error that names a field, or a position from which no surplus row is read."""

import random

import pytest
import torch
from damaged_states import check
from format_datasets import skipping
from sample_files import number_files

import torch_distinput as tdi

ROWS = 12


def rows(count=ROWS):
    return tdi.Dataset.range(count)


def stream(count=ROWS):
    """Rows on the sequential path only."""
    return rows(count).filter(lambda x: True)


def failing(x):
    if int(x) == 3:
        raise ValueError("bad row")
    return x


def generated():
    return tdi.Dataset.from_generator(lambda: (torch.tensor(i) for i in range(ROWS)), None)


class Rows:
    def __getitem__(self, index):
        if not 0 <= index < ROWS:
            raise AssertionError(f"row {index} was asked for")
        return torch.tensor(index)

    def __len__(self):
        return ROWS


def files(reader, fmt, **arguments):
    paths = number_files([[0, 1, 2, 3], [4, 5, 6], [], [7, 8, 9, 10, 11]], fmt)
    return reader(paths, **arguments).map(lambda record: torch.tensor(len(record)))


def pairs(function="interleave", **arguments):
    return getattr(rows(6), function)(lambda x: rows(2).map(lambda y: y + 2 * x), **arguments)


def lengths(dataset, **arguments):
    return dataset.bucket_by_length(lambda x: x % 7, [2, 4], [3, 2, 4], **arguments)


PIPELINES = {
    "range": rows,
    "batch": lambda: rows().batch(5),
    "batch of a stream": lambda: stream().batch(5),
    "shuffle": lambda: rows().shuffle(seed=1).batch(3),
    "windowed shuffle": lambda: rows().shuffle(4, seed=1),
    "windowed shuffle of a stream": lambda: stream().shuffle(4, seed=1),
    "buffered shuffle": lambda: stream().shuffle(100, seed=1),
    "skipping shuffle": lambda: skipping(tdi.Dataset.from_torch(Rows()).shuffle(seed=1).map(failing)),
    "shuffled batches": lambda: rows().batch(5).shuffle(seed=1).take(2),
    "take and skip": lambda: stream().skip(2).take(9),
    "take of a plan": lambda: rows().batch(5).skip(1).take(1),
    "shard": lambda: stream().shard(3, 1),
    "repeat": lambda: stream(6).repeat(2),
    "repeated batches": lambda: rows(6).batch(4).repeat(2),
    "concatenate": lambda: stream(6).concatenate(rows(6)),
    "concatenate of plans": lambda: rows(6).batch(4).concatenate(rows(6).batch(3)),
    "zip": lambda: tdi.Dataset.zip((stream(), rows())).map(lambda a, b: a),
    "enumerate": lambda: stream().enumerate().map(lambda i, x: x),
    "map": lambda: stream().map(lambda x: x + 0),
    "map that skips": lambda: skipping(rows().map(failing)),
    "parallel map": lambda: stream().map(lambda x: x + 0, num_parallel_calls=2),
    "unordered map": lambda: stream().map(lambda x: x + 0, num_parallel_calls=2, deterministic=False),
    "filter that skips": lambda: skipping(rows().filter(lambda x: failing(x) >= 0)),
    "cache": lambda: stream().cache(),
    "prefetch": lambda: stream().prefetch(2),
    "flat_map": lambda: pairs("flat_map"),
    "interleave": lambda: pairs(cycle_length=3, block_length=2),
    "parallel interleave": lambda: pairs(cycle_length=3, num_parallel_calls=2),
    "unbatch": lambda: stream().batch(5).unbatch(),
    "rebatch": lambda: rows().batch(5).rebatch([2, 3]),
    "padded_batch": lambda: stream().padded_batch(5),
    "ragged_batch": lambda: stream().map(lambda x: x.reshape(1)).ragged_batch(5),
    "bucket_by_length": lambda: lengths(stream()),
    "unique": lambda: stream().unique(),
    "window": lambda: stream().window(5).flat_map(lambda window: window),
    "sample": lambda: tdi.Dataset.sample_from_datasets([stream(6), rows(6)], seed=1),
    "choose": lambda: tdi.Dataset.choose_from_datasets([stream(6), rows(6)], rows().map(lambda i: i % 2)),
    "assert_cardinality": lambda: stream().assert_cardinality(ROWS),
    "generator": generated,
    "torch dataset": lambda: tdi.Dataset.from_torch(Rows()),
    "torch dataset that skips": lambda: skipping(tdi.Dataset.from_torch(Rows())),
    "lines": lambda: files(tdi.TextLineDataset, "text"),
    "lines without an index": lambda: files(tdi.TextLineDataset, "text", index=False),
    "records": lambda: files(tdi.TFRecordDataset, "tfrecord", index=False),
    "parts": lambda: tdi.testing.worker_stream(stream().batch(4), 1, 2, 0),
    "legacy parts": lambda: tdi.testing.legacy_rebatch(rows().batch(4), 2),
}

LOCAL = ("cpu", "cpu")
DISTRIBUTED = {
    "plan": (lambda: rows().batch(5), {}),
    "stream": (lambda: stream().batch(5), {}),
    "balanced": (lambda: stream().batch(5), {"split": "balanced"}),
    "balanced plan": (lambda: rows().batch(5), {"split": "balanced"}),
    "without a batch size": (lambda: rows().batch(5).map(lambda x: x + 0).unbatch().batch(3), {}),
    "repeat": (lambda: rows(6).batch(4).repeat(2), {}),
    "tail repeat": (lambda: stream().batch(5), {"tail": "repeat"}),
    "tail padded": (lambda: stream().batch(5), {"tail": "padded"}),
    "without read-ahead": (lambda: stream().batch(5), {"per_replica_buffer_size": 0}),
    "generator": (lambda: generated().batch(5), {}),
    "fixed streams": (lambda: cut(6).batch(2), {}),
    "fixed streams, padded": (lambda: cut(2).batch(5), {"tail": "padded"}),
}


def cut(streams):
    """A pipeline of `streams` streams under policy STREAMS."""
    share = ROWS // streams
    numbers = rows(streams).flat_map(lambda i: tdi.Dataset.range(share * i, share * (i + 1)))
    return numbers.with_options(tdi.Options(auto_shard_policy=tdi.AutoShardPolicy.STREAMS))


def distributed(name):
    make, options = DISTRIBUTED[name]
    return tdi.MirroredStrategy(list(LOCAL)).distribute_dataset(make(), tdi.InputOptions(**options))


@pytest.mark.parametrize("name", PIPELINES)
def test_a_damaged_state_of_an_iterator(name):
    dataset = PIPELINES[name]()
    # If the input is moved back, the elements of the open datasets of an interleave come a second time.
    twice = 2 if "interleave" in name or "map" in name else 1
    check(random.Random(name), lambda: iter(dataset), twice * ROWS)


@pytest.mark.parametrize("name", DISTRIBUTED)
def test_a_damaged_state_of_a_distributed_iterator(name):
    dataset = distributed(name)
    assert ("applied as STREAMS" in str(dataset.explain())) == ("streams" in name)
    most = 4 * ROWS if "tail" in name else 2 * ROWS if "streams" in name else ROWS
    check(random.Random(name), lambda: iter(dataset), most)


def test_a_list_that_stands_in_a_state_many_times_is_refused():
    value = 1
    for _ in range(40):
        value = [value, value]
    iterator = iter(stream())
    with pytest.raises(ValueError, match=r"state\['position'\].*: a state must hold at most 4194304 values"):
        iterator.load_state_dict(iterator.state_dict() | {"position": value})
