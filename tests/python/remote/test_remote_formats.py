# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Zip archives, Zarr arrays and tables with versions in stores: the rows of the local files, what is asked for."""

import io
import zipfile

import numpy as np
import pytest
import torch
from object_server import S3_KEY, S3_SECRET

import torch_distinput as tdi

pa = pytest.importorskip("pyarrow")

ROWS = 12


def put_folder(store, folder):
    """The URL of a folder whose files were put into the store."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    store.put_all({f"{folder.name}/{path.relative_to(folder)}": path.read_bytes() for path in files})
    return store.url(folder.name)


def test_an_element_of_a_zip_archive_costs_the_directory_and_its_members(store):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for row in range(30):
            archive.writestr(f"{row:02}.bin", bytes([row]) * 200_000)
    dataset = tdi.ZipDataset(store.put("a.zip", content.getvalue())).batch(1)
    store.server.forget_requests()
    (row,) = dataset.skip(17).take(1).with_options(tdi.Options(prefetch=0))
    assert row == {"__key__": ["17"], "bin": [bytes([17]) * 200_000]}
    assert sum(end - begin for begin, end in store.reads("a.zip")) < 200_000 + 2 * (64 << 10)


@pytest.mark.parametrize("shards", [None, (4, 3)])
def test_zarr_arrays_are_read_by_this_library(store, tmp_path, shards):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    values = np.arange(3.0 * ROWS).reshape(ROWS, 3)
    array = zarr.create_array(str(tmp_path / "array"), shape=(ROWS, 3), dtype="f8", chunks=(2, 3), shards=shards)
    array[:] = values
    dataset = tdi.ZarrDataset(put_folder(store, tmp_path / "array"))
    assert torch.equal(torch.cat(list(dataset.batch(5))), torch.from_numpy(values))
    tdi.testing.assert_resumable(dataset.shuffle(seed=1, blocks=2).batch(5))


def test_a_group_of_zarr_needs_consolidated_metadata(store, tmp_path):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    for name in ("plain", "consolidated"):
        group = zarr.open_group(tmp_path / name, mode="w")
        group.create_array("i", data=np.arange(ROWS), chunks=(5,))
    zarr.consolidate_metadata(tmp_path / "consolidated")
    with pytest.raises(tdi.InvalidArgumentError, match="ZarrDataset: .*plain: a group at a URL needs consolidated"):
        len(tdi.ZarrDataset(put_folder(store, tmp_path / "plain")))
    rows = tdi.ZarrDataset(put_folder(store, tmp_path / "consolidated"))
    assert [int(row["i"]) for row in rows] == list(range(ROWS))


def test_an_array_of_zarr_that_is_not_there_is_named(store):
    pytest.importorskip("zarr", reason="zarr is not installed")
    with pytest.raises(tdi.NotFoundError, match="ZarrDataset: .*nothing: there is no zarr array or group"):
        len(tdi.ZarrDataset(store.url("nothing")))


def test_a_delta_table_in_a_store(s3_store, tmp_path, monkeypatch):
    deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")
    table = pa.table({"i": range(ROWS), "p": ["a b", "{c}*", "d[e]"] * (ROWS // 3)})
    deltalake.write_deltalake(tmp_path / "table", table, partition_by=["p"])
    options = {"AWS_ACCESS_KEY_ID": S3_KEY, "AWS_SECRET_ACCESS_KEY": S3_SECRET, "AWS_REGION": "us-east-1"}
    for name, value in (options | {"AWS_ENDPOINT_URL": s3_store.server.url("s3"), "AWS_ALLOW_HTTP": "true"}).items():
        monkeypatch.setenv(name, value)
    dataset = tdi.DeltaDataset(put_folder(s3_store, tmp_path / "table"))
    found = {int(row["i"]): row["p"] for row in dataset}
    assert found == dict(zip(table["i"].to_pylist(), table["p"].to_pylist(), strict=True))
    tdi.testing.assert_resumable(dataset.shuffle(seed=1).batch(5))
