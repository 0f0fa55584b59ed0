# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Weights of a mixture that change by step, and those that are shares of tokens."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mixture_pipelines import AFTER, ENTRIES, NUMBER, SCHEDULED_SOURCES, STEPS, assert_resumes, numbers, scheduled

import torch_distinput as tdi


@given(SCHEDULED_SOURCES, ENTRIES, STEPS, st.sampled_from(["all", "first"]), st.sampled_from(sorted(AFTER)), NUMBER)
def test_changed_weights_keep_the_laws_of_mixtures(sources, entries, steps, stop_on, after, number):
    mixed = scheduled(sources, entries, steps, stop_on, number, per_step=1 + number)
    if after == "shuffle" and mixed.cardinality() == tdi.UNKNOWN:
        after = "window"  # a full shuffle needs the number of elements
    dataset = AFTER[after](mixed, number).with_options(tdi.Options(seed=5))
    assert numbers(dataset) == numbers(dataset, stream_only=True)
    if dataset.cardinality() != tdi.UNKNOWN:
        assert len(numbers(dataset)) == len(dataset)
    assert_resumes(dataset)
    assert_resumes(dataset, stream_only=True)


@given(SCHEDULED_SOURCES, ENTRIES, STEPS, NUMBER)
def test_streams_are_mixed_by_step_as_data_with_random_access(sources, entries, steps, number):
    seeded = tdi.Options(seed=5)
    streams = scheduled(sources, entries, steps, "all", number, streams=True).with_options(seeded)
    assert numbers(streams) == numbers(scheduled(sources, entries, steps, "all", number).with_options(seeded))


BETWEEN = {
    "nothing": lambda ds: ds,
    "map": lambda ds: ds.map(lambda row: row + 0),
    "shuffle": lambda ds: ds.shuffle(4),
    "cache": lambda ds: ds.take(500).cache(),
    "options": lambda ds: ds.prefetch(2).with_options(tdi.Options(seed=1)),
}


@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("kind", ["batch", "schedule", "loader"])
def test_a_step_is_a_batch_of_the_first_op_that_makes_batches(kind, between):
    datasets = [tdi.Dataset.from_tensors(torch.tensor(i)).repeat() for i in range(2)]
    mixed = BETWEEN[between](tdi.Dataset.sample_from_datasets(datasets, [(0, [1, 0]), (5, [0, 1])], seed=1))
    if kind == "loader":
        batches = iter(tdi.DataLoader(mixed, batch_size=20))
    else:
        batches = iter(mixed.batch(20 if kind == "batch" else [(0, 20), (3, 40)]))
    found = [set(next(batches).tolist()) for _ in range(10)]
    at_the_change = 1 if between == "shuffle" else 0  # rows of neighbouring steps
    assert found[: 5 - at_the_change] == [{0}] * (5 - at_the_change)
    assert found[5 + at_the_change :] == [{1}] * (5 - at_the_change)


def test_an_op_that_changes_the_number_of_elements_leaves_no_steps():
    mixed = tdi.Dataset.sample_from_datasets([tdi.Dataset.range(9)], [(0, [1]), (3, [2])])
    kept = mixed.filter(lambda row: row > 3)
    with pytest.raises(ValueError, match="batch: what is mixed by step has no steps here, because `filter` lies"):
        kept.batch(2)
    told = tdi.Dataset.sample_from_datasets([tdi.Dataset.range(9)], [(0, [1]), (3, [2])], elements_per_step=2)
    assert len(list(told.filter(lambda row: row > 3).batch(2))) == 3


def test_a_dataset_goes_on_after_its_last_element_when_it_has_weight_again():
    datasets = [tdi.Dataset.range(100), tdi.Dataset.range(1000, 1100)]
    mixed = tdi.Dataset.sample_from_datasets(datasets, [(0, [1, 0]), (10, [0, 1]), (20, [1, 0])])
    assert [int(row) for row in mixed.take(30)] == [*range(10), *range(1000, 1010), *range(10, 20)]
    assert mixed.cardinality() == tdi.UNKNOWN  # what is left of a dataset without weight depends on the draws
    assert "weights=[(0, [1, 0]), (10, [0, 1]), (20, [1, 0])]" in mixed.batch(4).explain()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([(1, [1, 1])], "must begin with those from step 0 on, but begins at step 1"),
        ([(0, [1, 1]), (0, [1, 2])], "the steps of the schedule `weights` must increase, but 0 follows 0"),
        ([(0, [1, 1]), (3, [0, 0])], "`weights` must not all be 0"),
        ([(0, [1, 1]), (3, [1])], "one entry for each of the 2 datasets, but has 1"),
        ([(0, [1, 1]), 3], "must be numbers or pairs \\(step, weights\\), but has both"),
        ([(0, [1, 1], 2)], "`weights\\[0\\]` must be a number or a pair \\(step, weights\\)"),
    ],
)
def test_wrong_schedules_are_named(weights, message):
    with pytest.raises(ValueError, match=f"sample_from_datasets: .*{message}"):
        tdi.Dataset.sample_from_datasets([tdi.Dataset.range(3)] * 2, weights)


def documents(lengths: list[int], first: int) -> tdi.Dataset:
    """Documents of these lengths; each token is the number of its corpus."""
    values = torch.full((sum(lengths),), first)
    bounds = torch.tensor([0, *lengths]).cumsum(0)
    return tdi.Dataset.from_tensor_slices(torch.nested.nested_tensor_from_jagged(values, bounds))


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 30), min_size=1, max_size=40).filter(any), st.floats(0.1, 10)),
        min_size=2,
        max_size=4,
    ),
    st.sampled_from([lambda ds: ds, lambda ds: ds.shuffle(seed=1), lambda ds: ds.shuffle(4, seed=2).take(1000)]),
)
def test_weights_are_shares_of_tokens(corpora, between):
    datasets = [between(documents(lengths, i)).repeat() for i, (lengths, _) in enumerate(corpora)]
    weights = [weight for _, weight in corpora]
    mixed = tdi.Dataset.sample_from_datasets(datasets, weights, seed=3, by="tokens")
    means = [sum(lengths) / len(lengths) for lengths, _ in corpora]
    drawn = [weight / mean for weight, mean in zip(weights, means, strict=True)]
    by_elements = tdi.Dataset.sample_from_datasets(datasets, drawn, seed=3)
    assert [d.tolist() for d in mixed.take(200)] == [d.tolist() for d in by_elements.take(200)]


def test_shares_of_tokens_hold_over_many_documents_and_after_a_change():
    datasets = [documents([4] * 50, 0).shuffle().repeat(), documents([10, 50], 1).repeat()]
    iterator = iter(tdi.Dataset.sample_from_datasets(datasets, [1, 1], seed=3, by="tokens"))
    tokens = torch.cat([next(iterator) for _ in range(2000)])
    assert float((tokens == 0).float().mean()) == pytest.approx(0.5, abs=0.01)
    iterator.set_weights([1, 3])
    tokens = torch.cat([next(iterator) for _ in range(2000)])
    assert float((tokens == 0).float().mean()) == pytest.approx(0.25, abs=0.01)


def test_lengths_that_are_not_known_have_no_weight(tmp_path):
    read = tdi.Dataset.range(5).map(lambda number: torch.arange(int(number) + 1))
    with pytest.raises(ValueError, match="of the elements of `map.*` are not known before .* `with_lengths` counts"):
        next(iter(tdi.Dataset.sample_from_datasets([read, read], [1, 2], by="tokens")))
    stored = read.with_lengths(str(tmp_path / "lengths"))
    assert len(list(tdi.Dataset.sample_from_datasets([stored, stored], [1, 2], by="tokens"))) == 10
    waits = tdi.Dataset.sample_from_datasets([stored, read], [1, 0], by="tokens")
    assert len(list(waits)) == 5
    for kwargs, message in [({"by": "rows"}, '"elements" or "tokens", but is "rows"'), ({"key": "x"}, "`key` names")]:
        with pytest.raises(ValueError, match=f"sample_from_datasets: .*{message}"):
            tdi.Dataset.sample_from_datasets([stored], **kwargs)
    with pytest.raises(ValueError, match="have no tokens"):
        len(tdi.Dataset.sample_from_datasets([documents([0, 0], 1)], stop_on="first", by="tokens"))
