# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Parquet: equal values, what is read when, laws, shares of workers, bad files."""

import itertools
import os

import numpy as np
import pytest
import torch
from arrow_tables import numbers
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_distinput as tdi
from torch_distinput.tables import _parquet

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

FILES, ROWS, GROUP = 4, 23, 5


def table(first=0, rows=ROWS):
    numbers = np.arange(first, first + rows)
    return pa.table(
        {
            "i": numbers,
            "x": numbers.astype(np.float32) / 2,
            "s": [f"row {number}" for number in numbers],
            "l": [list(range(number % 4)) for number in numbers],
        }
    )


@pytest.fixture
def files(tmp_path):
    names = [str(tmp_path / f"{i}.parquet") for i in range(FILES)]
    for i, name in enumerate(names):
        parquet.write_table(table(i * ROWS), name, row_group_size=GROUP)
    return names


@pytest.fixture
def reads(monkeypatch):
    """The blocks that are read, in order."""
    seen = []
    original = _parquet.ParquetFiles.read_block

    def read_block(self, file, index, block):
        seen.append((os.path.basename(file.path), block))
        return original(self, file, index, block)

    monkeypatch.setattr(_parquet.ParquetFiles, "read_block", read_block)
    return seen


def test_rows_of_parquet_files_are_those_of_pyarrow(files):
    dataset = tdi.ParquetDataset(files)
    rows = [row for name in files for row in parquet.read_table(name).to_pylist()]
    found = [{**row, "i": int(row["i"]), "x": float(row["x"]), "l": row["l"].tolist()} for row in dataset]
    assert found == rows and len(dataset) == len(rows)
    assert dataset.element_spec["l"] == tdi.TensorSpec([None], torch.int64)


@pytest.mark.parametrize("columns", [["i", "x"], ["s", "i"]])
def test_laws_of_parquet(files, columns):
    dataset = tdi.ParquetDataset(files, columns).shuffle(12, seed=3).batch(7)
    tdi.testing.assert_resumable(dataset)
    tdi.testing.assert_paths_agree(dataset)
    tdi.testing.assert_resumable(dataset.filter(lambda batch: True))
    whole = numbers(dataset._native.iterate(epoch=0))
    assert sorted(whole) == list(range(FILES * ROWS)) and whole != sorted(whole)
    one = dataset.with_options(tdi.Options(num_threads=1, prefetch=0))
    assert numbers(one._native.iterate(epoch=0)) == whole
    assert numbers(tdi.ParquetDataset(files, columns).shuffle(seed=1).batch(9)) != whole


def test_the_first_batch_reads_footers_and_one_row_group(tmp_path, reads):
    names = [str(tmp_path / f"{i}.parquet") for i in range(100)]
    for i, name in enumerate(names):
        parquet.write_table(pa.table({"i": [i] * 4}), name, row_group_size=2)
    dataset = tdi.ParquetDataset(names).batch(2).with_options(tdi.Options(prefetch=0))
    assert len(dataset) == 200 and reads == []
    iterator = iter(dataset)
    assert next(iterator)["i"].tolist() == [0, 0] and reads == [("0.parquet", 0)]
    for _ in range(150):
        next(iterator)
    reads.clear()
    resumed = iter(tdi.ParquetDataset(names).batch(2).with_options(tdi.Options(prefetch=0)))
    resumed.load_state_dict(iterator.state_dict())
    assert next(resumed)["i"].tolist() == [75, 75] and reads == [("75.parquet", 1)]


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="the system does not count what a process reads")
def test_the_first_batch_of_100_files_reads_the_bytes_of_footers_and_one_row_group(tmp_path):
    rows, group_bytes, footer_bytes = 16_384, 16_384 * 8, 1 << 16  # pyarrow looks for a footer in the last 64 KiB
    first = str(tmp_path / "0.parquet")
    numbers_ = np.random.default_rng(0).integers(0, 2**62, 3 * rows)
    options = {"compression": "none", "use_dictionary": False, "row_group_size": rows}
    parquet.write_table(pa.table({"i": numbers_}), first, **options)
    names = [first, *(str(tmp_path / f"{i}.parquet") for i in range(1, 100))]
    for name in names[1:]:
        os.link(first, name)
    next(iter(tdi.ParquetDataset(first).batch(2)))  # what pyarrow loads once

    def read_bytes():
        with open("/proc/self/io") as file:
            return int(file.readline().split()[1])

    before = read_bytes()
    batch = next(iter(tdi.ParquetDataset(names).batch(256).with_options(tdi.Options(prefetch=0))))
    assert batch["i"].tolist() == numbers_[:256].tolist()
    assert read_bytes() - before < 100 * footer_bytes + 1.1 * group_bytes + 100_000


@pytest.mark.parametrize("ops", [lambda ds: ds, lambda ds: ds.shuffle(3 * GROUP, seed=1)])
def test_a_windowed_shuffle_reads_no_more_than_a_pass(files, reads, ops):
    list(ops(tdi.ParquetDataset(files, ["i", "s"])).batch(4))
    assert len(reads) == len(set(reads)) == FILES * -(-ROWS // GROUP)


def test_small_row_groups_are_read_together(files, reads):
    assert numbers(tdi.ParquetDataset(files[:1], ["i"], batch_rows=9).batch(10)) == list(range(ROWS))
    assert len(reads) == 3  # groups of 5, 5 | 5, 5 | 3


@pytest.mark.parametrize("condition", [[("x", ">", 5), ("i", "<", 60)], "expression"])
def test_filters_keep_rows_and_their_number(files, condition):
    if condition == "expression":
        field = pytest.importorskip("pyarrow.dataset").field
        condition = (field("x") > 5) & (field("i") < 60)
    dataset = tdi.ParquetDataset(files, ["i"], filters=condition)
    assert len(dataset) == 49 and numbers(dataset.batch(10)) == list(range(11, 60))
    tdi.testing.assert_resumable(dataset.shuffle(seed=1).batch(5))


def test_columns_are_stacked_and_nulls_replaced(tmp_path):
    name = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"a": [1.0, None], "b": [3, 4], "y": [0, 1]}), name)
    dataset = tdi.ParquetDataset(name, columns=["y"], stack={"x": ["a", "b"]}, nulls={"a": -1})
    batch = next(iter(dataset.batch(2)))
    assert list(batch) == ["y", "x"] and batch["x"].tolist() == [[1, 3], [-1, 4]]
    with pytest.raises(tdi.InvalidArgumentError, match=r"t\.parquet: column 'a' is null in row 1"):
        list(tdi.ParquetDataset(name))


@pytest.mark.parametrize("policy", ["FILE", "DATA"])
def test_workers_share_files_or_rows(files, policy):
    dataset = tdi.ParquetDataset(tdi.Dataset.list_files(files, shuffle=False), ["i"]).batch(6)
    policy = getattr(tdi.AutoShardPolicy, policy)
    shares = [numbers(tdi.testing.worker_stream(dataset, 3, 1, worker, policy)) for worker in range(3)]
    if policy == tdi.AutoShardPolicy.FILE:
        assert shares[1] == list(range(ROWS, 2 * ROWS))
    assert sorted(itertools.chain(*shares)) == list(range(FILES * ROWS))


def test_a_file_that_cannot_be_read_is_named_or_skipped(files, tmp_path):
    with open(files[1], "r+b") as file:
        file.truncate(200)
    with pytest.raises(tdi.InvalidArgumentError, match=r"ParquetDataset: .*1\.parquet: "):
        list(tdi.ParquetDataset(files))
    lenient = tdi.ParquetDataset(files, ["i"]).with_options(tdi.Options(on_error="skip")).batch(5)
    assert sorted(numbers(lenient)) == [*range(ROWS), *range(2 * ROWS, 4 * ROWS)]
    tdi.testing.assert_resumable(lenient)
    with pytest.raises(tdi.NotFoundError, match=r"none\.parquet: there is no such file"):
        next(iter(tdi.ParquetDataset(tmp_path / "none.parquet")))


def test_another_schema_is_named(files, tmp_path):
    parquet.write_table(table().set_column(1, "x", pa.array(["a"] * ROWS)), files[2])
    with pytest.raises(tdi.InvalidArgumentError, match=r"2\.parquet: column 'x' has the Arrow format 'u', but 'f' in"):
        list(tdi.ParquetDataset(files))
    parquet.write_table(table().drop_columns(["s"]), files[2])
    with pytest.raises(tdi.InvalidArgumentError, match=r"2\.parquet: column 2 is 'l', but 's' in the first file"):
        list(tdi.ParquetDataset(files))
    with pytest.raises(tdi.InvalidArgumentError, match=r"2\.parquet: there is no column 's'; the columns are"):
        list(tdi.ParquetDataset(files, ["s"]))


def test_a_file_that_changes_between_epochs_is_read_anew(files):
    dataset = tdi.ParquetDataset(files[:1], ["i"])
    assert len(dataset) == ROWS
    parquet.write_table(table(100, 7), files[0], row_group_size=GROUP)
    assert len(dataset) == 7 and numbers(dataset.batch(7)) == list(range(100, 107))


WRITERS = {
    "polars": lambda rows, name: pytest.importorskip("polars").DataFrame(rows).write_parquet(name, row_group_size=3),
    "pandas": lambda rows, name: pytest.importorskip("pandas").DataFrame(rows).to_parquet(name, index=False),
    "duckdb": lambda rows, name: (
        pytest.importorskip("duckdb").from_arrow(pa.table(rows)).write_parquet(str(name), row_group_size=2048)
    ),
}


@pytest.mark.parametrize("writer", WRITERS)
@settings(max_examples=8)
@given(
    st.lists(
        st.tuples(st.integers(-(2**40), 2**40), st.floats(-9, 9), st.booleans(), st.text("aé ", max_size=9)), min_size=1
    )
)
def test_files_of_other_writers(tmp_path_factory, writer, rows):
    name = tmp_path_factory.mktemp("other") / "t.parquet"
    WRITERS[writer](dict(zip("ixbs", map(list, zip(*rows)))), name)
    dataset = tdi.ParquetDataset(name)
    assert [(int(row["i"]), float(row["x"]), bool(row["b"]), row["s"]) for row in dataset] == rows
    batch = next(iter(dataset.batch(len(rows))))
    assert batch["s"] == [row[3] for row in rows] and batch["x"].tolist() == [row[1] for row in rows]


@pytest.mark.parametrize("lie", [1, -1])
def test_a_footer_that_lies_is_named(files, monkeypatch, lie):
    monkeypatch.setattr(_parquet.ParquetFiles, "rows", lambda self, index: [count + lie for count in index.counts])
    with pytest.raises(tdi.InvalidArgumentError, match=r"0\.parquet: block 0 has not the \d rows that were counted"):
        list(tdi.ParquetDataset(files))


def test_workers_of_torchs_loader_read_their_shares(files):
    dataset = tdi.ParquetDataset(files, ["i"]).shuffle(7, seed=1).batch(5)
    iterator = iter(dataset)
    begun = next(iterator)["i"].tolist()  # threads of this process have read blocks when the workers are forked
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=2, timeout=60)
    assert sorted(numbers(loader)) == list(range(FILES * ROWS))
    assert sorted(begun + numbers(iterator)) == list(range(FILES * ROWS))


def test_without_an_index_files_are_read_in_order(files, reads):
    dataset = tdi.ParquetDataset(files, ["i"], index=False)
    assert dataset.cardinality() == tdi.UNKNOWN and reads == []
    assert numbers(dataset.batch(8)) == list(range(FILES * ROWS)) and reads == sorted(set(reads))
    tdi.testing.assert_resumable(dataset.shuffle(9, seed=1).batch(5))
    with pytest.raises(ValueError, match='ParquetDataset: `index` must be True, False or "auto"'):
        tdi.ParquetDataset(files, index="no")


@pytest.mark.parametrize("filters", [None, [("x", ">=", 0)]])
def test_checksums_of_pages_are_verified(tmp_path, filters):
    name = tmp_path / "t.parquet"
    options = {"write_page_checksum": True, "use_dictionary": False, "compression": "none"}
    parquet.write_table(pa.table({"x": np.arange(1000)}), name, **options)
    whole = name.read_bytes()
    place = whole.index(np.int64(500).tobytes() + np.int64(501).tobytes())
    name.write_bytes(whole[:place] + b"\1" + whole[place + 1 :])
    with pytest.raises(tdi.InvalidArgumentError, match=r"t\.parquet: .*CRC checksum verification failed"):
        list(tdi.ParquetDataset(name, filters=filters).batch(100))


@pytest.mark.parametrize(("groups", "rows", "least"), [(18, 1, 5), (40, 10, 100)])
def test_filtered_rows_of_small_row_groups_are_in_file_order(tmp_path, groups, rows, least):
    name, total = tmp_path / "t.parquet", groups * rows
    parquet.write_table(
        pa.table({"i": range(total), "s": ["0" * (row % 41) for row in range(total)]}), name, row_group_size=rows
    )
    dataset = tdi.ParquetDataset(name, filters=[("i", ">=", 3)], batch_rows=least)
    for _ in range(3):
        assert numbers(dataset.batch(7)) == list(range(3, total))
    tdi.testing.assert_resumable(dataset.batch(7))
