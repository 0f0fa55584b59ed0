# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Iceberg tables: the rows of the package's own scan, whatever was deleted and renamed; one snapshot; errors."""

import os
import pickle
import tempfile

import numpy as np
import pytest
import torch
from deleted_rows import delete_of_iceberg
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_distinput as tdi
from torch_distinput.tables._snapshot import place_of

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
catalogs = pytest.importorskip("pyiceberg.catalog.sql", reason="pyiceberg is not installed")

from pyiceberg.table import StaticTable  # noqa: E402
from pyiceberg.types import FloatType, LongType  # noqa: E402

ROWS = 12


def rows(first=0, count=ROWS):
    numbers = np.arange(first, first + count)
    return pa.table({"i": pa.array(numbers, pa.int32()), "s": [f"r{n}" for n in numbers], "p": (numbers % 3).tolist()})


def table(folder, *sizes):
    catalog = catalogs.SqlCatalog("tests", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/house")
    catalog.create_namespace("db")
    made = catalog.create_table("db.t", rows().schema, properties={"write.parquet.row-group-limit": "4"})
    for number, size in enumerate(sizes):
        made.append(rows(100 * number, size))
    return made


def files_of(made):
    return sorted(task.file.file_path for task in made.scan().plan_files())


def numbers(dataset):
    return [number for batch in dataset for number in batch["i"].tolist()]


@settings(max_examples=10, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=3),
    vectors=st.booleans(),
    seed=st.integers(0, 99),
    world=st.integers(1, 7),
    ops=st.sampled_from([lambda ds: ds, lambda ds: ds.shuffle(seed=3), lambda ds: ds.shuffle(seed=3, blocks=2)]),
)
def test_rows_are_those_of_the_scan_on_any_number_of_ranks(sizes, vectors, seed, world, ops):
    drawn = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        made = table(folder, *sizes)
        counts = {file: parquet.read_metadata(file.removeprefix("file://")).num_rows for file in files_of(made)}
        deleted = {file: set(np.flatnonzero(drawn.random(count) < 0.4).tolist()) for file, count in counts.items()}
        deleted = {file: rows for file, rows in deleted.items() if rows}
        metadata = delete_of_iceberg(made, deleted, vectors) if deleted else made.metadata_location
        expected = StaticTable.from_metadata(metadata).scan().to_arrow().to_pydict()
        dataset = tdi.IcebergDataset(metadata)
        assert len(dataset) == len(expected["i"])
        found = {int(row["i"]): (row["s"], int(row["p"])) for row in dataset}
        assert found == {i: (s, p) for i, s, p in zip(expected["i"], expected["s"], expected["p"], strict=True)}
        if found:
            batches = ops(dataset).batch(5)
            shares = [
                tdi.testing.worker_stream(batches, world, 1, rank, tdi.AutoShardPolicy.DATA) for rank in range(world)
            ]
            assert sorted(number for share in shares for number in numbers(share)) == sorted(expected["i"])


@pytest.mark.parametrize("ops", [lambda ds: ds, lambda ds: ds.shuffle(seed=1), lambda ds: ds.shuffle(seed=1, blocks=2)])
def test_laws_of_iceberg_tables(tmp_path, ops):
    made = table(tmp_path, 12, 9)
    dataset = ops(tdi.IcebergDataset(delete_of_iceberg(made, {files_of(made)[0]: {0, 5}}))).batch(4)
    tdi.testing.assert_resumable(dataset)
    tdi.testing.assert_paths_agree(dataset)
    assert len(numbers(dataset)) == 19


def test_columns_are_found_by_their_numbers(tmp_path):
    made = table(tmp_path, 3)
    with made.update_schema() as update:
        update.rename_column("s", "text")
        update.update_column("i", LongType())
        update.delete_column("p")
    with made.update_schema() as update:
        update.add_column("p", FloatType())
        update.add_column("s", LongType())
    expected = made.scan().to_arrow().to_pydict()
    dataset = tdi.IcebergDataset(made, nulls="mask")
    assert dataset.element_spec["i"] == tdi.TensorSpec([], torch.int64)
    (batch,) = dataset.batch(9)
    assert batch["i"].tolist() == expected["i"] and batch["text"] == expected["text"]
    assert expected["p"] == expected["s"] == [None] * 3
    assert batch["p_valid"].tolist() == batch["s_valid"].tolist() == [False] * 3


def test_files_without_numbers_are_read_by_the_names_of_the_mapping(tmp_path):
    made = table(tmp_path)
    path = str(tmp_path / "other.parquet")
    parquet.write_table(rows(), path)
    made.add_files([path])
    with made.update_schema() as update:
        update.rename_column("s", "text")
    (batch,) = tdi.IcebergDataset(made).batch(99)
    assert batch["text"] == made.scan().to_arrow()["text"].to_pylist() == [f"r{n}" for n in range(ROWS)]


def test_a_dataset_stays_at_its_snapshot(tmp_path):
    made = table(tmp_path, 5)
    before, first = tdi.IcebergDataset(made), made.current_snapshot().snapshot_id
    pickled = pickle.dumps(before)
    iterator = iter(before.batch(2))
    next(iterator)
    state, rest = iterator.state_dict(), numbers(iterator)
    made.append(rows(100))
    assert numbers(before.batch(99)) == numbers(pickle.loads(pickled).batch(99)) == list(range(5))
    assert len(tdi.IcebergDataset(made)) == len(tdi.IcebergDataset(made.metadata_location)) == 5 + ROWS
    with pytest.raises(ValueError, match=rf"`IcebergDataset\(snapshot_id={first}\)`, but here it is"):
        iter(tdi.IcebergDataset(made).batch(2)).load_state_dict(state)
    resumed = iter(tdi.IcebergDataset(made, snapshot_id=first).batch(2))
    resumed.load_state_dict(state)
    assert numbers(resumed) == rest


def test_rows_that_are_deleted_by_their_values_are_refused(tmp_path):
    made = table(tmp_path, 3)
    metadata = delete_of_iceberg(made, {files_of(made)[0]: {1}}, equality=True)
    with pytest.raises(
        tdi.InvalidArgumentError, match=r"IcebergDataset: .*metadata.json.*equality deletes.*compact it"
    ):
        tdi.IcebergDataset(metadata)


def test_deleted_rows_beyond_a_file_are_refused(tmp_path):
    made = table(tmp_path, 3)
    dataset = tdi.IcebergDataset(delete_of_iceberg(made, {files_of(made)[0]: {1, 7}}))
    with pytest.raises(tdi.InvalidArgumentError, match="the table says that row 7 of it is deleted, but it has 3 rows"):
        len(dataset)


def test_parts_of_a_column_that_changed_their_names_are_refused(tmp_path):
    made = table(tmp_path)
    catalog = made.catalog
    data = pa.table({"i": [1], "part": [{"a": 1, "b": 2}]})
    made = catalog.create_table("db.nested", data.schema)
    made.append(data)
    (row,) = tdi.IcebergDataset(made)
    assert int(row["part"]["b"]) == 2
    with made.update_schema() as update:
        update.rename_column("part.b", "c")
    with pytest.raises(
        tdi.InvalidArgumentError, match="IcebergDataset: .*column 'part' is stored as .* rewrite the file"
    ):
        list(tdi.IcebergDataset(made))
    assert [int(row["i"]) for row in tdi.IcebergDataset(made, columns=["i"])] == [1]


def test_errors_name_the_table(tmp_path):
    made = table(tmp_path, 3)
    with pytest.raises(ValueError, match="`snapshot_id` is 4, but the table .*metadata.json has"):
        tdi.IcebergDataset(made, snapshot_id=4)
    with pytest.raises(ValueError, match=r"`columns` has 'q', but the columns of the table are \['i', 's', 'p'\]"):
        tdi.IcebergDataset(made, columns=["q"])
    with pytest.raises(tdi.NotFoundError, match="IcebergDataset: .*nothing.json"):
        tdi.IcebergDataset(tmp_path / "nothing.json")
    dataset = tdi.IcebergDataset(made)
    (file,) = files_of(made)
    os.remove(file.removeprefix("file://"))
    with pytest.raises(tdi.NotFoundError, match="IcebergDataset: .*parquet.*there is no such file"):
        list(dataset)


def test_places_of_other_programs_are_read_or_named():
    assert place_of("IcebergDataset", "s3a://bucket/x y.parquet") == "s3://bucket/x y.parquet"
    assert place_of("IcebergDataset", "file:///data/x.parquet") == "/data/x.parquet"
    with pytest.raises(tdi.InvalidArgumentError, match="abfss://.*, but files are read from paths and s3, "):
        place_of("IcebergDataset", "abfss://container@account/x.parquet")


def test_a_table_without_snapshots_has_no_rows(tmp_path):
    assert len(tdi.IcebergDataset(table(tmp_path))) == 0
