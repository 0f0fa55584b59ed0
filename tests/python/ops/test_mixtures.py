# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Laws of mixtures: random access, exact shares, phases, resume; tests/python/distribute has them on processes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mixture_pipelines import AFTER, NUMBER, WEIGHT, assert_resumes, numbers, source

import torch_distinput as tdi

SOURCES = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from(["none", "shuffle", "repeat", "skip"]), NUMBER, WEIGHT),
    min_size=1,
    max_size=5,
).filter(lambda sources: any(weight for *_, weight in sources))


def build(sources, stop_on, batch, after, number, streams=False) -> tdi.Dataset:
    datasets = [source(i, given, batch, streams) for i, given in enumerate(sources)]
    weights = [weight for *_, weight in sources]
    mixed = tdi.Dataset.sample_from_datasets(datasets, weights, seed=number, stop_on=stop_on)
    return AFTER[after](mixed, number).with_options(tdi.Options(seed=5))


MIXTURES = (
    SOURCES,
    st.sampled_from(["all", "first"]),
    st.sampled_from([0, 0, 2, 3]),
    st.sampled_from(sorted(AFTER)),
    NUMBER,
)


@given(*MIXTURES)
def test_both_paths_yield_the_same_elements_and_resume_after_each(sources, stop_on, batch, after, number):
    if after == "batch" and batch:
        after = "none"  # a batch of unequal batches is an error
    dataset = build(sources, stop_on, batch, after, number)
    assert numbers(dataset) == numbers(dataset, stream_only=True)
    if dataset.cardinality() != tdi.UNKNOWN:
        assert len(numbers(dataset)) == len(dataset)
    assert_resumes(dataset)
    assert_resumes(dataset, stream_only=True)


@given(SOURCES, st.sampled_from([0, 2]), NUMBER)
def test_streams_are_mixed_as_data_with_random_access(sources, batch, number):
    streams = build(sources, "all", batch, "none", number, streams=True)
    assert numbers(streams) == numbers(build(sources, "all", batch, "none", number))
    assert_resumes(streams)


@given(SOURCES, NUMBER)
def test_a_stream_that_ends_first_stops_the_mixture(sources, number):
    found = numbers(build(sources, "first", 0, "none", number, streams=True))
    sure = numbers(build(sources, "first", 0, "none", number))
    assert found[: len(sure)] == sure  # lengths that are known stop it in every epoch at the same place
    assert len(found) <= len(numbers(build(sources, "all", 0, "none", number)))


@given(st.lists(WEIGHT, min_size=1, max_size=8).filter(any), st.integers(0, 9))
def test_each_dataset_has_its_share_of_every_prefix(weights, seed):
    endless = [tdi.Dataset.from_tensors(torch.tensor(i)).repeat() for i in range(len(weights))]
    mixed = tdi.Dataset.sample_from_datasets(endless, weights, seed=seed).batch(300)
    drawn = torch.nn.functional.one_hot(next(iter(mixed)), len(weights)).cumsum(0)
    share = torch.tensor(weights, dtype=torch.float64) / sum(weights)
    expected = share * torch.arange(1, 301).unsqueeze(1)
    assert (drawn - expected).abs().max() < 3


def test_the_others_go_on_by_their_weights_when_one_has_ended():
    datasets = [tdi.Dataset.range(20), tdi.Dataset.range(1000, 1600), tdi.Dataset.range(2000, 2300)]
    rows = torch.tensor([int(row) for row in tdi.Dataset.sample_from_datasets(datasets, [1, 2, 1], seed=1)])
    first, rest = rows[:80] // 1000, rows[100:700] // 1000
    assert torch.bincount(first).tolist() == pytest.approx([20, 40, 20], abs=3)
    assert torch.bincount(rest).tolist() == pytest.approx([0, 400, 200], abs=3)


def test_equal_datasets_do_not_take_strict_turns():
    """A shard of a mixture has rows of all datasets."""
    mixed = tdi.Dataset.sample_from_datasets([tdi.Dataset.range(500), tdi.Dataset.range(1000, 1500)], seed=1)
    rows = torch.tensor([int(row) for row in mixed.shard(2, 0)])
    assert 150 < int((rows < 1000).sum()) < 350


def test_first_has_the_same_length_in_every_epoch():
    small = tdi.Dataset.range(30).shuffle()
    mixed = tdi.Dataset.sample_from_datasets([small, tdi.Dataset.range(100, 107).repeat()], [3, 1], stop_on="first")
    assert len(mixed) == 40
    for _ in range(5):
        rows = [int(row) for row in mixed]
        assert len(rows) == 40
        assert sorted(row for row in rows if row < 100) == list(range(30))
    with pytest.raises(ValueError, match='sample_from_datasets: `stop_on` must be "all" or "first", but is "last"'):
        tdi.Dataset.sample_from_datasets([small], stop_on="last")


def test_a_hundred_datasets_of_a_billion_rows_are_mixed_and_shuffled():
    huge = [tdi.Dataset.range(10**9 * i, 10**9 * (i + 1)).shuffle() for i in range(100)]
    mixed = tdi.Dataset.sample_from_datasets(huge, seed=1)
    assert len(mixed) == 10**11
    rows = next(iter(mixed.shuffle(seed=2).batch(512)))
    assert len(rows.unique()) == 512 and len((rows // 10**9).unique()) > 90


@pytest.mark.parametrize("streams", [False, True])
def test_a_position_in_the_order_of_independent_draws_is_refused(streams):
    mixed = build([(5, "none", 0, 1.0), (9, "none", 0, 2.0)], "all", 0, "none", 1, streams)
    state = iter(mixed).state_dict()
    state["pipeline"] = [op.removesuffix(", order 2") for op in state["pipeline"]]
    with pytest.raises(ValueError, match=r"its op . was `sample_from_datasets\(.*\)`, but here it is .* order 2"):
        iter(mixed).load_state_dict(state)


def test_explain_shows_the_random_access_path():
    mixed = tdi.Dataset.sample_from_datasets([tdi.Dataset.range(3), tdi.Dataset.range(4)], seed=1, stop_on="first")
    (line,) = (line for line in str(mixed.batch(2).explain()).splitlines() if "sample_from_datasets" in line)
    assert "sample_from_datasets(seed=1, stop_on=first)" in line
    assert "6 elements, plan" in line


@given(SOURCES, st.sampled_from(["none", "shard", "take", "skip", "window", "repeat"]), NUMBER, st.booleans())
def test_what_was_drawn_is_reported_on_both_paths(sources, after, number, batched):
    dataset = build(sources, "all", 0, after, number)
    # On the sequential path, a short last batch reads on: what other shards get, or into the end of all rounds.
    if batched and after not in ("shard", "repeat"):
        dataset = dataset.batch(3)

    def drawn(**options) -> list:
        iterator = dataset._native.iterate(epoch=1, **options)
        return [iterator.stats()["sampled"] for _ in iterator]

    if after != "window":
        assert drawn() == drawn(stream_only=True)
    assert all(len(counts) == len(sources) for counts in drawn())
