# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Laws of every pipeline: both paths agree, resume, thread counts, retained batches, epochs and seeds."""

import copy

import pipelines
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torch_distinput as tdi


@given(pipelines.chains())
def test_both_paths_yield_the_same_elements(chain):
    dataset = pipelines.build(chain)
    assert pipelines.elements(dataset, epoch=3) == pipelines.elements(dataset, epoch=3, stream_only=True)


@given(pipelines.chains())
def test_every_position_can_be_resumed(chain):
    tdi.testing.assert_resumable(pipelines.build(chain))


@given(pipelines.chains(), st.integers(1, 4), st.sampled_from([None, 0, 1, 3]), st.sampled_from([None, 1, 10**6]))
def test_threads_and_read_ahead_do_not_change_elements(chain, threads, prefetch, prefetch_bytes):
    dataset = pipelines.build(chain).with_options(tdi.Options(seed=5))
    options = tdi.Options(num_threads=threads, prefetch=prefetch, prefetch_bytes=prefetch_bytes)
    assert pipelines.elements(dataset.with_options(options), epoch=1) == pipelines.elements(dataset, epoch=1)


@given(pipelines.chains())
def test_a_known_cardinality_is_the_number_of_elements(chain):
    dataset = pipelines.build(chain)
    count = len(pipelines.elements(dataset))
    if dataset.cardinality() == tdi.UNKNOWN:
        with pytest.raises(TypeError):
            len(dataset)
    else:
        assert count == dataset.cardinality() == len(dataset)


@given(pipelines.chains())
def test_elements_fit_the_spec(chain):
    dataset = pipelines.build(chain)
    found = list(dataset)
    if not found:
        return
    spec = dataset.element_spec
    for element in found:
        assert list(element) == list(spec)
        for key, value in element.items():
            assert value.dtype == spec[key].dtype
            assert len(value.shape) == len(spec[key].shape)
            assert all(dim in (None, size) for dim, size in zip(spec[key].shape, value.shape))


@pytest.mark.parametrize("make", sorted(pipelines.SOURCES))
@pytest.mark.parametrize("ops", [[], ["shuffle"], ["map"], ["cache"], ["filter"]])
def test_retained_batches_never_change(make, ops):
    dataset = pipelines.build((make, 64, [(op, 3) for op in ops], 4, False, ("none", 0)))
    kept = []
    for _ in range(4):
        for batch in dataset:
            kept.append((batch, copy.deepcopy(batch)))
    assert all(pipelines.plain(batch) == pipelines.plain(as_it_was) for batch, as_it_was in kept)
    pointers = [tensor.data_ptr() for batch, _ in kept for tensor in batch.values()]
    assert len(set(pointers)) == len(pointers)


@pytest.mark.parametrize("ops", [[], ["cache"], ["shuffle"], ["map"]])
def test_writing_into_a_batch_changes_no_later_one(ops):
    dataset = pipelines.build(("slices", 12, [(op, 3) for op in ops], 4, False, ("none", 0)))
    first = pipelines.elements(dataset, epoch=0)
    for batch in dataset._native.iterate(epoch=0):
        for tensor in batch.values():
            tensor.fill_(99)
    assert pipelines.elements(dataset, epoch=0) == first


def order(dataset: tdi.Dataset) -> list[int]:
    return [int(row) for batch in dataset for row in batch]


def shuffled(**options) -> tdi.Dataset:
    return tdi.Dataset.range(50).shuffle(**options).batch(8)


@pytest.mark.parametrize("buffer_size", [None, 10])
def test_each_epoch_is_shuffled_anew_and_a_seed_makes_that_reproducible(buffer_size):
    one, other = (shuffled(buffer_size=buffer_size, seed=7) for _ in range(2))
    epochs = [order(one) for _ in range(3)]
    assert epochs == [order(other) for _ in range(3)]
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert all(sorted(epoch) == list(range(50)) for epoch in epochs)
    assert order(shuffled(buffer_size=buffer_size, seed=8)) != epochs[0]


def test_without_reshuffling_every_epoch_is_the_same():
    dataset = shuffled(seed=7, reshuffle_each_iteration=False)
    assert order(dataset) == order(dataset)


def test_an_unseeded_shuffle_differs_between_datasets_but_not_from_the_options_seed():
    assert order(shuffled()) != order(shuffled())
    one, other = (shuffled().with_options(tdi.Options(seed=3)) for _ in range(2))
    assert order(one) == order(other)


def test_set_epoch_pins_the_next_epoch():
    dataset = shuffled(seed=7)
    epochs = [order(dataset) for _ in range(3)]
    dataset.set_epoch(1)
    assert [order(dataset), order(dataset)] == epochs[1:]


def test_an_iterator_that_yields_nothing_uses_up_no_epoch():
    dataset = shuffled(seed=7)
    iter(dataset)
    other = shuffled(seed=7)
    assert order(dataset) == order(other)


def test_a_break_ends_the_epoch():
    dataset, other = shuffled(seed=7), shuffled(seed=7)
    next(iter(dataset))
    order(other)
    assert order(dataset) == order(other)


def test_repeat_shuffles_each_round_differently():
    rounds = order(tdi.Dataset.range(20).shuffle(seed=1).repeat(2).batch(10))
    assert sorted(rounds[:20]) == sorted(rounds[20:]) == list(range(20))
    assert rounds[:20] != rounds[20:]


@given(st.integers(0, 3), st.integers(0, 7), st.booleans())
def test_a_state_restores_position_epoch_and_drawn_seed(epoch, taken, stream):
    def make():
        dataset = shuffled()  # no seed: the state must carry the one that was drawn
        return dataset.filter(lambda row: row.sum() >= 0) if stream else dataset

    dataset = make()
    dataset.set_epoch(epoch)
    iterator = iter(dataset)
    for _ in range(taken):
        next(iterator)
    state = iterator.state_dict()
    rest = [batch.tolist() for batch in iterator]
    resumed = iter(make())
    resumed.load_state_dict(state)
    assert [batch.tolist() for batch in resumed] == rest


def test_a_state_is_plain_data_and_saving_changes_nothing():
    iterator = iter(shuffled(seed=2))
    next(iterator)
    state = iterator.state_dict()
    assert iterator.state_dict() == state
    before = copy.deepcopy(state)
    list(iterator)
    assert state == before

    def check(value):
        if isinstance(value, dict):
            assert all(isinstance(key, str) for key in value)
            value = list(value.values())
        if isinstance(value, list):
            return all(map(check, value))
        assert value is None or isinstance(value, (bool, int, float, str))
        return True

    check(state)


def test_a_loaded_iterator_goes_back_and_forth():
    iterator = iter(shuffled(seed=2))
    states, batches = [], []
    for batch in iterator:
        batches.append(batch.tolist())
        states.append(iterator.state_dict())
    for index in (3, 0, 5, 2):
        iterator.load_state_dict(states[index])
        assert [batch.tolist() for batch in iterator] == batches[index + 1 :]


def test_stats_count_batches_and_rows():
    iterator = iter(tdi.Dataset.range(10).batch(4))
    list(iterator)
    stats = iterator.stats()
    assert (stats["batches"], stats["rows"], stats["bytes"], stats["rounds"]) == (3, 10, 80, 0)


def test_iterators_of_one_dataset_are_independent():
    dataset = shuffled(seed=3)
    dataset.set_epoch(0)
    one = iter(dataset)
    dataset.set_epoch(0)
    other = iter(dataset)
    got = [next(one), next(other), next(one)]
    assert torch.equal(got[0], got[1])
    assert torch.equal(next(other), got[2])
