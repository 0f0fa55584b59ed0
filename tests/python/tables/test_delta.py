# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Delta tables: the rows of the package's own scan, whatever was deleted; one version; errors."""

import os
import pickle
import tempfile

import numpy as np
import pytest
import torch
from deleted_rows import delete_of_delta
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_distinput as tdi
from torch_distinput.tables._snapshot_files import SnapshotFiles

pa = pytest.importorskip("pyarrow")
deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")

VECTORS = {"delta.enableDeletionVectors": "true"}
ROWS = 30


def table(first=0, rows=ROWS, **columns):
    numbers = np.arange(first, first + rows)
    kinds = ["a b", "c%/d", "é"]
    return pa.table({"i": numbers, "s": [f"r{n}" for n in numbers], "p": [kinds[n % 3] for n in numbers], **columns})


def write(folder, data, **options):
    writer = deltalake.WriterProperties(max_row_group_size=4)
    deltalake.write_deltalake(folder, data, writer_properties=writer, **options)


def numbers(dataset):
    return [number for batch in dataset for number in batch["i"].tolist()]


def scanned(folder):
    return pa.table(deltalake.DeltaTable(folder).scan().read_all())


@pytest.fixture
def folder(tmp_path):
    path = str(tmp_path / "a {table}")
    write(path, table(), partition_by=["p"], configuration=VECTORS)
    delete_of_delta(path, lambda rows: set(range(0, rows, 2)))
    return path


@settings(max_examples=12, deadline=None)
@given(
    appended=st.lists(st.integers(1, 25), min_size=1, max_size=3),
    partitioned=st.booleans(),
    mode=st.sampled_from([None, "name", "id"]),
    seed=st.integers(0, 99),
    world=st.integers(1, 7),
    ops=st.sampled_from([lambda ds: ds, lambda ds: ds.shuffle(seed=3), lambda ds: ds.shuffle(seed=3, blocks=2)]),
)
def test_rows_are_those_of_the_scan_on_any_number_of_ranks(appended, partitioned, mode, seed, world, ops):
    drawn = np.random.default_rng(seed)
    configuration = {} if mode is None else {"delta.columnMapping.mode": mode}
    with tempfile.TemporaryDirectory() as path:
        for number, rows in enumerate(appended):
            options = {"configuration": VECTORS | configuration} if number == 0 else {"mode": "append"}
            write(path, table(100 * number, rows), partition_by=["p"] if partitioned else None, **options)
        delete_of_delta(path, lambda rows: set(np.flatnonzero(drawn.random(rows) < 0.4).tolist()))
        expected = scanned(path).to_pydict()
        dataset = tdi.DeltaDataset(path)
        assert len(dataset) == len(expected["i"])
        found = {int(row["i"]): (row["s"], row["p"]) for row in dataset}
        assert found == {i: (s, p) for i, s, p in zip(expected["i"], expected["s"], expected["p"], strict=True)}
        if found:
            batches = ops(dataset).batch(5)
            shares = [
                tdi.testing.worker_stream(batches, world, 1, rank, tdi.AutoShardPolicy.DATA) for rank in range(world)
            ]
            assert sorted(number for share in shares for number in numbers(share)) == sorted(expected["i"])


@pytest.mark.parametrize("ops", [lambda ds: ds, lambda ds: ds.shuffle(seed=1), lambda ds: ds.shuffle(seed=1, blocks=2)])
def test_laws_of_delta_tables(folder, ops):
    dataset = ops(tdi.DeltaDataset(folder)).batch(4)
    tdi.testing.assert_resumable(dataset)
    tdi.testing.assert_paths_agree(dataset)


def test_a_dataset_stays_at_its_version(folder):
    before = tdi.DeltaDataset(folder)
    rows = numbers(before.batch(100))
    pickled = pickle.dumps(before)
    write(folder, table(1000), mode="append")
    assert numbers(before.batch(100)) == rows == numbers(pickle.loads(pickled).batch(100))
    assert len(tdi.DeltaDataset(folder)) == len(rows) + ROWS
    assert numbers(tdi.DeltaDataset(folder, version=1).batch(100)) == rows
    assert numbers(tdi.DeltaDataset(deltalake.DeltaTable(folder, version=1)).batch(100)) == rows
    assert sorted(numbers(tdi.DeltaDataset(folder, version=0).batch(100))) == list(range(ROWS))


def test_a_state_names_the_version_that_it_is_of(folder):
    iterator = iter(tdi.DeltaDataset(folder).batch(4))
    next(iterator)
    state, rest = iterator.state_dict(), numbers(iterator)
    write(folder, table(1000), mode="append")
    with pytest.raises(ValueError, match=r"version=1\)`, but here it is `DeltaDataset\(version=2"):
        iter(tdi.DeltaDataset(folder).batch(4)).load_state_dict(state)
    resumed = iter(tdi.DeltaDataset(folder, version=1).batch(4))
    resumed.load_state_dict(state)
    assert numbers(resumed) == rest


def test_columns_that_were_added_are_null_in_older_files(tmp_path):
    path = str(tmp_path)
    write(path, table(0, 2))
    write(path, table(2, 2, x=pa.array([1.5, 2.5])), mode="append", schema_mode="merge")
    rows = tdi.DeltaDataset(path, columns=["x", "i"], nulls={"x": -1.0})
    assert sorted((int(row["i"]), float(row["x"])) for row in rows) == [(0, -1), (1, -1), (2, 1.5), (3, 2.5)]
    assert list(rows.element_spec) == ["x", "i"]
    with pytest.raises(tdi.InvalidArgumentError, match="DeltaDataset: .*column 'x' is null in row 0"):
        list(tdi.DeltaDataset(path))


def test_a_column_of_the_partition_alone_reads_no_column_of_the_files(folder):
    rows = [row["p"] for row in tdi.DeltaDataset(folder, columns=["p"])]
    assert sorted(rows) == ["a b"] * 5 + ["c%/d"] * 5 + ["é"] * 5


def test_a_block_is_a_row_group_and_is_read_once(folder, monkeypatch):
    seen = []
    original = SnapshotFiles.read_block

    def read_block(self, file, index, block):
        seen.append((file.path, block))
        return original(self, file, index, block)

    monkeypatch.setattr(SnapshotFiles, "read_block", read_block)
    dataset = tdi.DeltaDataset(folder).shuffle(seed=1, blocks=1).batch(4)
    assert sorted(numbers(dataset)) == sorted(scanned(folder)["i"].to_pylist())
    assert len(seen) == len(set(seen)) == 9
    assert "DeltaDataset(version=1)" in str(dataset.explain())


def test_errors_name_the_table(folder, tmp_path):
    with pytest.raises(tdi.NotFoundError, match="DeltaDataset: .*nothing: there is no Delta table"):
        tdi.DeltaDataset(tmp_path / "nothing")
    with pytest.raises(tdi.InvalidArgumentError, match="DeltaDataset: .*a {table}"):
        tdi.DeltaDataset(folder, version=77)
    with pytest.raises(ValueError, match=r"`columns` has 'q', but the columns of the table are \['i', 's', 'p'\]"):
        tdi.DeltaDataset(folder, columns=["q"])
    with pytest.raises(ValueError, match="`version` is 0, but the DeltaTable is at version 1"):
        tdi.DeltaDataset(deltalake.DeltaTable(folder), version=0)
    with pytest.raises(TypeError, match="`version` must be an int"):
        tdi.DeltaDataset(folder, version="1")


def test_a_file_that_is_gone_or_cut_is_an_error_that_names_it(folder):
    dataset = tdi.DeltaDataset(folder)
    (path,) = [name for name in deltalake.DeltaTable(folder).file_uris() if "a%20b/part" in name]
    path = path.replace("a%20%7Btable%7D", "a {table}")
    os.truncate(path, os.path.getsize(path) // 2)
    with pytest.raises(tdi.InvalidArgumentError, match="DeltaDataset: .*part-0"):
        list(dataset)
    os.remove(path)
    with pytest.raises(tdi.NotFoundError, match="DeltaDataset: .*part-0.*there is no such file"):
        list(dataset)


def test_the_types_of_the_table_hold_for_all_files(tmp_path):
    write(str(tmp_path), pa.table({"x": pa.array([1], pa.int32())}))
    dataset = tdi.DeltaDataset(tmp_path)
    assert dataset.element_spec == {"x": tdi.TensorSpec([], torch.int32)}
