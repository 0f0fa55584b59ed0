# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""split="lanes" over shuffle(blocks=...): the steps of any world, resumes on others, the readers of blocks."""

import functools
import itertools
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ranks import returned, run_ranks

import torch_distinput as tdi
from torch_distinput import _C

BLOCKS = st.lists(st.integers(0, 9), min_size=1, max_size=20).filter(any)
BATCHES = st.integers(1, 12)
WORLDS = st.integers(1, 7)
WINDOWS = st.integers(1, 3)
TAILS = st.sampled_from(["zero_rows", "padded", "repeat", "drop", "until_first", "merge"])
LANES = tdi.InputOptions(split="lanes")


def numbered(blocks: list[int]) -> tdi.Dataset:
    """Numbers from 0 on, in blocks of these sizes."""
    ends = list(itertools.accumulate(blocks))
    parts = [tdi.Dataset.range(end - size, end) for size, end in zip(blocks, ends, strict=True)]
    return functools.reduce(lambda one, other: one.concatenate(other), parts)


def rows_of(blocks: list[int], batch: int, window: int) -> tdi.Dataset:
    return numbered(blocks).shuffle(seed=3, blocks=window).batch(batch)


def parts_of(step) -> tuple:
    return step.values if hasattr(step, "values") and not isinstance(step, torch.Tensor) else (step,)


def steps_of(iterator) -> list[list[list[int]]]:
    """The rows of each part of each step."""
    return [[part.tolist() for part in parts_of(step)] for step in iterator]


def distributed(dataset: tdi.Dataset, world: int, options: tdi.InputOptions = LANES):
    return tdi.MirroredStrategy(["cpu"] * world).distribute_dataset(dataset, options)


def flat(step: list[list[int]]) -> list[int]:
    return [row for part in step for row in part]


@given(BLOCKS, BATCHES, WORLDS, WINDOWS)
def test_steps_hold_the_rows_of_one_process_in_parts_of_equal_size(blocks, batch, world, window):
    dataset = rows_of(blocks, batch, window)
    alone = [step[0] for step in steps_of(distributed(dataset, 1))]
    steps = steps_of(distributed(dataset, world))
    plain = steps_of(distributed(dataset, world, tdi.InputOptions(split="balanced")))
    assert [[len(part) for part in step] for step in steps] == [[len(part) for part in step] for step in plain]
    assert [flat(step) for step in plain] == alone
    assert [sorted(flat(step)) for step in steps] == [sorted(rows) for rows in alone]
    for step, rows in zip(steps, alone, strict=True):
        assert all(part == sorted(part, key=rows.index) for part in step)


@given(BLOCKS, BATCHES, WORLDS, WORLDS, WINDOWS)
def test_any_world_resumes_after_every_step(blocks, batch, world, other, window):
    dataset = rows_of(blocks, batch, window)
    expected = [sorted(flat(step)) for step in steps_of(distributed(dataset, world))]
    iterator = iter(distributed(dataset, world))
    for number in range(len(expected) + 1):
        again = iter(distributed(dataset, other))
        again.load_state_dict(iterator.state_dict())
        assert [sorted(flat(step)) for step in steps_of(again)] == expected[number:]
        next(iterator, None)


@given(BLOCKS, BATCHES, WORLDS, WINDOWS, TAILS)
def test_both_paths_agree_and_tails_are_those_of_balanced_parts(blocks, batch, world, window, tail):
    dataset = rows_of(blocks, batch, window)
    found = {}
    for split in ("lanes", "balanced"):
        assigned = distributed(dataset, world, tdi.InputOptions(split=split, tail=tail))
        for stream_only in (False, True):
            native, steps = assigned._native.iterate(epoch=0, stream_only=stream_only), []
            while (step := native.next(None)) is not None:
                values, info = step
                parts = [part.tolist() for part in (values if isinstance(values, tuple) else (values,))]
                steps.append((parts, (info.valid, info.global_valid, info.loss_scale, info.row_start, info.is_last)))
            found[split, stream_only] = steps
    assert found["lanes", False] == found["lanes", True]
    assert [info for _, info in found["lanes", False]] == [info for _, info in found["balanced", False]]


@given(BLOCKS, BATCHES, WORLDS, WINDOWS, st.sampled_from(["zero_rows", "padded", "merge"]))
def test_restore_order_gives_rows_in_the_order_of_the_data(blocks, batch, world, window, tail):
    dataset = rows_of(blocks, batch, window)
    iterator = iter(distributed(dataset, world, tdi.InputOptions(split="lanes", tail=tail)))
    seen = []
    for step in iterator:
        seen += tdi.restore_order(torch.cat(parts_of(step)), iterator.step_info).tolist()
    assert seen == [row for rows in dataset for row in rows.tolist()]


@given(BLOCKS, BATCHES, st.integers(2, 7), WINDOWS, TAILS)
def test_step_rows_are_the_rows_that_are_delivered(blocks, batch, world, window, tail):
    dataset = rows_of(blocks, batch, window)
    order = [row for rows in dataset for row in rows.tolist()]
    rows = _C.StepRows(dataset._native, world, _C.InputOptions(split="lanes", tail=tail))
    steps = steps_of(distributed(dataset, world, tdi.InputOptions(split="lanes", tail=tail)))
    assert rows.num_steps == len(steps)
    listed = [[[order[at] for at in rows.rows(step, part)] for part in range(world)] for step in range(len(steps))]
    assert listed == steps


def test_a_block_is_read_by_as_many_processes_as_explain_says():
    blocks, world = [8] * 256, 4
    assigned = distributed(rows_of(blocks, 128, 1), world)
    told = float(re.search(r"a block is read by ([\d.]+) of the 1 processes", str(assigned.explain())).group(1))
    assert told == 1  # all replicas are in one process
    readers = {(row // 8, part) for step in steps_of(assigned) for part, rows in enumerate(step) for row in rows}
    assert len(readers) <= 256 * (1 + (world - 1) / 64 + 0.01)
    balanced = distributed(rows_of(blocks, 128, 1), world, tdi.InputOptions(split="balanced"))
    assert (
        len({(row // 8, part) for step in steps_of(balanced) for part, rows in enumerate(step) for row in rows}) >= 512
    )


@pytest.mark.parametrize(
    "dataset",
    [
        tdi.Dataset.range(8).batch(2),
        tdi.Dataset.range(8).shuffle(seed=1).batch(2),
        tdi.Dataset.range(8).shuffle(seed=1, blocks=1).filter(lambda row: True).batch(2),
    ],
)
def test_a_dataset_without_lanes_is_refused_with_what_to_do(dataset):
    with pytest.raises(ValueError, match=r"`split` \"lanes\" needs rows in the order of `shuffle\(blocks=\.\.\.\)`"):
        distributed(dataset, 2)


def test_what_does_not_go_together_is_refused():
    with pytest.raises(ValueError, match="`weights` needs `split` 'balanced'"):
        tdi.InputOptions(split="lanes", weights=[1, 2])
    with pytest.raises(ValueError, match="`balance` needs `split` 'balanced'"):
        tdi.InputOptions(split="lanes", balance=[1, 2])
    with pytest.raises(ValueError, match=r"needs the lanes of a dataset of torch_distinput"):
        tdi.DataLoader(torch.arange(8), 2, distributed=True, split="lanes")


def over_ranks(rank, blocks, batch, state, steps):
    loader = tdi.DataLoader(
        numbered(blocks).shuffle(seed=3, blocks=1).batch(batch), batch_size=None, distributed=True, split="lanes"
    )
    if state is not None:
        loader.load_state_dict(state)
    found = [rows.tolist() for rows in itertools.islice(iter(loader), steps)]
    listed = [loader.rows_of(0, step, rank).tolist() for step in range(len(found))] if state is None else []
    return found, loader.state_dict(), listed, str(loader.explain())


def test_ranks_share_the_steps_of_one_process_and_another_number_goes_on():
    blocks, batch = [3, 5, 0, 2, 4, 7, 1, 6], 6
    expected = [rows.tolist() for rows in numbered(blocks).shuffle(seed=3, blocks=1).batch(batch)]
    first = returned(run_ranks(over_ranks, 2, blocks, batch, None, 2))
    rest = returned(run_ranks(over_ranks, 3, blocks, batch, first[0][1], 100))
    found = [sorted(sum(parts, [])) for parts in zip(*(steps for steps, *_ in first), strict=True)]
    found += [sorted(sum(parts, [])) for parts in zip(*(steps for steps, *_ in rest), strict=True)]
    assert found == [sorted(rows) for rows in expected]
    assert all(listed == steps for steps, _, listed, _ in first)  # numbers are their own rows
    assert "of the 2 processes on average" in first[0][3]


def test_a_loader_leaves_out_rows():
    blocks = [4] * 8
    loader = tdi.DataLoader(
        numbered(blocks).shuffle(seed=3, blocks=1).batch(4), batch_size=None, distributed=True, split="lanes"
    )
    loader.exclude([0, 7, 30])
    assert sorted(row for rows in loader for row in rows.tolist()) == sorted(set(range(32)) - {0, 7, 30})
