# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Datasets of the same rows in files and in objects: a source of each kind, over the names that it is given."""

import json
import os
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from object_server import S3_KEY, S3_SECRET, ObjectServer
from sample_files import tf_records, write_tar

import torch_distinput as tdi
from torch_distinput import _C

BUCKET = "bucket"
SIZES = (23, 0, 41, 17)
ROWS = sum(SIZES)


@dataclass(frozen=True)
class Source:
    """How the files of rows are written, and the dataset of their names."""

    write: Callable[[Path, Iterable[int]], None]
    open: Callable[..., tdi.Dataset]


def content(row: int) -> bytes:
    """Of a record: some are empty, some larger than others."""
    return (f"row {row:04} " * (row % 7) + "x" * (row % 5 * 300)).encode()


def _npy(path: Path, rows: Iterable[int]) -> None:
    rows = list(rows)
    with open(path, "wb") as file:
        np.save(file, np.array(rows, np.int64).reshape(-1, 1) * np.ones((1, 50), np.int64))


def _npz(path: Path, rows: Iterable[int]) -> None:
    rows = list(rows)
    with open(path, "wb") as file:
        np.savez(file, i=np.array(rows, np.int64), x=np.array(rows, np.float32).reshape(-1, 1) * np.ones(9, np.float32))


def _safetensors(path: Path, rows: Iterable[int]) -> None:
    save = pytest.importorskip("safetensors.numpy").save_file
    save({"i": np.array(list(rows), np.int64)}, path)


def _tar(path: Path, rows: Iterable[int]) -> None:
    write_tar(
        path, [(f"{row:04}.{end}", data) for row in rows for end, data in (("cls", b"%d" % row), ("x", content(row)))]
    )


def _zip(path: Path, rows: Iterable[int]) -> None:
    pytest.importorskip("pyarrow")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for row in rows:
            archive.writestr(f"{row:04}.cls", b"%d" % row, zipfile.ZIP_STORED)
            archive.writestr(f"{row:04}.x", content(row))


def _table(rows: Iterable[int]) -> Any:
    rows = list(rows)
    pa = pytest.importorskip("pyarrow")
    return pa.table(
        {"i": pa.array(rows, pa.int64()), "s": pa.array([f"row {row}" * (row % 3) for row in rows], pa.string())}
    )


def _texts(text: Callable[[Iterable[int]], str]) -> Callable[[Path, Iterable[int]], None]:
    """Writes a table as text, which is read by pyarrow."""

    def write(path: Path, rows: Iterable[int]) -> None:
        pytest.importorskip("pyarrow")
        path.write_text(text(rows))

    return write


def _parquet(path: Path, rows: Iterable[int]) -> None:
    pytest.importorskip("pyarrow.parquet").write_table(_table(rows), path, row_group_size=7)


_TYPES = {"i": torch.int64, "s": str}

SOURCES = {
    "tfrecord": Source(lambda p, rows: p.write_bytes(tf_records([content(row) for row in rows])), tdi.TFRecordDataset),
    "text": Source(lambda p, rows: p.write_bytes(b"".join(content(row) + b"\n" for row in rows)), tdi.TextLineDataset),
    "fixed": Source(
        lambda p, rows: p.write_bytes(b"".join(b"%08d" % row * 20 for row in rows)),
        lambda names, **options: tdi.FixedLengthRecordDataset(names, 160, **options),
    ),
    "tar": Source(_tar, tdi.TarDataset),
    "zip": Source(_zip, tdi.ZipDataset),
    "npy": Source(_npy, tdi.NumpyDataset),
    "npz": Source(_npz, tdi.NumpyDataset),
    "safetensors": Source(_safetensors, tdi.SafetensorsDataset),
    "tokens": Source(
        lambda p, rows: np.array([[row] * 6 for row in rows], np.uint16).tofile(p),
        lambda names, **options: tdi.TokenDataset(names, np.uint16, sequence_length=5, stride=6, **options),
    ),
    "parquet": Source(_parquet, tdi.ParquetDataset),
    "csv": Source(
        _texts(lambda rows: "i,s\n" + "".join(f'{row},"row {row}"\n' for row in rows)),
        lambda names, **options: tdi.CsvDataset(names, types=_TYPES, **options),
    ),
    "jsonl": Source(
        _texts(lambda rows: "".join(json.dumps({"i": row, "s": f"row {row}"}) + "\n" for row in rows)),
        lambda names, **options: tdi.JsonLinesDataset(names, types=_TYPES, **options),
    ),
}


def write(kind: str, folder: Path) -> list[str]:
    """Files of SIZES rows; their paths."""
    paths, first = [], 0
    for number, size in enumerate(SIZES):
        paths.append(folder / f"{kind}-{number}.data")
        SOURCES[kind].write(paths[-1], range(first, first + size))
        first += size
    return [str(path) for path in paths]


def upload(server: ObjectServer, paths: Iterable[str], scheme: str = "http") -> list[str]:
    """Makes objects of the files; their URLs."""
    names = [os.path.basename(path) for path in paths]
    server.put_all({f"{BUCKET}/{name}": Path(path).read_bytes() for name, path in zip(names, paths, strict=True)})
    if scheme == "http":
        return [server.url("http", f"{BUCKET}/{name}") for name in names]
    use_s3(server.url("s3"))
    return [f"s3://{BUCKET}/{name}" for name in names]


def use_s3(endpoint: str, **options: str) -> None:
    """How the bucket is asked for in this process from now on."""
    known = {"endpoint_url": endpoint, "key": S3_KEY, "secret": S3_SECRET} | options
    _C.set_storage_options(f"s3://{BUCKET}", known)


def plain(value: Any) -> Any:
    """A value of Python that compares with ==."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return value


def elements(dataset: Iterable[Any]) -> list[Any]:
    return [plain(element) for element in dataset]
