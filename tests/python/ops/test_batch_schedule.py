# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""batch([(step, size), ...]): batches, laws, replicas, tails, restarts, errors, against lists of rows."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ranks import returned, run_ranks

import torch_distinput as tdi

SIZES = st.integers(1, 6)
SCHEDULES = st.builds(
    lambda first, gaps, sizes: [(0, first), *zip(itertools.accumulate(gaps), sizes)],
    SIZES,
    st.lists(st.integers(1, 3), max_size=3),
    st.lists(SIZES, min_size=3, max_size=3),
)
# A schedule of one size is a batch size, whose rows `split="tf"` deals out across the borders of batches.
CHANGING = SCHEDULES.filter(lambda schedule: len({size for _, size in schedule}) > 1)
REPLICAS = st.integers(1, 5)


def size_of(schedule: list[tuple[int, int]], step: int) -> int:
    return [size for begin, size in schedule if begin <= step][-1]


def model(rows: int, schedule: list[tuple[int, int]], drop: bool = False) -> list[list[int]]:
    """The batches of the rows 0, 1, ..."""
    batches, first = [], 0
    while first < rows:
        end = first + size_of(schedule, len(batches))
        if end > rows and drop:
            break
        batches.append(list(range(first, min(end, rows))))
        first = end
    return batches


def without_random_access(rows: int) -> tdi.Dataset:
    return tdi.Dataset.from_generator(lambda: map(torch.tensor, range(rows)), tdi.TensorSpec([], torch.int64))


@given(st.integers(0, 30), SCHEDULES, st.booleans())
def test_batches_have_the_sizes_of_the_schedule(rows, schedule, drop):
    expected = model(rows, schedule, drop)
    dataset = tdi.Dataset.range(rows).batch(schedule, drop_remainder=drop)
    assert [batch.tolist() for batch in dataset] == expected
    assert len(dataset) == len(expected)
    stream = without_random_access(rows).batch(schedule, drop_remainder=drop)
    assert [batch.tolist() for batch in stream] == expected
    for found in (dataset, stream):
        tdi.testing.assert_resumable(found)
        tdi.testing.assert_paths_agree(found)


@given(st.integers(1, 9), SCHEDULES)
def test_each_round_of_repeat_begins_the_schedule_anew(rows, schedule):
    repeated = tdi.Dataset.range(rows).batch(schedule).repeat(2)
    assert [batch.tolist() for batch in repeated] == 2 * model(rows, schedule)
    endless = tdi.Dataset.range(rows).repeat().batch(schedule)
    assert [len(batch) for batch in itertools.islice(endless, 12)] == [size_of(schedule, step) for step in range(12)]


def parts(value, replicas: int) -> list[list[int]]:
    return [part.tolist() for part in (value.values if isinstance(value, tdi.PerReplica) else [value])]


def distributed(dataset: tdi.Dataset, replicas: int, **options) -> tdi.DistributedDataset:
    return tdi.MirroredStrategy(["cpu"] * replicas).distribute_dataset(dataset, tdi.InputOptions(**options))


@given(st.integers(1, 30), CHANGING, REPLICAS, st.sampled_from(["tf", "balanced"]), st.booleans())
def test_a_step_is_a_batch_of_the_schedule_over_all_replicas(rows, schedule, replicas, split, stream):
    rows_dataset = without_random_access(rows) if stream else tdi.Dataset.range(rows)
    steps = distributed(rows_dataset.batch(schedule), replicas, split=split)
    expected = model(rows, schedule)
    found = [parts(step, replicas) for step in steps]
    assert [[row for part in step for row in part] for step in found] == expected
    assert stream or len(steps) == len(expected)
    if split == "balanced":
        assert all(max(map(len, step)) - min(map(len, step)) <= 1 for step in found)


@given(st.integers(1, 30), CHANGING, REPLICAS, st.sampled_from(["tf", "balanced"]), st.booleans())
def test_tails_know_the_full_size_of_the_last_batch(rows, schedule, replicas, split, stream):
    rows_dataset = without_random_access(rows) if stream else tdi.Dataset.range(rows)
    batches = rows_dataset.batch(schedule)
    expected = model(rows, schedule)
    full = size_of(schedule, len(expected) - 1)
    for tail in ("padded", "repeat", "drop", "merge"):
        steps = distributed(batches, replicas, split=split, tail=tail)
        found = [[row for part in parts(step, replicas) for row in part] for step in steps]
        assert stream or len(found) == len(steps)
        if tail == "drop":
            assert found == model(rows, schedule, drop=True)
        elif tail == "merge":
            assert sum(found, []) == list(range(rows))
        else:
            assert found[:-1] == expected[:-1]
            assert set(expected[-1]) <= set(found[-1])
            # The parts of a short batch under "tf" are not the first rows of those of a full one.
            assert len(found[-1]) == full or (split == "tf" and len(found[-1]) >= full)
        if tail == "repeat":
            filled = [row % rows for row in range(full - len(expected[-1]))]
            assert found[-1] == expected[-1] + filled


@given(
    st.integers(1, 30),
    CHANGING,
    st.lists(st.tuples(REPLICAS, st.integers(0, 3)), max_size=3),
    st.sampled_from(["tf", "balanced"]),
    st.booleans(),
)
def test_a_run_goes_on_with_its_schedule_on_other_replicas(rows, schedule, legs, split, stream):
    rows_dataset = without_random_access(rows) if stream else tdi.Dataset.range(rows)
    found, state = [], None
    for replicas, count in [*legs, (2, None)]:
        iterator = iter(distributed(rows_dataset.batch(schedule), replicas, split=split))
        if state is not None:
            iterator.load_state_dict(state)
        found += [sum(parts(step, replicas), []) for step in itertools.islice(iterator, count)]
        state = iterator.state_dict()
    assert found == model(rows, schedule)


def test_explain_shows_the_schedule():
    batches = tdi.Dataset.range(9).batch([(0, 2), (3, 4)])
    assert "batch(batch_size=[(0, 2), (3, 4)], drop_remainder=False)" in str(batches.explain())
    facts = distributed(batches, 2, split="balanced").explain().facts
    assert "batch size: [(0, 2), (3, 4)]" in facts
    assert {"rows of the first step: 1, 1", "rows of the last step: 2, 1"} <= set(facts)


def test_a_schedule_of_one_size_is_a_batch_size():
    dataset = tdi.Dataset.range(8).batch([(0, 4), (5, 4)], drop_remainder=True)
    assert dataset.element_spec == tdi.Dataset.range(8).batch(4, drop_remainder=True).element_spec
    assert repr(dataset) == repr(tdi.Dataset.range(8).batch(4, drop_remainder=True))
    assert tdi.Dataset.range(8).batch([(0, 4), (1, 3)], drop_remainder=True).element_spec.shape == (None,)


def test_a_loader_takes_a_dataset_with_a_schedule():
    loader = tdi.DataLoader(tdi.Dataset.range(10).batch([(0, 1), (2, 4)]), batch_size=None, distributed=True)
    assert [batch.tolist() for batch in loader] == [[0], [1], [2, 3, 4, 5], [6, 7, 8, 9]]
    assert len(loader) == 4


RANKS_SCHEDULE = [(0, 3), (2, 7), (3, 5)]


def steps_of_ranks(rank, state):
    dataset = tdi.Dataset.range(40).shuffle(seed=2).batch(RANKS_SCHEDULE)
    loader = tdi.DataLoader(dataset, batch_size=None, distributed=True)
    if state is not None:
        loader.load_state_dict(state)
    steps, states = [], []
    for batch in loader:
        steps.append(batch.tolist())
        states.append(loader.state_dict())
    return steps, states


def test_ranks_share_each_batch_and_go_on_in_other_numbers():
    expected = [batch.tolist() for batch in tdi.Dataset.range(40).shuffle(seed=2).batch(RANKS_SCHEDULE)]

    def joined(ranks):
        return [sum(step, []) for step in zip(*(steps for steps, _ in ranks), strict=True)]

    ranks = returned(run_ranks(steps_of_ranks, 3, None))
    assert joined(ranks) == expected
    for step in (0, 1, 2, 5):
        others = returned(run_ranks(steps_of_ranks, 2 + step % 2 * 2, ranks[0][1][step]))
        assert joined(others) == expected[step + 1 :]


def test_a_position_belongs_to_its_schedule():
    state = iter(tdi.Dataset.range(9).batch([(0, 2), (1, 3)])).state_dict()
    with pytest.raises(ValueError, match="saved from another pipeline"):
        iter(tdi.Dataset.range(9).batch([(0, 2), (1, 4)])).load_state_dict(state)


@pytest.mark.parametrize("tail", ["padded", "repeat", "drop"])
@pytest.mark.parametrize("op", [lambda ds: ds.skip(1), lambda ds: ds.shuffle(), lambda ds: ds.filter(lambda b: True)])
def test_tails_that_need_full_sizes_refuse_batches_that_may_have_moved(op, tail):
    batches = op(tdi.Dataset.range(9).batch([(0, 2), (1, 3)]))
    with pytest.raises(ValueError, match=f'`tail` "{tail}" must know the full size of each batch'):
        distributed(batches, 2, tail=tail)
    assert len(sum((sum(parts(step, 2), []) for step in distributed(batches, 2)), [])) >= 6


@pytest.mark.parametrize(
    ("schedule", "error", "text"),
    [
        ([], ValueError, "has no entries"),
        ([(1, 4)], ValueError, "begins at step 1"),
        ([(0, 4), (3, 0)], ValueError, "from step 3 on the size is 0"),
        ([(0, 4), (3, 2), (3, 1)], ValueError, "3 follows 3"),
        ([4, 8], TypeError, "must be a pair (step, size), but is 4"),
        ([(0, 4.5)], TypeError, "`batch_size[0][1]` must be an int"),
    ],
)
def test_schedules_that_are_none_are_refused(schedule, error, text):
    with pytest.raises(error, match="batch: ") as raised:
        tdi.Dataset.range(3).batch(schedule)
    assert text in str(raised.value)
