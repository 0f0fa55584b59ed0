# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""shuffle(blocks=...): each row once, resumes, blocks of files and tables, what explain prints."""

import functools
import itertools
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torch_distinput as tdi

BLOCKS = st.lists(st.integers(0, 9), min_size=1, max_size=20).filter(any)
WINDOWS = st.integers(1, 4)


def numbered(blocks: list[int]) -> tdi.Dataset:
    """Numbers from 0 on, in blocks of these sizes."""
    ends = list(itertools.accumulate(blocks))
    parts = [tdi.Dataset.range(end - size, end) for size, end in zip(blocks, ends, strict=True)]
    return functools.reduce(lambda one, other: one.concatenate(other), parts)


def order(dataset) -> list[int]:
    return [int(row) for row in dataset]


def lanes_of(dataset: tdi.Dataset) -> tuple[int, int]:
    """Blocks and lanes, as explain prints them."""
    found = re.search(r"(\d+) blocks of [\d.]+ rows in (\d+) lanes", str(dataset.explain()))
    return int(found.group(1)), int(found.group(2))


@given(BLOCKS, WINDOWS)
def test_an_epoch_has_each_row_once_and_epochs_differ(blocks, window):
    dataset = numbered(blocks).shuffle(seed=7, blocks=window)
    epochs = order(dataset.repeat(2))
    rows = sum(blocks)
    assert sorted(epochs[:rows]) == sorted(epochs[rows:]) == list(range(rows))
    assert order(dataset.with_options(tdi.Options(num_threads=1)).repeat(2)) == epochs


def test_seeds_and_epochs_decide_the_order():
    blocks = [5] * 40
    one, other = (order(numbered(blocks).shuffle(seed=seed, blocks=2).repeat(2)) for seed in (1, 2))
    assert one[:200] != one[200:] and one != other
    fixed = order(numbered(blocks).shuffle(seed=1, blocks=2, reshuffle_each_iteration=False).repeat(2))
    assert fixed[:200] == fixed[200:]


@pytest.mark.parametrize("window", [1, 3])
def test_it_resumes_and_both_paths_agree(window):
    dataset = numbered([3, 0, 9, 4, 4, 1]).shuffle(seed=5, blocks=window)
    tdi.testing.assert_resumable(dataset.batch(4))
    tdi.testing.assert_paths_agree(dataset.batch(4))


def test_blocks_follow_rows_through_ops_that_keep_their_places():
    rows = numbered([5] * 128)
    for dataset, blocks in (
        (rows.map(lambda row: row), 128),
        (rows.take(320), 64),
        (rows.skip(318), 65),
        (rows.enumerate(), 128),
        (rows.cache(), 128),
        (rows.prefetch(2), 128),
    ):
        assert lanes_of(dataset.shuffle(seed=1, blocks=1)) == (blocks, 64)


def test_records_of_each_file_are_blocks(tmp_path):
    files = []
    for number in range(70):
        files.append(str(tmp_path / f"{number}.txt"))
        with open(files[-1], "w") as file:
            file.write("".join(f"{number} {line}\n" for line in range(number % 3 + 1)))
    dataset = tdi.TextLineDataset(files).shuffle(seed=1, blocks=1)
    assert lanes_of(dataset) == (70, 64)
    assert sorted(dataset) == sorted(tdi.TextLineDataset(files))


def test_files_are_cut_into_blocks_of_equal_size(tmp_path):
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(bytes(4096))
    large.write_bytes(bytes(40 << 20))
    dataset = tdi.FixedLengthRecordDataset([str(small), str(large)], 4096).shuffle(seed=1, blocks=1)
    assert lanes_of(dataset) == (6, 4)


def test_rows_in_memory_have_blocks_of_8_mib():
    dataset = tdi.Dataset.from_tensor_slices(torch.zeros(40, 1 << 20, dtype=torch.uint8)).shuffle(seed=1, blocks=1)
    assert lanes_of(dataset) == (5, 4)


def test_row_groups_are_blocks_and_each_is_read_once_an_epoch(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    files = []
    for number, rows in enumerate((300, 1000)):
        files.append(str(tmp_path / f"{number}.parquet"))
        table = pa.table({"x": torch.arange(rows).numpy() + 1000 * number, "s": [f"row {row}" for row in range(rows)]})
        parquet.write_table(table, files[-1], row_group_size=10)
    read = []
    whole = parquet.ParquetFile.read_row_group
    several = parquet.ParquetFile.read_row_groups
    monkeypatch.setattr(
        parquet.ParquetFile, "read_row_group", lambda file, *a, **k: read.append(1) or whole(file, *a, **k)
    )
    monkeypatch.setattr(
        parquet.ParquetFile, "read_row_groups", lambda file, *a, **k: read.append(1) or several(file, *a, **k)
    )
    dataset = tdi.ParquetDataset(files).shuffle(seed=1, blocks=1)
    assert lanes_of(dataset) == (130, 64)
    rows = [int(row) for batch in dataset.batch(32) for row in batch["x"]]
    assert sorted(rows) == [*range(300), *range(1000, 2000)]
    assert len(read) == 130


def test_explain_says_what_is_in_use():
    text = str(numbered([10] * 256).shuffle(seed=1, blocks=2).explain())
    assert "256 blocks of 10.0 rows in 64 lanes, windows of 2 blocks; about 256 blocks are in use at a time" in text
    assert "at most 1 + B/256 times that after a full shuffle" in text


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda rows: rows.shuffle(blocks=0), "`blocks` must be at least 1, but is 0"),
        (lambda rows: rows.shuffle(5, blocks=2), "`blocks` and `buffer_size` exclude each other"),
        (lambda rows: rows.repeat().shuffle(blocks=2), "is infinite; give `buffer_size`"),
        (lambda rows: rows.filter(lambda row: True).shuffle(blocks=2), "is unknown; give `buffer_size`"),
    ],
)
def test_what_cannot_be_shuffled_by_blocks_is_refused(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make(tdi.Dataset.range(10))


def test_a_function_behind_batches_is_called_for_those_that_are_asked_for():
    calls = []
    batches = numbered([50] * 100).shuffle(seed=1, blocks=2).batch(32).map(lambda batch: calls.append(len(batch)))
    for asked, _ in enumerate(itertools.islice(batches, 6), start=1):
        assert len(calls) == asked
