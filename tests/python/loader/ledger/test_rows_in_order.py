# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`rows_of` names the rows of steps that were taken of data that is read in order."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ranks import returned, run_ranks
from torch.utils import data

import torch_distinput as tdi

STREAMS = tdi.Options(auto_shard_policy=tdi.AutoShardPolicy.STREAMS)


class Numbers(data.IterableDataset):
    """The numbers below `n`; of a worker, every W-th."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        info = data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, self.n, step))


def pipeline(n, keeps):
    return tdi.Dataset.range(n).filter(lambda row: int(row) % keeps > 0)


def named(loader, epoch, steps, **rank):
    return [loader.rows_of(epoch, step, **rank).tolist() for step in steps]


def in_order(sizes, first=0):
    """The numbers of the rows of steps of these sizes."""
    ends = list(itertools.accumulate(sizes, initial=first))
    return [list(range(begin, end)) for begin, end in itertools.pairwise(ends)]


KINDS = {
    "pipeline": lambda n, size, **options: tdi.DataLoader(pipeline(n, 3), size, **options),
    "stream": lambda n, size, **options: tdi.DataLoader(Numbers(n), size, **options),
    "collate": lambda n, size, **options: tdi.DataLoader(pipeline(n, 3), size, collate_fn=torch.stack, **options),
    "distributed": lambda n, size, **options: tdi.DataLoader(pipeline(n, 3), size, distributed=True, **options),
    "own stream": lambda n, size, **options: tdi.DataLoader(Numbers(n), size, distributed=True, **options),
}


@given(
    st.sampled_from(sorted(KINDS)),
    st.integers(1, 40),
    st.integers(1, 6),
    st.booleans(),
    st.integers(0, 8),
    st.booleans(),
)
def test_steps_have_the_rows_that_follow_those_of_the_step_before(kind, n, size, drop_last, broken_at, resumes):
    loader = KINDS[kind](n, size, drop_last=drop_last)
    for epoch in range(2):
        seen = []
        for batch in itertools.islice(loader, broken_at):
            seen.append(len(batch))
            assert named(loader, epoch, [len(seen) - 1]) == in_order(seen)[-1:]
        assert named(loader, epoch, range(len(seen))) == in_order(seen)
        if not seen:
            return
    if not resumes or loader.state_dict()["torch_distinput.DataLoader"]["finished"]:
        return
    state, before = loader.state_dict(), len(seen)
    loader = KINDS[kind](n, size, drop_last=drop_last)
    loader.load_state_dict(state)
    seen += [len(batch) for batch in loader]
    if kind != "own stream" and len(seen) > before:
        assert named(loader, 1, range(before, len(seen))) == in_order(seen)[before:]
        with pytest.raises(ValueError, match=f"at least {before} and less than {len(seen)}"):
            loader.rows_of(1, before - 1)


def test_what_a_rank_had_read_of_its_own_stream_before_a_state_is_not_guessed():
    loader = KINDS["own stream"](9, 2)
    next(iter(loader))
    resumed = KINDS["own stream"](9, 2)
    resumed.load_state_dict(loader.state_dict())
    assert [len(batch) for batch in resumed] == [2, 2, 2, 1]
    with pytest.raises(ValueError, match="rows_of: each rank reads a stream"):
        resumed.rows_of(0, 2)


@pytest.mark.parametrize("dataset", [Numbers(5), pipeline(6, 7), pipeline(15, 15).batch(3)])
def test_what_is_not_batched_by_the_loader_is_a_row(dataset):
    loader = tdi.DataLoader(dataset, batch_size=None)
    assert len(list(loader)) == 5 and named(loader, 0, range(5)) == [[row] for row in range(5)]


def test_elements_that_a_function_joins_are_counted_one_by_one():
    rows = tdi.Dataset.range(1, 8).map(lambda row: torch.arange(int(row)))
    loader = tdi.DataLoader(rows, batch_size=3, collate_fn=torch.cat)
    assert [len(batch) for batch in loader] == [6, 15, 7]
    assert named(loader, 0, range(2)) == [[0, 1, 2], [3, 4, 5]]


def test_rows_of_worker_processes_are_numbered_as_they_come():
    loader = tdi.DataLoader(Numbers(11), batch_size=2, num_workers=2, multiprocessing_context="fork")
    sizes = [len(batch) for batch in loader]
    assert named(loader, 0, range(len(sizes))) == in_order(sizes)


def test_all_epochs_that_are_known_can_be_asked_for():
    loader = tdi.DataLoader(pipeline(10, 2), batch_size=2)
    for _ in range(3):
        list(loader)
    assert [named(loader, epoch, range(3)) for epoch in range(3)] == [in_order([2, 2, 1])] * 3


def test_steps_to_come_and_ranks_that_do_not_exist_are_refused():
    loader = tdi.DataLoader(pipeline(10, 2), batch_size=2, distributed=True)
    next(iter(loader))
    with pytest.raises(ValueError, match="`step` must be at least 0 and less than 1"):
        loader.rows_of(0, 1)
    with pytest.raises(IndexError, match="`rank` must be at least 0 and less than 1"):
        loader.rows_of(0, 0, rank=1)
    with pytest.raises(ValueError, match="`filter`"):
        loader.rows_of(1, 0)


def test_data_with_random_access_keeps_the_numbers_of_its_source():
    loader = tdi.DataLoader(tdi.Dataset.range(6).shuffle(seed=1), batch_size=2, distributed=True)
    assert [batch.tolist() for batch in loader] == named(loader, 0, range(3))
    assert loader._loader_progress.logs.of_epoch(0) is None


def taken_by_ranks(rank, kind, tail, world):
    rows = pipeline(31, 4)
    if kind == "streams":
        rows = (
            tdi.Dataset.range(4).interleave(lambda i: tdi.Dataset.range(10 * i, 10 * i + 5 + i)).with_options(STREAMS)
        )
    if kind == "own":
        rows = Numbers(5 + 4 * rank)
    loader = tdi.DataLoader(rows, batch_size=3, distributed=True, tail=tail, with_info=True)
    infos = [info for _, info in loader]
    own = [sum(info.valid) for info in infos]
    of_all = [(info.row_start, info.global_valid) for info in infos]
    if kind == "shared":
        refused = lambda: loader.rows_of(0, 0, rank=rank)  # noqa: E731
        seen = named(loader, 0, range(len(infos)))
    else:
        refused = lambda: loader.rows_of(0, 0)  # noqa: E731
        seen = named(loader, 0, range(len(infos)), rank=rank)
    text = None
    try:
        refused()
    except ValueError as error:
        text = str(error)
    return own, of_all, seen, text


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("kind", ["shared", "own", "streams"])
@pytest.mark.parametrize("tail", ["zero_rows", "merge"])
def test_ranks_know_the_rows_of_one_stream_or_of_their_own(kind, tail, world):
    for own, of_all, seen, text in returned(run_ranks(taken_by_ranks, world, kind, tail, world)):
        if kind == "shared":
            assert seen == [list(range(first, first + count)) for first, count in of_all]
        else:
            assert seen == in_order(own)
        assert (text is None) == (world == 1)
