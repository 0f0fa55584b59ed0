# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Zarr arrays: the rows that zarr reads, chunks as blocks, damage, objects of stores."""

import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_distinput as tdi
from torch_distinput.tables._zarr_arrays import ZarrArrays

pytest.importorskip("pyarrow")
zarr = pytest.importorskip("zarr", reason="zarr is not installed")

KINDS = ("b1", "i1", "u1", "i2", "i4", "i8", "f2", "f4", "f8")


def save(path, values, **options):
    array = zarr.create_array(str(path), shape=values.shape, dtype=values.dtype, **options)
    array[:] = values
    return str(path)


def random_values(drawn, kind, shape):
    return (drawn.random(shape) * 100).astype(kind)


def numbers(dataset):
    return [number for batch in dataset for number in batch.tolist()]


@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    counts=st.lists(st.integers(1, 23), min_size=1, max_size=3),
    row=st.lists(st.integers(1, 4), max_size=2),
    chunk=st.integers(1, 7),
    shards=st.integers(0, 3),
    version=st.sampled_from([2, 3]),
    seed=st.integers(0, 99),
)
def test_rows_are_those_of_zarr(kind, counts, row, chunk, shards, version, seed):
    drawn = np.random.default_rng(seed)
    chunks = (chunk, *(min(size, 2) for size in row))
    shard = (chunk * shards, *(2 * size for size in chunks[1:])) if shards and version == 3 else None
    with tempfile.TemporaryDirectory() as folder:
        values = [random_values(drawn, kind, (count, *row)) for count in counts]
        options = {"chunks": chunks, "shards": shard, "zarr_format": version}
        names = [save(Path(folder, f"{i}.zarr"), part, **options) for i, part in enumerate(values)]
        expected = torch.from_numpy(np.concatenate(values))
        dataset = tdi.ZarrDataset(names)
        assert dataset.element_spec == tdi.TensorSpec(row, expected.dtype) and len(dataset) == len(expected)
        assert torch.equal(torch.cat(list(dataset.batch(4))), expected)
        order = [int(number) for number in tdi.Dataset.range(len(expected)).shuffle(seed=5)]
        assert torch.equal(torch.cat(list(dataset.shuffle(seed=5).batch(4))), expected[order])


@settings(max_examples=20, deadline=None)
@given(
    rows=st.integers(1, 40),
    chunks=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    world=st.integers(1, 7),
    ops=st.sampled_from([lambda ds: ds, lambda ds: ds.shuffle(seed=3), lambda ds: ds.shuffle(seed=3, blocks=2)]),
)
def test_groups_are_dicts_on_any_number_of_ranks(rows, chunks, world, ops):
    with tempfile.TemporaryDirectory() as folder:
        group = zarr.open_group(folder, mode="w")
        group.create_array("i", data=np.arange(rows), chunks=(chunks[0],))
        group.create_array("x", data=np.arange(2.0 * rows).reshape(rows, 2), chunks=(chunks[1], 1))
        group.create_group("other")
        batches = ops(tdi.ZarrDataset(folder)).batch(5)
        policy = tdi.AutoShardPolicy.DATA
        shares = [list(tdi.testing.worker_stream(batches, world, 1, rank, policy)) for rank in range(world)]
        parts = [batch for share in shares for batch in share if len(batch["i"])]
        assert sorted(number for part in parts for number in part["i"].tolist()) == list(range(rows))
        for part in parts:
            assert torch.equal(part["x"][:, 0], 2.0 * part["i"])


@pytest.mark.parametrize("ops", [lambda ds: ds, lambda ds: ds.shuffle(seed=1), lambda ds: ds.shuffle(seed=1, blocks=2)])
def test_laws_of_zarr_arrays(tmp_path, ops):
    names = [save(tmp_path / f"{i}", np.arange(20 * i, 20 * i + 20), chunks=(3,)) for i in range(2)]
    dataset = ops(tdi.ZarrDataset(names)).batch(7)
    tdi.testing.assert_resumable(dataset)
    tdi.testing.assert_paths_agree(dataset)
    assert numbers(pickle.loads(pickle.dumps(dataset))) == numbers(dataset)
    assert sorted(numbers(dataset)) == list(range(40))


def test_a_chunk_is_a_block_and_is_read_once(tmp_path, monkeypatch):
    path = save(tmp_path / "a", np.arange(40), chunks=(4,))
    seen = []
    original = ZarrArrays.read

    def read(self, file, block):
        seen.append(block)
        return original(self, file, block)

    monkeypatch.setattr(ZarrArrays, "read", read)
    assert sorted(numbers(tdi.ZarrDataset(path).shuffle(seed=1, blocks=1).batch(4))) == list(range(40))
    assert sorted(seen) == list(range(10))


def test_chunks_that_are_not_there_have_the_fill_value(tmp_path):
    zarr.create_array(str(tmp_path / "a"), shape=(6,), chunks=(2,), dtype="f4", fill_value=7)[:2] = 1
    assert numbers(tdi.ZarrDataset(tmp_path / "a").batch(9)) == [1, 1, 7, 7, 7, 7]


def test_a_damaged_chunk_is_an_error_that_names_its_rows(tmp_path):
    path = save(tmp_path / "a", np.arange(6), chunks=(2,))
    (chunk,) = Path(path).glob("**/c/1")
    chunk.write_bytes(chunk.read_bytes()[:-4])
    with pytest.raises(tdi.InvalidArgumentError, match="ZarrDataset: .*/a: rows 2 to 3: "):
        list(tdi.ZarrDataset(path))
    skipping = tdi.ZarrDataset(path).with_options(tdi.Options(on_error="skip"))
    assert [int(number) for number in skipping] == [0, 1, 4, 5]


def test_what_is_no_array_of_rows_is_refused(tmp_path):
    with pytest.raises(tdi.NotFoundError, match="ZarrDataset: .*nothing: there is no zarr array or group"):
        len(tdi.ZarrDataset(tmp_path / "nothing"))
    zarr.create_array(str(tmp_path / "scalar"), shape=(), dtype="f4")
    with pytest.raises(tdi.InvalidArgumentError, match="scalar: the array has no axis, but rows lie along the first"):
        list(tdi.ZarrDataset(tmp_path / "scalar"))
    zarr.create_array(str(tmp_path / "complex"), shape=(2,), dtype="c8")
    with pytest.raises(tdi.InvalidArgumentError, match="has values of type complex64, but only booleans, integers and"):
        list(tdi.ZarrDataset(tmp_path / "complex"))
    group = zarr.open_group(tmp_path / "group", mode="w")
    with pytest.raises(tdi.InvalidArgumentError, match="group: the group has no arrays"):
        list(tdi.ZarrDataset(tmp_path / "group"))
    group.create_array("a", data=np.arange(2))
    group.create_array("b", data=np.arange(3))
    with pytest.raises(tdi.InvalidArgumentError, match=r"same number of rows, but have {'a': 2, 'b': 3}"):
        list(tdi.ZarrDataset(tmp_path / "group"))


def test_rows_of_another_type_in_a_later_array_are_refused(tmp_path):
    names = [save(tmp_path / "a", np.arange(2)), save(tmp_path / "b", np.arange(2.0))]
    with pytest.raises(tdi.InvalidArgumentError, match="ZarrDataset: .*/b: the rows have the Arrow format '"):
        list(tdi.ZarrDataset(names))


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="ZarrDataset needs zarr: pip install zarr"):
        tdi.ZarrDataset("a")
