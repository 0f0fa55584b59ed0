# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Damaged states of every op: an error that names a field, or a position from which no surplus row is read."""

import copy
import math
import random

import pytest
import torch
from sample_files import number_files

import torch_distinput as tdi

ROWS = 12
MUTATIONS = 120


def rows(count=ROWS):
    return tdi.Dataset.range(count)


def stream(count=ROWS):
    """Rows on the sequential path only."""
    return rows(count).filter(lambda x: True)


def failing(x):
    if int(x) == 3:
        raise ValueError("bad row")
    return x


def skipping(dataset):
    return dataset.with_options(tdi.Options(on_error="skip"))


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
}


def distributed(name):
    make, options = DISTRIBUTED[name]
    return tdi.MirroredStrategy(list(LOCAL)).distribute_dataset(make(), tdi.InputOptions(**options))


def deep(levels):
    value = 1
    for level in range(levels):
        value = {"a": value} if level % 2 else [value]
    return value


def itself():
    value = {}
    value["input"] = [value, value]
    return value


# The words for some fields in error messages.
PHRASES = {
    "kind": "a state of",
    "permutation": "of the shuffle order",
    "offset": "at byte",  # a byte at which no record begins
    "input": "the dataset must have 12 elements",  # assert_cardinality's own error
}
DEEP = [deep(50_000), deep(900), itself()]
HUGE = [2**k + d for k in (20, 31, 40, 48, 53, 62) for d in (-1, 0, 1)] + [2**63 - 1, 10**9]
JUNK = [None, True, False, -1, -5, -(2**31), -(2**63), 2**63, math.nan, math.inf, 1.5, "", "text", b"bytes", [], {}]
JUNK += [[None] * 3, [1, "a"], {"a": 1}, "\ud800", torch.zeros(1)]


def places(value, path=()):
    """The path of every entry below `value`."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield (*path, key)
        yield from places(entry, (*path, key))


def lookup(state, path):
    for key in path:
        state = state[key]
    return state


def mutate(draw, state):
    """A damaged copy of `state`, and the fields that an error may name."""
    state = copy.deepcopy(state)
    paths = [path for path in places(state) if path[0] != "pipeline"]
    path = draw.choice(paths)
    parent, key, old = lookup(state, path[:-1]), path[-1], lookup(state, path)
    fields = {name for place in [path, *places(old, path)] for name in place if isinstance(name, str)}
    kind = draw.random()
    if kind < 0.15:
        del parent[key]
    elif kind < 0.3:
        parent[key] = copy.deepcopy(lookup(state, draw.choice(paths)))
    elif kind < 0.35:
        parent[key] = draw.choice(DEEP)
    elif type(old) is int and kind < 0.9:
        parent[key] = draw.choice([draw.choice(HUGE), -draw.choice(HUGE), old + draw.choice([-2, -1, 1, 2])])
    else:
        parent[key] = draw.choice(JUNK)
    return state, fields


def numbers(value):
    """How many numbers an element holds."""
    if isinstance(value, torch.Tensor):
        return value.values().numel() if value.is_nested else value.numel()
    if isinstance(value, tdi.PerReplica):
        return sum(map(numbers, value.values))
    return sum(map(numbers, value))


def count(iterator, most):
    """How many numbers are left; stops counting beyond `most`."""
    left = 0
    for element in iterator:
        left += numbers(element)
        if left > most:
            break
    return left


def check(draw, fresh, most):
    """Loads damaged states: each is refused with an error that names a field, or yields at most `most` numbers."""
    states = [iter_state(fresh(), steps) for steps in range(5)]
    iterator = fresh()
    refused = 0
    for _ in range(MUTATIONS):
        state, fields = mutate(draw, draw.choice(states))
        try:
            iterator.load_state_dict(state)
            left = count(iterator, most)
        except (ValueError, TypeError, tdi.FailedPreconditionError) as error:
            refused += 1
            words = {*fields, *(PHRASES[field] for field in fields & set(PHRASES)), "saved position"}
            assert any(word in str(error) for word in words), (str(error), fields, state)
        else:
            assert left <= most, state
    assert refused > MUTATIONS / 4
    # Refused states have changed nothing.
    for step, state in enumerate(states):
        iterator.load_state_dict(state)
        assert iterator.state_dict() == state, step


def iter_state(iterator, steps):
    for _ in range(steps):
        if next(iterator, None) is None:
            break
    return iterator.state_dict()


@pytest.mark.parametrize("name", PIPELINES)
def test_a_damaged_state_of_an_iterator(name):
    dataset = PIPELINES[name]()
    # If the input is moved back, the elements of the open datasets of an interleave come a second time.
    twice = 2 if "interleave" in name or "map" in name else 1
    check(random.Random(name), lambda: iter(dataset), twice * ROWS)


@pytest.mark.parametrize("name", DISTRIBUTED)
def test_a_damaged_state_of_a_distributed_iterator(name):
    dataset = distributed(name)
    check(random.Random(name), lambda: iter(dataset), 4 * ROWS if "tail" in name else ROWS)
