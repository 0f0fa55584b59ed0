# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`choose_from_datasets`: datasets in turns that another dataset names."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mixture_pipelines import AFTER, NUMBER, assert_resumes, letters, numbers, source

import torch_distinput as tdi

CHOICES = {
    "tensor": lambda choice, k: choice,
    "endless": lambda choice, k: choice.repeat(),
    "shuffle": lambda choice, k: choice.shuffle(seed=k),
    "map": lambda choice, k: choice.map(lambda i: i + 0),
    "random": lambda choice, k: choice.map(lambda i: torch.randint(0, 1 + i, (), generator=tdi.random())),
    "mixture": lambda choice, k: tdi.Dataset.sample_from_datasets([choice, choice.take(k)], seed=k),
}
CHOSEN = (
    st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from(["none", "shuffle", "repeat", "skip"]), NUMBER, st.just(1.0)),
        min_size=1,
        max_size=5,
    ),
    st.lists(st.integers(0, 59), max_size=25),
    st.sampled_from(sorted(CHOICES)),
    st.sampled_from([0, 0, 2]),
)


def choose(sources, choices, turns, batch, after, number, streams=False) -> tdi.Dataset:
    datasets = [source(i, given, batch, streams) for i, given in enumerate(sources)]
    choice = tdi.Dataset.from_tensor_slices(torch.tensor([c % len(sources) for c in choices], dtype=torch.int64))
    chosen = tdi.Dataset.choose_from_datasets(datasets, CHOICES[turns](choice, number))
    return AFTER[after](chosen, number).with_options(tdi.Options(seed=5))


@given(*CHOSEN, st.sampled_from(sorted({*AFTER} - {"shuffle"})), NUMBER)
def test_chosen_elements_are_the_same_on_both_paths_and_resume(sources, choices, turns, batch, after, number):
    if after == "batch" and batch:
        after = "none"
    dataset = choose(sources, choices, turns, batch, after, number)
    assert numbers(dataset) == numbers(dataset, stream_only=True)
    assert_resumes(dataset)
    assert_resumes(dataset, stream_only=True)
    if after == "none":
        assert numbers(dataset) == numbers(choose(sources, choices, turns, batch, after, number, streams=True))
        line = next(line for line in dataset.explain().splitlines() if "choose_from_datasets" in line)
        assert ", plan" in ", ".join(line.split())


@given(*CHOSEN[:3], NUMBER, st.integers(1, 7))
def test_each_rank_makes_the_rows_that_are_chosen_for_it_only(sources, choices, turns, number, ranks):
    made = []

    def noted(row: torch.Tensor) -> torch.Tensor:
        made.append(row.item())
        return row

    datasets = [source(i, given, 0, False).map(noted) for i, given in enumerate(sources)]
    choice = tdi.Dataset.from_tensor_slices(torch.tensor([c % len(sources) for c in choices], dtype=torch.int64))
    chosen = tdi.Dataset.choose_from_datasets(datasets, CHOICES[turns](choice, number))
    chosen = chosen.with_options(tdi.Options(seed=5))
    whole = numbers(chosen.shard(1, 0))
    for rank in range(ranks):
        made.clear()
        assert numbers(chosen.shard(ranks, rank)) == whole[rank::ranks] == made


def test_a_wrong_choice_is_an_error_before_the_first_element_unless_it_lies_after_the_end():
    datasets = [tdi.Dataset.range(3), tdi.Dataset.range(2)]

    def chosen(*indices: int) -> tdi.Dataset:
        return tdi.Dataset.choose_from_datasets(datasets, tdi.Dataset.from_tensor_slices(torch.tensor(indices)))

    message = r"`choice` must yield indices in \[0, 2\), but element 2 is 7"
    with pytest.raises(ValueError, match=message):
        next(iter(chosen(0, 1, 7)))
    with pytest.raises(ValueError, match=message):
        numbers(chosen(0, 1, 7), stream_only=True)
    assert numbers(chosen(1, 1, 1, 7)) == [0, 1] == numbers(chosen(1, 1, 1, 7), stream_only=True)


def test_a_full_shuffle_needs_the_number_of_chosen_elements():
    datasets = [tdi.Dataset.range(10), tdi.Dataset.range(100, 120)]
    choice = tdi.Dataset.from_tensor_slices(torch.tensor([0, 1, 1, 0, 1]))
    chosen = tdi.Dataset.choose_from_datasets(datasets, choice)
    with pytest.raises(ValueError, match=r"unknown; give `buffer_size`, or tell the length by `assert_cardinality`\."):
        chosen.shuffle(seed=1)
    shuffled = chosen.assert_cardinality(5).shuffle(seed=1)
    assert sorted(map(int, shuffled)) == [0, 1, 100, 101, 102]
    assert " plan," in shuffled.explain().splitlines()[0]


def test_choices_without_a_bound_are_read_in_order():
    endless = [tdi.Dataset.range(2).repeat(), tdi.Dataset.range(5)]
    chosen = tdi.Dataset.choose_from_datasets(endless, tdi.Dataset.range(1).repeat())
    assert "stream: has no random access; more than 134217728 choices" in chosen.explain()
    assert numbers(chosen.take(5)) == [0, 1, 0, 1, 0]
    assert "134217728" not in tdi.Dataset.choose_from_datasets(endless, tdi.Dataset.range(2)).explain()


@pytest.mark.parametrize("streams", [False, True])
def test_weights_of_drawn_choices_are_reported_and_set(streams):
    turns = tdi.Dataset.sample_from_datasets(letters(), [1, 0], seed=1)
    datasets = [source(i, (20, "none", 0, 1.0), 0, streams) for i in range(2)]
    iterator = tdi.Dataset.choose_from_datasets(datasets, turns)._native.iterate(epoch=0)
    assert [int(next(iterator)) for _ in range(5)] == [0, 1, 2, 3, 4]
    assert iterator.stats()["sampled"] == (5, 0)
    iterator.set_weights([0, 1])
    assert [int(next(iterator)) for _ in range(3)] == [1000, 1001, 1002]
    assert iterator.stats()["sampled"] == (5, 3)
