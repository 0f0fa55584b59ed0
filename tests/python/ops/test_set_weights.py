# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Weights of a mixture that are set while it is read: what was handed out stays, and nothing is lost or repeated."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from mixture_pipelines import ENTRIES, NUMBER, SCHEDULED_SOURCES, STEPS, letters, numbered, numbers, source

import torch_distinput as tdi

LENGTHS = st.lists(st.integers(0, 5), min_size=1, max_size=6)


@given(SCHEDULED_SOURCES, ENTRIES, STEPS, NUMBER, st.booleans(), st.booleans())
def test_weights_set_while_reading_are_those_of_a_schedule(sources, entries, steps, number, streams, ahead):
    entries = [[1.0] * 5, *entries[:2]]
    count = len(sources)
    weights = [e[:count] if any(e[:count]) else [1.0] * count for e in entries]
    at = [0, steps[0], steps[0] + steps[1]][: len(weights)]
    options = tdi.Options(seed=5)
    datasets = [source(i, given, 0, streams) for i, given in enumerate(sources)]
    for known in range(1, len(at)):  # weights for what lies behind the end as it is known are others
        before = tdi.Dataset.sample_from_datasets(datasets, list(zip(at[:known], weights)), number)
        assume(len(numbers(before.with_options(options))) >= at[known])
    plain = tdi.Dataset.sample_from_datasets(datasets, weights[0], number).with_options(options)
    scheduled = tdi.Dataset.sample_from_datasets(datasets, list(zip(at, weights, strict=True)), number)
    expected = numbers(scheduled.with_options(options))
    ahead = ahead and not streams
    iterator = plain._native.iterate(epoch=1)
    found = []
    for step in range(len(expected) + 2):
        for position, entry in zip(at[1:], weights[1:], strict=True):
            if ahead and step == 0:
                iterator.set_weights(entry, position)
            elif not ahead and step == position <= len(expected):
                iterator.set_weights(entry)
        if step == len(expected) // 2:  # a position keeps the changes
            state = iterator.state_dict()
            iterator = plain._native.iterate(epoch=0)
            iterator.load_state_dict(state)
        found += [element.tolist() for element in [next(iterator, None)] if element is not None]
    assert found == expected


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("distributed", [False, True])
def test_a_loader_changes_weights_at_the_step_and_keeps_them(distributed, streams):
    datasets = [ds.filter(lambda row: row >= 0) if streams else ds for ds in letters()]
    mixed = tdi.Dataset.sample_from_datasets(datasets, [1, 0]).take(48)
    kwargs = {"distributed": True} if distributed else {}
    loader = tdi.DataLoader(mixed, batch_size=8, **kwargs)
    seen = []
    for step, batch in enumerate(loader):
        seen.append(set(batch.tolist()))
        if step == 2:
            loader.set_weights([0, 1])
        if step == 3:
            state = loader.state_dict()
    assert seen == [{0}] * 3 + [{1}] * 3
    assert [set(batch.tolist()) for batch in loader] == [{1}] * 6  # later epochs, too
    resumed = tdi.DataLoader(mixed, batch_size=8, **kwargs)
    resumed.load_state_dict(state)
    assert [set(batch.tolist()) for batch in resumed] == [{1}] * 2
    assert [set(batch.tolist()) for batch in resumed] == [{1}] * 6
    resumed.set_weights([1, 0])
    assert [set(batch.tolist()) for batch in resumed] == [{0}] * 6


def test_a_loader_changes_weights_at_a_later_step():
    mixed = tdi.Dataset.sample_from_datasets(letters(), [(0, [1, 0]), (5, [1, 1])]).take(64)
    for kwargs in ({}, {"distributed": True}):
        loader = tdi.DataLoader(mixed, batch_size=8, **kwargs)
        seen = []
        for step, batch in enumerate(loader):
            seen.append(set(batch.tolist()))
            if step == 1:
                loader.set_weights([0, 1], step=4)  # instead of the rest of the schedule
        assert seen == [{0}] * 4 + [{1}] * 4
        with pytest.raises(ValueError, match="between epochs, pass none"):
            loader.set_weights([1, 1], step=3)


def test_what_cannot_be_set_is_named():
    mixed = tdi.Dataset.sample_from_datasets(letters(), [1, 0])
    loader = tdi.DataLoader(mixed.take(20), batch_size=4)
    batches = iter(loader)
    next(batches)
    for weights, step, message in [
        ([1], None, "one entry for each of the 2 datasets, but has 1"),
        ([0, 0], None, "must not all be 0"),
        ([0, -1], None, "must be finite and at least 0, but one is -1"),
        ([1, 1], 0, "must be at least 1, the next one, but is 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            loader.set_weights(weights, step)
    for dataset, message in [
        (tdi.Dataset.range(8), "has no `sample_from_datasets`"),
        (mixed.take(8).repeat(2), "what `repeat` after sample_from_datasets has handed out may depend"),
        (mixed.take(8).cache(), "what `cache` after sample_from_datasets has handed out may depend"),
        (mixed.take(8).shuffle(3), "what `shuffle` after sample_from_datasets has handed out may depend"),
        (mixed.batch_by_cost(lambda row: 1, 4, window=8), "what `batch_by_cost` after"),
        (mixed.filter(lambda row: row >= 0).map(lambda row: row.expand(2)).pack(3), "what `pack` after"),
        (tdi.Dataset.zip((mixed, mixed)).take(8), "has several `sample_from_datasets` side by side"),
        (mixed.take(8).shuffle(), "what `shuffle` after"),
    ]:
        iterator = iter(dataset)
        next(iterator)
        with pytest.raises(ValueError, match=f"set_weights: .*{message}"):
            iterator.set_weights([1, 1])
        next(iterator)  # goes on
    with pytest.raises(ValueError, match="set_weights: `step` is a step of an epoch"):
        batches = iter(loader := tdi.DataLoader(torch.arange(5)))
        next(batches)
        loader.set_weights([1])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([[-1, [1, 1]]], "positions of the saved `weights` must increase from 0 on, but one is -1"),
        ([[3, [1, 1]], [3, [1, 1]]], "must increase"),
        ([[3]], "must be a position and weights"),
        ([[3, [1]]], "one entry for each of the 2 datasets"),
        ([[3, [1, "x"]]], "expected a float, found a string"),
        ("x", "must be a list"),
    ],
)
def test_damaged_weights_of_a_state_are_named(weights, message):
    mixed = tdi.Dataset.sample_from_datasets(letters(), [1, 0])
    iterator = iter(mixed)
    state = iterator.state_dict() | {"weights": weights}
    with pytest.raises(ValueError, match=message):
        iterator.load_state_dict(state)


def changed_at(loader: tdi.DataLoader, weights: list[float], at: int, first: int) -> list[int]:
    """What `loader` yields where these weights are set after `at` steps, for those from step `first` on."""
    iterator, found = iter(loader), []
    for _ in range(at):
        found += next(iterator).flatten().tolist()
    loader.set_weights(weights, first)
    return found + [token for batch in iterator for token in batch.flatten().tolist()]


@given(
    st.lists(LENGTHS, min_size=2, max_size=3).filter(lambda corpora: any(map(any, corpora))),
    st.sampled_from([None, "greedy", "best_fit"]),
    st.integers(1, 4),
    st.integers(1, 3),
    st.lists(st.floats(0.1, 9), min_size=3, max_size=3),
)
def test_what_was_handed_out_before_a_change_is_not_lost_or_repeated(corpora, strategy, window, batch, weights):
    firsts = [1 + sum(sum(lengths) for lengths in corpora[:i]) for i in range(len(corpora))]
    if strategy is None:
        datasets = [tdi.Dataset.range(first, first + sum(ds)) for ds, first in zip(corpora, firsts, strict=True)]
        mixed = tdi.Dataset.sample_from_datasets(datasets, seed=2)
    else:
        datasets = [numbered(lengths, first) for lengths, first in zip(corpora, firsts, strict=True)]
        packed = tdi.Dataset.sample_from_datasets(datasets, seed=2).pack(2, strategy=strategy, window=window)
        mixed = packed.map(lambda row: row["tokens"])
    loader = tdi.DataLoader(mixed, batch_size=batch, distributed=True)
    steps = len(loader)
    for at in range(steps + 1):
        for first in {at, (at + steps) // 2}:
            loader.load_state_dict({})
            found = changed_at(loader, weights[: len(corpora)], at, first)
            assert sorted(filter(None, found)) == list(range(1, 1 + sum(map(sum, corpora))))


@given(st.lists(st.integers(0, 9), min_size=2, max_size=3), st.integers(1, 3), st.integers(0, 9))
def test_rows_that_steps_exchange_are_not_lost_or_repeated(sizes, window, when):
    datasets = [tdi.Dataset.range(10 * i, 10 * i + size) for i, size in enumerate(sizes)]
    mixed = tdi.Dataset.sample_from_datasets(datasets, seed=2)
    loader = tdi.DataLoader(
        mixed, batch_size=2, distributed=True, balance=lambda row: int(row) % 5, balance_window=window
    )
    iterator, found = iter(loader), []
    for _ in range(window * when):
        found += next(iterator, torch.tensor([])).tolist()
    loader.set_weights([1, 5, 2][: len(sizes)])
    found += [row for batch in iterator for row in batch.tolist()]
    assert sorted(found) == [10 * i + row for i, size in enumerate(sizes) for row in range(size)]


def test_steps_that_cannot_be_the_first_are_named():
    mixed = tdi.Dataset.sample_from_datasets([tdi.Dataset.range(6), tdi.Dataset.range(6)], [1, 1])
    loader = tdi.DataLoader(mixed, batch_size=2, distributed=True)
    next(iter(loader))
    iterator = iter(loader)
    with pytest.raises(ValueError, match="`step` must be at most 6, the number of steps, but is 7"):
        loader.set_weights([1, 2], 7)
    del iterator
    exchanged = tdi.DataLoader(mixed, batch_size=2, distributed=True, balance=lambda row: 1, balance_window=2)
    iterator = iter(exchanged)
    next(iterator)
    with pytest.raises(ValueError, match="`step` must be a multiple of 2, because rows of that many steps are exchan"):
        exchanged.set_weights([1, 2])
    next(iterator)
    exchanged.set_weights([1, 2])
    assert len(list(iterator)) == 4
