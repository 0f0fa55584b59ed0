# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What is excluded is left out from the next step on, alike on all ranks, and states keep it."""

import itertools
import json

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from numbered_pipelines import CHAINS, has_random_access, rows
from ranks import returned, run_ranks
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

import torch_distinput as tdi

ROWS = 31


class Rows(Dataset):
    def __len__(self):
        return ROWS

    def __getitem__(self, row):
        return row


def flat(batches):
    return [row for batch in batches for row in batch.tolist()]


@given(CHAINS, st.integers(1, 4), st.booleans(), st.sets(st.integers(0, 30)), st.data())
def test_exactly_the_excluded_rows_are_missing_and_batches_are_full(chain, batch, distributed, excluded, data):
    dataset = rows(chain)
    assume(has_random_access(dataset))
    known = dataset._native.batch(1000).ledger(0, 0)
    numbers = {row for step in range(known.num_steps) for row in known.rows(step)}
    excluded &= numbers
    loader = tdi.DataLoader(dataset, batch_size=batch, distributed=distributed or None, seed=2)
    whole = [flat(loader) for _ in range(2)]
    loader.set_epoch(0)
    steps = data.draw(st.integers(0, -(-len(whole[0]) // batch)))
    iterator = iter(loader)
    seen = flat(itertools.islice(iterator, steps))
    loader.exclude(excluded)
    state = json.loads(json.dumps(loader.state_dict(), default=lambda tensor: None))
    rest = [batch.tolist() for batch in iterator]
    assert seen == whole[0][: steps * batch]
    assert sum(rest, []) == [row for row in whole[0][steps * batch :] if row not in excluded]
    assert all(len(part) == batch for part in rest[:-1])
    named = [loader.rows_of(0, step).tolist() for step in range(steps + len(rest))]
    assert sum(named, []) == seen + sum(rest, [])
    assert flat(loader) == [row for row in whole[1] if row not in excluded]
    if distributed:
        resumed = tdi.DataLoader(dataset, batch_size=batch, distributed=True, seed=2)
        resumed.load_state_dict(state)
        assert flat(resumed) == sum(rest, [])
        assert flat(resumed) == [row for row in whole[1] if row not in excluded]


def test_rows_excluded_later_are_left_out_from_there_on():
    loader = tdi.DataLoader(tdi.Dataset.range(12), batch_size=2)
    iterator = iter(loader)
    seen = flat(itertools.islice(iterator, 1))
    loader.exclude([3, 0])
    seen += flat(itertools.islice(iterator, 1))
    loader.exclude([2, 6, 7])
    seen += flat(iterator)
    assert seen == [0, 1, 2, 4, 5, 8, 9, 10, 11]
    assert flat(loader) == [1, 4, 5, 8, 9, 10, 11]
    assert flat(map(loader.rows_of, itertools.repeat(0), range(5))) == seen


def test_the_rows_of_steps_are_excluded():
    loader = tdi.DataLoader(torch.arange(12), batch_size=2, shuffle=True, seed=1, distributed=True)
    gone = flat(loader.rows_of(0, step) for step in (2, 3))
    loader.exclude(steps=[2, 3])
    assert sorted(flat(loader) + gone) == list(range(12))


def test_an_endless_pipeline_leaves_rows_out_in_every_round():
    loader = tdi.DataLoader(tdi.Dataset.range(5).shuffle().repeat(), batch_size=3, seed=1)
    loader.exclude([1, 4])
    assert sorted(flat(itertools.islice(loader, 3))) == sorted([0, 2, 3] * 3)


def test_an_op_that_moves_batches_is_named():
    loader = tdi.DataLoader(tdi.Dataset.range(9).batch(2).shuffle(seed=1), batch_size=None)
    with pytest.raises(ValueError, match="`shuffle` after batching"):
        loader.exclude([1])


def test_rows_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="must be at least 0 and less than 9, .* but one is 9"):
        tdi.DataLoader(tdi.Dataset.range(9)).exclude([9])


@pytest.mark.parametrize("data", [tdi.Dataset.range(9).filter(lambda row: row > 0), torch.arange(3)])
def test_data_whose_rows_are_not_addressed_is_refused(data):
    with pytest.raises(ValueError, match="exclude: "):
        tdi.DataLoader(data).exclude([1])


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(3))


def test_streams_of_ranks_are_refused():
    with pytest.raises(ValueError, match="exclude: each rank reads a stream"):
        tdi.DataLoader(Stream(), distributed=True).exclude([1])


def data_of(kind):
    numbers = torch.arange(ROWS)
    if kind == "pipeline":
        return tdi.Dataset.from_tensor_slices(numbers).shuffle(seed=8).map(lambda row: row.clone())
    if kind == "subset":
        return Subset(TensorDataset(torch.arange(100)), list(range(ROWS)))
    return Rows() if kind == "python" else numbers


def excludes(rank, kind, state, steps, excluded, options):
    data = data_of(kind)
    if not isinstance(data, tdi.Dataset):
        options = options | {"shuffle": True}
    loader = tdi.DataLoader(data, global_batch_size=6, distributed=True, seed=3, **options)
    if state is not None:
        loader.load_state_dict(state)
    parts, iterator = [], iter(loader)
    for batch in itertools.islice(iterator, steps):
        batch = batch[0] if isinstance(batch, (list, tuple)) else batch
        parts.append(batch[: loader.last_info.valid[0]].tolist())
    loader.exclude(excluded)
    return parts, loader.state_dict()


@pytest.mark.parametrize("kind", ["pipeline", "tensor", "subset", "python"])
@pytest.mark.parametrize("split", ["tf", "balanced"])
def test_what_is_excluded_stays_out_on_other_numbers_of_ranks(kind, split):
    state, seen, gone = None, [], set()
    whole = returned(run_ranks(excludes, 1, kind, None, 100, [], {}))[0][0]
    order = sum(whole, [])
    for world, steps, excluded in ((3, 1, {1, 2, 30}), (2, 1, {5}), (1, 1, set()), (5, 100, set())):
        results = returned(run_ranks(excludes, world, kind, state, steps, sorted(excluded), {"split": split}))
        assert len({len(parts) for parts, _ in results}) == 1
        for step in range(len(results[0][0])):
            rows_of_step = sorted(row for parts, _ in results for row in parts[step])
            expected = [row for row in order if row not in gone][:6]
            assert rows_of_step == sorted(expected)
            order = [row for row in order if row not in expected]
            seen += rows_of_step
        gone |= excluded
        state = results[0][1]
    assert not [row for row in order if row not in gone]


def differs(rank):
    loader = tdi.DataLoader(Rows(), batch_size=2, shuffle=True, seed=1, distributed=True)
    loader.exclude([rank])
    with pytest.raises(tdi.DistributedDatasetError, match="excluded rows"):
        next(iter(loader))


def test_ranks_that_exclude_other_rows_are_told():
    returned(run_ranks(differs, 2))
