# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""sample_from_datasets, choose_from_datasets, unique, assert_cardinality, apply."""

import collections
import itertools

import pipelines
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torch_distinput as tdi


def integers(dataset: tdi.Dataset) -> list[int]:
    return [int(x) for x in dataset]


def ranges(lengths: list[int]) -> list[tdi.Dataset]:
    return [tdi.Dataset.range(100 * i, 100 * i + n) for i, n in enumerate(lengths)]


LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=4)


@given(LENGTHS, st.integers(0, 9))
def test_samples_hold_each_element_once_and_each_dataset_in_order(lengths, seed):
    dataset = tdi.Dataset.sample_from_datasets(ranges(lengths), seed=seed)
    found = integers(dataset)
    assert len(found) == len(dataset) == sum(lengths)
    for i, n in enumerate(lengths):
        assert [x for x in found if x // 100 == i] == list(range(100 * i, 100 * i + n))
    tdi.testing.assert_resumable(dataset)
    tdi.testing.assert_resumable(dataset.batch(2))


def test_shares_follow_the_weights():
    dataset = tdi.Dataset.sample_from_datasets(
        [tdi.Dataset.from_tensors(i).repeat() for i in range(3)], weights=torch.tensor([1.0, 0.0, 3.0]), seed=1
    )
    counts = collections.Counter(integers(dataset.take(4000)))
    assert set(counts) == {0, 2}
    assert 0.7 < counts[2] / 4000 < 0.8
    assert dataset.cardinality() == tdi.INFINITE


def test_a_dataset_without_weight_counts_for_nothing():
    endless = tdi.Dataset.range(3).repeat()
    dataset = tdi.Dataset.sample_from_datasets([endless, tdi.Dataset.range(4)], weights=[0, 1])
    assert integers(dataset) == [0, 1, 2, 3] and len(dataset) == 4


def test_samples_depend_on_seed_and_epoch():
    def sample(seed, epoch=0):
        dataset = tdi.Dataset.sample_from_datasets(ranges([20, 20]), seed=seed)
        dataset.set_epoch(epoch)
        return integers(dataset)

    assert sample(1) == sample(1)
    assert len({tuple(sample(1)), tuple(sample(2)), tuple(sample(1, 1))}) == 3
    unseeded = tdi.Dataset.sample_from_datasets(ranges([20, 20]))
    one, other = (unseeded.with_options(tdi.Options(seed=3)) for _ in range(2))
    assert integers(one) == integers(other) != sample(1)


@given(LENGTHS, st.lists(st.integers(0, 3), max_size=12))
def test_choice_follows_the_reference(lengths, choices):
    choices = [c % len(lengths) for c in choices]
    iterators = [iter(range(100 * i, 100 * i + n)) for i, n in enumerate(lengths)]
    expected = list(itertools.takewhile(lambda x: x is not None, (next(iterators[c], None) for c in choices)))
    choice = tdi.Dataset.from_tensor_slices(torch.tensor(choices, dtype=torch.int64))
    dataset = tdi.Dataset.choose_from_datasets(ranges(lengths), choice)
    assert integers(dataset) == expected
    tdi.testing.assert_resumable(dataset)


def test_where_no_dataset_ends_there_are_as_many_elements_as_choices():
    endless = [tdi.Dataset.from_tensors(i).repeat() for i in range(2)]
    assert len(tdi.Dataset.choose_from_datasets(endless, tdi.Dataset.range(2))) == 2
    assert tdi.Dataset.choose_from_datasets(ranges([2]), tdi.Dataset.range(1)).cardinality() == tdi.UNKNOWN


@pytest.mark.parametrize(
    "weights, message",
    [
        ([], "must have one entry for each dataset, but is empty"),
        ([1], "must have one entry for each of the 2 datasets, but has 1"),
        ([1, -1], "must be finite and at least 0, but one is -1"),
        ([1, float("nan")], "must be finite and at least 0, but one is nan"),
        ([0, 0], "must not all be 0"),
    ],
)
def test_wrong_weights(weights, message):
    with pytest.raises(ValueError, match="sample_from_datasets: `weights` " + message):
        tdi.Dataset.sample_from_datasets(ranges([1, 1]), weights)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="sample_from_datasets: `datasets` must hold at least 1 dataset"):
        tdi.Dataset.sample_from_datasets([])
    with pytest.raises(TypeError, match=r"sample_from_datasets: `datasets\[0\]` must be of type Dataset, but is a int"):
        tdi.Dataset.sample_from_datasets([3])
    with pytest.raises(TypeError, match="choose_from_datasets: `choice` must be of type Dataset, but is a list"):
        tdi.Dataset.choose_from_datasets(ranges([1]), [0])
    with pytest.raises(ValueError, match="choose_from_datasets: the element must have one type in all inputs"):
        tdi.Dataset.choose_from_datasets([*ranges([1]), tdi.Dataset.from_tensors(0.5)], tdi.Dataset.range(1))
    chosen = tdi.Dataset.choose_from_datasets(ranges([1, 1]), tdi.Dataset.range(1, 3))
    with pytest.raises(ValueError, match=r"`choice` must yield indices in \[0, 2\), but element 1 is 2"):
        list(chosen)
    with pytest.raises(TypeError, match="`choice` must yield int64 scalars, but element 0 is"):
        list(tdi.Dataset.choose_from_datasets(ranges([1]), tdi.Dataset.from_tensors(0.5)))


@given(st.lists(st.integers(-2, 2), max_size=12), st.sampled_from([torch.int64, torch.float32, torch.bool]))
def test_unique_keeps_the_first_of_each(values, dtype):
    tensor = torch.tensor(values, dtype=torch.int64).to(dtype)
    dataset = tdi.Dataset.from_tensor_slices(tensor).unique()
    assert [x.item() for x in dataset] == list(dict.fromkeys(tensor.tolist()))
    assert dataset.cardinality() == tdi.UNKNOWN
    tdi.testing.assert_resumable(dataset)


def test_unique_compares_whole_elements():
    rows = [{"a": torch.tensor(a), "b": torch.tensor(b)} for a, b in [(1, [1]), (1, [2]), (1, [1]), (1, [1, 1])]]
    found = list(tdi.Dataset.from_torch(rows).unique())
    assert [row["b"].tolist() for row in found] == [[1], [2], [1, 1]]


def test_unique_refuses_datasets():
    with pytest.raises(TypeError, match="unique: the element is a dataset leaf, which unique cannot compare"):
        list(tdi.Dataset.range(3).window(2).unique())


@given(st.integers(0, 5), st.integers(0, 5), st.booleans())
def test_an_asserted_cardinality_is_checked(size, asserted, stream):
    dataset = tdi.Dataset.range(size)
    dataset = (dataset.filter(lambda x: x >= 0) if stream else dataset).assert_cardinality(asserted)
    assert len(dataset) == asserted
    iterator = iter(dataset)
    if size == asserted:
        assert integers(dataset) == list(range(size))
        tdi.testing.assert_resumable(dataset)
        return
    assert [int(next(iterator)) for _ in range(min(size, asserted))] == list(range(min(size, asserted)))
    found = "only " + str(size) if size < asserted else f"at least {asserted + 1}"
    for _ in range(2):
        with pytest.raises(tdi.FailedPreconditionError, match=f"must have {asserted} elements, but has {found}"):
            next(iterator)


def test_an_asserted_cardinality_may_be_infinite():
    assert tdi.Dataset.range(3).repeat().assert_cardinality(tdi.INFINITE).cardinality() == tdi.INFINITE
    with pytest.raises(tdi.FailedPreconditionError, match="an infinite number of elements, but has only 3"):
        list(tdi.Dataset.range(3).assert_cardinality(tdi.INFINITE))
    with pytest.raises(ValueError, match="assert_cardinality: `cardinality` must be at least 0, or -1"):
        tdi.Dataset.range(3).assert_cardinality(-2)


def test_a_right_assertion_keeps_random_access():
    assert "assert_cardinality(cardinality=6)  6 elements, plan" in tdi.Dataset.range(6).assert_cardinality(6).explain()


def test_apply_calls_a_function_on_the_dataset():
    assert integers(tdi.Dataset.range(5).apply(lambda dataset: dataset.skip(3))) == [3, 4]

    def wrong(dataset):
        return 3

    with pytest.raises(TypeError, match="apply: wrong must return a Dataset, but returned a int"):
        tdi.Dataset.range(5).apply(wrong)


def test_explain_has_a_line_for_each():
    sampled = tdi.Dataset.sample_from_datasets([pipelines.slices(2), pipelines.slices(3)], [1, 2], seed=4)
    text = tdi.Dataset.choose_from_datasets([sampled.unique()], tdi.Dataset.range(1)).explain()
    for line in ("sample_from_datasets(weights=[1, 2], seed=4)", "unique()", "choose_from_datasets()"):
        assert line in text
