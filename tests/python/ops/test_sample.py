# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Dataset.sample: shares, both modes, kinds of weights, epochs, laws, replicas, errors."""

import collections

import numpy
import pipelines
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torch_distinput as tdi

WEIGHTS = [1.0, 0.0, 2.0, 5.0, 0.5]


def integers(dataset: tdi.Dataset) -> list[int]:
    return [int(number) for number in dataset]


def chi_square(found: dict[int, int], shares: list[float]) -> float:
    """How far counts are from what `shares` lets expect; about as many as there are shares, if they are right."""
    draws = sum(found.values())
    return sum((found.get(row, 0) - draws * share) ** 2 / (draws * share) for row, share in enumerate(shares) if share)


@pytest.mark.parametrize("kind", [torch.tensor, numpy.array, list, tuple])
def test_shares_follow_the_weights(kind):
    dataset = tdi.Dataset.range(5).sample(kind(WEIGHTS), num_samples=20_000, seed=1)
    found = collections.Counter(integers(dataset))
    assert len(dataset) == sum(found.values()) == 20_000
    assert found[1] == 0
    assert chi_square(found, [weight / sum(WEIGHTS) for weight in WEIGHTS]) < 3 + 5 * (2 * 3) ** 0.5


def test_consecutive_draws_do_not_depend_on_each_other():
    rows = integers(tdi.Dataset.range(4).sample([1, 1, 1, 1], num_samples=40_001, seed=2))
    pairs = collections.Counter(4 * one + other for one, other in zip(rows, rows[1:]))
    assert chi_square(pairs, [1 / 16] * 16) < 15 + 5 * 30**0.5


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12).filter(any), st.integers(0, 9))
def test_without_replacement_each_element_comes_once(weights, seed):
    some = [row for row, weight in enumerate(weights) if weight]
    dataset = tdi.Dataset.range(len(weights))
    order = integers(dataset.sample(weights, len(some), replacement=False, seed=seed))
    assert sorted(order) == some
    for count in range(1, len(some)):
        assert integers(dataset.sample(weights, count, replacement=False, seed=seed)) == order[:count]


def test_without_replacement_the_first_draw_is_one_by_weight():
    dataset = tdi.Dataset.range(4).sample([1, 2, 3, 4], 1, replacement=False, seed=5)
    found = collections.Counter(int(next(iter(dataset))) for _ in range(4000))
    assert chi_square(found, [0.1, 0.2, 0.3, 0.4]) < 3 + 5 * 6**0.5


@pytest.mark.parametrize("replacement", [True, False])
def test_draws_are_a_function_of_seed_epoch_and_number(replacement):
    def draws(epoch, seed=3, count=20):
        dataset = tdi.Dataset.range(30).sample(torch.ones(30), count, replacement, seed)
        dataset.set_epoch(epoch)
        return integers(dataset)

    assert draws(0) == draws(0) and draws(0) != draws(1) and draws(0) != draws(0, seed=4)
    assert draws(2, count=9) == draws(2)[:9]


def test_a_seed_of_the_options_makes_draws_without_one_reproducible():
    def draws(seed):
        dataset = tdi.Dataset.range(30).sample(torch.ones(30), 20).with_options(tdi.Options(seed=seed))
        return integers(dataset)

    assert draws(1) == draws(1) != draws(2)


def test_later_writes_to_the_weights_change_nothing():
    weights = torch.tensor([0.0, 1.0])
    dataset = tdi.Dataset.range(2).sample(weights, 5)
    weights[:] = torch.tensor([1.0, 0.0])
    assert integers(dataset) == [1] * 5


@pytest.mark.parametrize("replacement", [True, False])
def test_any_number_of_replicas_shares_the_draws(replacement):
    dataset = tdi.Dataset.range(50).sample(torch.arange(50), 45, replacement, seed=3).batch(8)
    expected = [int(row) for batch in dataset for row in batch]
    for replicas in range(1, 8):
        dataset.set_epoch(0)
        strategy = tdi.MirroredStrategy(["cpu"] * replicas)
        steps = strategy.distribute_dataset(dataset, tdi.InputOptions(split="balanced"))
        found = [row for step in steps for part in strategy.local_results(step) for row in part.tolist()]
        assert found == expected


@given(pipelines.chains(with_stream_ops=False))
def test_pipelines_with_draws_obey_the_laws(chain):
    source, rows, ops, *rest = chain
    pipelines.check_laws(pipelines.build((source, rows, [("draw", 3), *ops], *rest)))


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda ds: ds.sample([1, 2], 1), ValueError, "one entry for each of the 3 elements, but has 2"),
        (lambda ds: ds.sample([1, -2, 1], 1), ValueError, "at least 0, but entry 1 is -2"),
        (
            lambda ds: ds.sample([1, float("nan"), 1], 1),
            ValueError,
            "must be finite and at least 0, but entry 1 is nan",
        ),
        (lambda ds: ds.sample([0, 0, 0], 1), ValueError, "must not all be 0"),
        (lambda ds: ds.sample([[1], [1], [1]], 1), TypeError, "one dimension"),
        (lambda ds: ds.sample("abc", 1), TypeError, "must be a tensor, an array or a list of numbers, but is a str"),
        (lambda ds: ds.sample([1, 1, 1], 0), ValueError, "`num_samples` must be at least 1, but is 0"),
        (lambda ds: ds.sample([1, 1, 1], 1.5), TypeError, "`num_samples` must be an int"),
        (lambda ds: ds.sample([1, 1, 0], 3, False), ValueError, "which is 2, but is 3"),
        (lambda ds: ds.sample([1, 1, 1], 1, 1), TypeError, "`replacement` must be a bool"),
        (lambda ds: ds.filter(bool).sample([1, 1, 1], 1), ValueError, "is unknown; sample before it"),
        (lambda ds: ds.repeat().sample([1, 1, 1], 1), ValueError, "is infinite; sample before it"),
    ],
)
def test_wrong_arguments_are_named(make, error, text):
    with pytest.raises(error, match="sample: ") as raised:
        make(tdi.Dataset.range(3))
    assert text in str(raised.value)
