# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""torch's WeightedRandomSampler with `distributed=True`: one draw for all ranks, on real processes."""

import collections
import itertools

import pytest
from distributed_loaders import make, rows_of
from ranks import returned, run_ranks
from torch.utils.data import BatchSampler, WeightedRandomSampler

import torch_distinput as tdi

ROWS, DRAWS, BATCH = 20, 33, 12
WEIGHTS = [float(row % 4) for row in range(ROWS)]


def weighted(replacement: bool = True) -> WeightedRandomSampler:
    return WeightedRandomSampler(WEIGHTS, DRAWS if replacement else 11, replacement)


def loader_of(kind, rank=0, replacement=True, **arguments):
    """A loader whose steps have 12 rows over all ranks."""
    arguments = {"batch_size": 1, "global_batch_size": BATCH, "sampler": weighted(replacement)} | arguments
    return make(kind, ROWS, rank, **arguments)


def steps_of(rank, kind, replacement, seed, epochs, state=None, count=None):
    loader = loader_of(kind, rank, replacement, seed=seed)
    if state is not None:
        loader.load_state_dict(state)
    result, states = [], []
    for _ in range(epochs):
        steps = []
        for batch in itertools.islice(loader, count):
            steps.append(rows_of(batch)[: loader.last_info.valid[0]])
            states.append(loader.state_dict())
        result.append(steps)
    return result, len(loader), states


def joined(ranks: list, epoch: int) -> list[list[int]]:
    """The rows of each step over all ranks."""
    return [sum(step, []) for step in zip(*(result[epoch] for result, *_ in ranks), strict=True)]


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("kind", ["native", "python"])
def test_any_number_of_ranks_shares_one_draw(kind, replacement):
    rows = tdi.Dataset.range(ROWS).sample(WEIGHTS, DRAWS if replacement else 11, replacement, seed=7).batch(BATCH)
    expected = [[batch.tolist() for batch in rows] for _ in range(2)]
    for world in range(1, 8):
        ranks = returned(run_ranks(steps_of, world, kind, replacement, 7, 2))
        assert [joined(ranks, epoch) for epoch in range(2)] == expected
        assert {length for _, length, _ in ranks} == {len(expected[0])}


@pytest.mark.parametrize("kind", ["native", "workers"])
def test_without_a_seed_the_ranks_still_agree(kind):
    ranks = returned(run_ranks(steps_of, 3, kind, False, None, 2, may_fork=True))
    epochs = [sum(joined(ranks, epoch), []) for epoch in range(2)]
    assert epochs[0] != epochs[1]
    for epoch in epochs:
        assert len(epoch) == len(set(epoch)) == 11 and all(WEIGHTS[row] for row in epoch)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("kind", ["native", "python"])
def test_every_step_goes_on_on_another_number_of_ranks(kind, replacement):
    ranks = returned(run_ranks(steps_of, 2, kind, replacement, None, 1))
    whole = joined(ranks, 0)
    for step, state in enumerate(ranks[0][2][:-1]):
        others = returned(run_ranks(steps_of, 3 + 2 * (step % 2), kind, replacement, None, 1, state))
        assert joined(others, 0) == whole[step + 1 :]


def test_shares_follow_the_weights():
    loader = make("native", ROWS, 0, batch_size=50, sampler=WeightedRandomSampler(WEIGHTS, 12_000), seed=1)
    found = collections.Counter(row for batch in loader for row in rows_of(batch))
    expected = [12_000 * weight / sum(WEIGHTS) for weight in WEIGHTS]
    assert all(found[row] == 0 for row, weight in enumerate(WEIGHTS) if not weight)
    distance = sum((found[row] - count) ** 2 / count for row, count in enumerate(expected) if count)
    assert distance < 14 + 5 * 28**0.5


@pytest.mark.parametrize("drop_last", [False, True])
def test_a_batch_sampler_around_it_says_size_and_end(drop_last):
    batches = make("native", ROWS, 0, batch_size=1, batch_sampler=BatchSampler(weighted(), 5, drop_last), seed=7)
    plain = make("native", ROWS, 0, batch_size=5, sampler=weighted(), drop_last=drop_last, seed=7)
    found = [rows_of(batch) for batch in batches]
    assert found == [rows_of(batch) for batch in plain]
    assert len(found) == len(batches) == (6 if drop_last else 7)


@pytest.mark.parametrize("kind", ["native", "python"])
def test_frameworks_see_the_draws_and_make_the_loader_anew(kind):
    loader = loader_of(kind, seed=7)
    found = [row for batch in loader for row in rows_of(batch)]
    assert list(loader.sampler) == found and len(loader.sampler) == DRAWS
    loader.sampler.set_epoch(0)
    assert [row for batch in loader for row in rows_of(batch)] == found
    again = tdi.DataLoader(loader.dataset, sampler=loader.sampler, seed=7, distributed=True, global_batch_size=BATCH)
    assert [row for batch in again for row in rows_of(batch)] == found


def test_steps_that_are_skipped_are_those_of_the_draws():
    loader = loader_of("native", seed=7)
    assert loader.global_valid(0, 2) == 24 and loader.global_valid(2) == DRAWS - 24
    loader.set_epoch(3)
    third = [rows_of(batch) for batch in loader]
    loader.set_epoch(3)
    assert [rows_of(batch) for batch in loader] == third


def test_explain_and_repr_name_the_sampler():
    loader = loader_of("native")
    assert "sampler=WeightedRandomSampler" in repr(loader)
    text = str(loader.explain())
    assert "the weights of the WeightedRandomSampler draw them, once for all ranks" in text
    assert "sample(weights of 20 elements, num_samples=33, replacement=True" in text


def test_a_subclass_draws_in_its_own_way():
    class Own(WeightedRandomSampler):
        pass

    loader = make("native", ROWS, 0, sampler=Own(WEIGHTS, DRAWS))
    assert "stream of its own" in str(loader.explain())


def test_weights_that_change_and_weights_that_do_not_fit_are_refused():
    sampler = weighted()
    loader = make("native", ROWS, 0, sampler=sampler)
    sampler.weights[0] = 9
    with pytest.raises(ValueError, match="were changed after the constructor"):
        iter(loader)
    with pytest.raises(ValueError, match="a weight for each of the 20 rows of the dataset, but has 3"):
        make("native", ROWS, 0, sampler=WeightedRandomSampler([1.0] * 3, 5))
    with pytest.raises(ValueError, match="number of weights above 0, which is 15, but is 16"):
        iter(make("native", ROWS, 0, sampler=WeightedRandomSampler(WEIGHTS, 16, replacement=False)))
    with pytest.raises(ValueError, match="needs `batch_size`"):
        make("native", ROWS, 0, sampler=weighted(), batch_size=None)
