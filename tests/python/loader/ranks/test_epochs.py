# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Epochs and resumes of `DataLoader(distributed=True)`: `set_epoch`, states, other numbers of ranks."""

import itertools

import pytest
from distributed_loaders import make, rows_of
from ranks import returned, run_ranks

import torch_distinput as tdi


def restart(rank, kind, n, batch, state, steps):
    loader = make(kind, n, rank, batch_size=batch, shuffle=True)
    if state is not None:
        loader.load_state_dict(state)
    return [row for batch in itertools.islice(loader, steps) for row in rows_of(batch)], loader.state_dict()


SLOW = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("workers", "pipeline")]


@pytest.mark.parametrize("kind", ["native", "python", *SLOW])
def test_a_run_goes_on_on_another_number_of_ranks(kind):
    n, state, seen = 97, None, []
    for world, batch, steps in ((4, 3, 3), (3, 4, 2), (2, 7, 1000)):
        results = returned(run_ranks(restart, world, kind, n, batch, state, steps, may_fork=True))
        seen += [row for rows, _ in results for row in rows]
        state = results[0][1]
    assert sorted(seen) == list(range(n))


def test_set_epoch_of_a_dataset_of_this_library_counts():
    dataset = tdi.Dataset.range(20).shuffle(seed=1)
    loader = tdi.DataLoader(dataset, 4, distributed=True)
    epochs = [[rows_of(batch) for batch in loader] for _ in range(3)]
    dataset.set_epoch(1)
    assert [rows_of(batch) for batch in loader] == epochs[1]
    assert loader.last_info.epoch == 1


@pytest.mark.parametrize("kind", ["native", "python", "workers"])
def test_set_epoch_counts_until_the_first_step(kind):
    """As with torch's samplers, which draw their order when they are asked for the first index."""
    epochs = [[rows_of(batch) for batch in make(kind, 20, 0, shuffle=True, seed=1)]]
    loader = make(kind, 20, 0, shuffle=True, seed=1)
    iterator = iter(loader)
    loader.sampler.set_epoch(1)
    epochs.append([rows_of(batch) for batch in iterator])
    assert epochs[0] != epochs[1] and loader.last_info.epoch == 1
    again = make(kind, 20, 0, shuffle=True, seed=1)
    again.set_epoch(1)
    iterator = iter(again)
    begun = [rows_of(next(iterator))]
    again.set_epoch(7)  # too late for this one
    assert begun + [rows_of(batch) for batch in iterator] == epochs[1]
    next(iter(again))
    assert again.last_info.epoch == 7


def test_set_epoch_leaves_the_rest_of_another_epoch_behind():
    """A state after the last step: a program that goes on with the next epoch gets all of it."""
    loader, again = (make("native", 20, 0, shuffle=True) for _ in range(2))
    iterator = iter(loader)
    for _ in range(len(loader)):
        next(iterator)
    again.load_state_dict(loader.state_dict())
    iterator = iter(again)
    again.sampler.set_epoch(1)
    assert [rows_of(batch) for batch in iterator] == [rows_of(batch) for batch in loader]


@pytest.mark.parametrize("finished", [False, True])
def test_a_count_of_epochs_that_begins_anew_follows_the_state(finished):
    """Fabric counts those of its process."""
    loader, again = (make("native", 20, 0, shuffle=True) for _ in range(2))
    list(loader)
    iterator = iter(loader)
    for _ in range(len(loader) - 1):
        next(iterator)
    if finished:
        list(iterator)
    again.load_state_dict(loader.state_dict())
    rest = [] if finished else [[rows_of(batch) for batch in iterator]]
    rest += [[rows_of(batch) for batch in loader] for _ in range(2)]
    for epoch, expected in enumerate(rest):
        again.sampler.set_epoch(epoch)
        assert [rows_of(batch) for batch in again] == expected


def later_epochs(rank, kind, state):
    loader = make(kind, 29, rank, shuffle=True)
    if state is not None:
        loader.load_state_dict(state)
        return [[rows_of(batch) for batch in loader] for _ in range(3)]
    list(loader)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    return state, [[rows_of(batch) for batch in iterator], *([rows_of(batch) for batch in loader] for _ in range(2))]


@pytest.mark.parametrize("kind", ["native", "python", "pipeline"])
def test_later_epochs_after_a_resume_are_those_of_the_run_that_went_on(kind):
    first = returned(run_ranks(later_epochs, 2, kind, None))
    again = returned(run_ranks(later_epochs, 2, kind, first[0][0]))
    assert again == [epochs for _, epochs in first]
    assert len({str(epoch) for epoch in again[0]}) == 3
