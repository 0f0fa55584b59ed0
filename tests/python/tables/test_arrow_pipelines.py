# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Arrow data in pipelines: memory, laws, batches of lists, and streams."""

import gc

import numpy as np
import pytest
import torch
from arrow_tables import mixed, plain
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_distinput as tdi

pa = pytest.importorskip("pyarrow")

SMALL = 100_000  # bytes that descriptions of arrays may take


def test_values_at_odd_addresses_are_copied():
    memory = pa.py_buffer(b"?" + np.arange(5, dtype=np.int64).tobytes())
    array = pa.Array.from_buffers(pa.int64(), 5, [None, memory.slice(1)])
    assert [int(number) for number in tdi.Dataset.from_arrow(array)] == [0, 1, 2, 3, 4]


def test_numbers_are_not_copied_and_outlive_the_table():
    before = pa.total_allocated_bytes()
    table = pa.table({"x": np.arange(100_000), "s": pa.array(["abc"] * 100_000, pa.large_string())})
    table = table.take(pa.array(range(100_000)))
    held = pa.total_allocated_bytes() - before
    dataset = tdi.Dataset.from_arrow(table)
    assert pa.total_allocated_bytes() - before < held + SMALL
    iterator = iter(dataset.batch(40_000))
    del table, dataset
    gc.collect()
    assert pa.total_allocated_bytes() - before > held - SMALL
    assert torch.cat([batch["x"] for batch in iterator]).tolist() == list(range(100_000))
    del iterator
    gc.collect()
    assert pa.total_allocated_bytes() < before + SMALL


def test_a_mapped_file_is_not_read_into_memory(tmp_path):
    table = pa.table({"x": np.arange(200_000, dtype=np.float32)})
    with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=50_000)
    mapped = pa.ipc.open_file(pa.memory_map(str(tmp_path / "t.arrow"))).read_all()
    before = pa.total_allocated_bytes()
    dataset = tdi.Dataset.from_arrow(mapped)
    del mapped
    assert torch.equal(torch.cat([row["x"] for row in dataset.batch(7000)]), torch.arange(200_000.0))
    assert pa.total_allocated_bytes() < before + SMALL


def test_a_written_batch_does_not_change_the_table():
    table = pa.table({"x": np.arange(4)})
    for row in tdi.Dataset.from_arrow(table):
        row["x"].fill_(9)
    for batch in tdi.Dataset.from_arrow(table).batch(4):
        batch["x"].fill_(9)
    assert table["x"].to_pylist() == [0, 1, 2, 3]


@pytest.mark.parametrize("columns", [["x"], ["x", "s", "l"]])
def test_laws(columns):
    dataset = tdi.Dataset.from_arrow(mixed().select(columns)).shuffle(seed=3).batch(4)
    tdi.testing.assert_resumable(dataset)
    tdi.testing.assert_paths_agree(dataset)
    whole = [plain(batch) for batch in dataset._native.iterate(epoch=1)]
    one = dataset.with_options(tdi.Options(num_threads=1, prefetch=0))
    assert [plain(batch) for batch in one._native.iterate(epoch=1)] == whole
    rows = [number for batch in whole for number in batch["x"]]
    assert sorted(rows) == list(range(23)) and rows != sorted(rows)


def test_replicas_share_the_rows_of_strings_and_lists():
    dataset = tdi.Dataset.from_arrow(mixed()).batch(8)
    strategy = tdi.MirroredStrategy(["cpu"] * 3)
    seen = []
    for batch in strategy.distribute_dataset(dataset):
        for x, s, items in zip(batch["x"].values, batch["s"].values, batch["l"].values, strict=True):
            seen += zip(x.tolist(), s, items.tolist(), strict=True)
    assert seen == [(float(i), f"row {i}", [i, i + 1]) for i in range(23)]


def test_lists_of_varying_length_need_a_padded_or_ragged_batch():
    dataset = tdi.Dataset.from_arrow(pa.table({"ids": [[1], [2, 3], []]}))
    assert dataset.element_spec == {"ids": tdi.TensorSpec([None], torch.int64)}
    with pytest.raises(ValueError, match=r"from_arrow: leaf \['ids'\] has lists of 1 and of 2 items"):
        next(iter(dataset.batch(3)))
    assert next(iter(dataset.padded_batch(3)))["ids"].tolist() == [[1, 0], [2, 3], [0, 0]]
    assert [row.tolist() for row in next(iter(dataset.ragged_batch(3)))["ids"].unbind()] == [[1], [2, 3], []]


LISTS = st.lists(st.lists(st.integers(-9, 9), max_size=4), min_size=1, max_size=12)


@settings(max_examples=30)
@given(LISTS, st.integers(1, 5), st.integers(1, 5), st.booleans())
def test_lists_become_padded_and_ragged_batches_as_rows_do(lists, chunk, size, drop):
    pairs = pa.array([[[item, -item] for item in items] for items in lists], pa.list_(pa.list_(pa.int16(), 2)))
    columns = {
        "ids": pa.array(lists, pa.list_(pa.int32())),
        "pairs": pairs,
        "y": np.arange(len(lists), dtype=np.float32),
    }
    table = pa.table({**columns, "s": [f"row {row}" for row in range(len(lists))]})
    dataset = tdi.Dataset.from_arrow(pa.Table.from_batches(table.to_batches(max_chunksize=chunk)))
    batches = list(dataset.ragged_batch(size, drop_remainder=drop))
    assert [row.tolist() for batch in batches for row in batch["ids"].unbind()] == lists[: len(batches) * size]
    assert all(batch["pairs"].dtype == torch.int16 and batch["y"].dtype == torch.float32 for batch in batches)
    shapes = {"ids": (4,), "pairs": (None, 3), "y": (), "s": ()}
    values = {"ids": -1, "pairs": 7, "y": 0, "s": ""}
    for pipeline in (
        dataset.ragged_batch(size, drop_remainder=drop),
        dataset.padded_batch(size, drop_remainder=drop),
        dataset.padded_batch(size, shapes, values),
        dataset.shuffle(seed=1).padded_batch(size, padding_values={"ids": 5, "pairs": 0, "y": 1, "s": "x"}),
        dataset.shuffle(3, seed=1).ragged_batch(size),
        dataset.skip(1).padded_batch(size, {"ids": (None,), "pairs": (4, 2), "y": (), "s": ()}),
    ):
        tdi.testing.assert_paths_agree(pipeline)  # the sequential path makes batches of single rows


def test_rows_longer_than_declared_are_named_in_columns():
    dataset = tdi.Dataset.from_arrow(pa.table({"ids": [[1], [2, 3, 4]], "s": ["a", "b"]}))
    with pytest.raises(ValueError, match=r"\['ids'\] has the shape \(3,\) in row 1 of the batch, which is more than"):
        next(iter(dataset.padded_batch(2, {"ids": (2,), "s": ()})))
    with pytest.raises(ValueError, match=r"`padding_values` for .*\['s'\] is -1, but strings are padded with a string"):
        next(iter(dataset.padded_batch(2, padding_values=-1)))
    with pytest.raises(ValueError, match=r"\['ids'\] is 0.5, which torch.int64 cannot hold"):
        next(iter(dataset.padded_batch(2, padding_values={"ids": 0.5, "s": ""})))


def test_a_reader_is_a_stream_that_can_be_read_once():
    dataset = tdi.Dataset.from_arrow(mixed().to_reader())
    assert dataset.cardinality() == tdi.UNKNOWN
    assert dataset.element_spec["x"] == tdi.TensorSpec([], torch.float32)
    assert [float(row["x"]) for row in dataset] == list(range(23))
    with pytest.raises(tdi.FailedPreconditionError, match="the stream was read already"):
        next(iter(dataset))


def test_a_dataset_of_pyarrow_is_a_stream_opened_anew():
    dataset = pytest.importorskip("pyarrow.dataset")
    rows = tdi.Dataset.from_arrow(dataset.dataset(mixed()))
    tdi.testing.assert_resumable(rows.batch(5))
    assert [row["s"] for row in rows] == [f"row {i}" for i in range(23)]


def test_a_scanner_of_pyarrow_is_a_stream_of_its_columns():
    dataset = pytest.importorskip("pyarrow.dataset")
    scanner = dataset.dataset(mixed()).scanner(columns=["s"], filter=dataset.field("x") > 20)
    rows = tdi.Dataset.from_arrow(scanner)
    assert rows.element_spec == {"s": tdi.StringSpec([], "utf-8")}
    for _ in range(2):
        assert [row["s"] for row in rows] == ["row 21", "row 22"]


def test_a_stream_that_fails_says_so():
    def batches():
        yield mixed().to_batches()[0]
        raise OSError("the disk is on fire")

    reader = pa.RecordBatchReader.from_batches(mixed().schema, batches())
    iterator = iter(tdi.Dataset.from_arrow(reader))
    assert [float(next(iterator)["x"]) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(tdi.InvalidArgumentError, match="the disk is on fire"):
        next(iterator)
