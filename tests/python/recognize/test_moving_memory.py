# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Tensors whose memory moves or shrinks while rows are read from them."""

import pytest
import torch
from processes import run_script
from torch import multiprocessing
from torch.utils.data import TensorDataset

import torch_distinput as tdi


@pytest.mark.parametrize("move", [torch.Tensor.share_memory_, lambda rows: rows.resize_(2 * len(rows), 8)])
@pytest.mark.parametrize(
    "open_batches",
    [
        lambda rows: iter(tdi.Dataset.from_tensor_slices({"x": rows}).batch(64)),
        lambda rows: iter(tdi.DataLoader(TensorDataset(rows), 64)),
        lambda rows: iter(tdi.DataLoader(TensorDataset(rows), 64, num_workers=2)),
        lambda rows: iter(tdi.Dataset.from_tensor_slices((rows, [str(i) for i in range(len(rows))])).batch(64)),
    ],
)
def test_rows_whose_memory_moves_are_read_where_they_are(open_batches, move):
    rows = torch.ones(1 << 14, 8)
    values, junk = set(), None
    for step, batch in enumerate(open_batches(rows)):
        leaf = batch["x"] if isinstance(batch, dict) else batch[0]
        values |= set(leaf.unique().tolist())
        if step == 3:
            move(rows)
            junk = [torch.full((1 << 14, 8), 7.0) for _ in range(3)]
    assert values == {1.0} and junk is not None


def test_a_tensor_sent_to_a_spawned_process_in_the_middle_of_an_epoch_loses_nothing():
    rows = torch.ones(1 << 14, 8)
    batches = iter(tdi.Dataset.from_tensor_slices(rows).batch(64))
    first = next(batches)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply_async(len, (rows,)).get(60) == len(rows)
    assert rows.is_shared()
    junk = [torch.full((1 << 14, 8), 7.0) for _ in range(3)]  # where the rows were
    assert torch.cat([first, *batches]).eq(1).all() and junk


@pytest.mark.parametrize("ragged", [False, True])
def test_memory_that_was_taken_away_is_named(ragged):
    rows = torch.ones(100, 8)
    value = torch.nested.nested_tensor_from_jagged(rows, torch.arange(0, 101, 10)) if ragged else rows
    batches = iter(tdi.Dataset.from_tensor_slices(value).with_options(tdi.Options(num_threads=0, prefetch=0)))
    next(batches)
    rows.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="a tensor that rows are read from has lost its memory"):
        next(batches)


def test_offsets_of_a_ragged_leaf_are_the_librarys_own():
    offsets = torch.arange(0, 101, 10)
    rows = torch.nested.nested_tensor_from_jagged(torch.arange(100), offsets)
    dataset = tdi.Dataset.from_tensor_slices(rows)
    offsets[1:] = 1 << 40
    assert [row.tolist() for row in dataset] == [list(range(begin, begin + 10)) for begin in range(0, 100, 10)]


# Memory that is unmapped when it is freed, so that a read after that ends the process.
MOVES = """
import mmap, threading, torch

ROWS = 1 << 14
names = [str(row) for row in range(ROWS)]
for turn in range(20):
    memory = mmap.mmap(-1, 32 * ROWS)
    rows = torch.frombuffer(memory, dtype=torch.float32).view(ROWS, 8).fill_(1)
    del memory
    dataset = tdi.Dataset.from_tensor_slices((rows,) if turn % 2 else (rows, names))
    dataset = dataset.batch(ROWS // 4).repeat(200 if turn % 2 else 2)
    batches = iter(dataset.with_options(tdi.Options(num_threads=0, prefetch=0)))
    next(batches)
    mover = threading.Thread(target=rows.share_memory_)
    mover.start()
    assert all(float(batch[0][-1, -1]) == 1 for batch in batches)
    mover.join(60)
    assert rows.is_shared()
print("moved")
"""


def test_rows_may_move_from_another_thread_while_they_are_gathered():
    """The thread that moves them frees the old memory after the reads on it."""
    result = run_script(MOVES, timeout=120)
    assert (result.returncode, result.stdout) == (0, "moved\n"), result.stderr[-500:]
