# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Datasets of the numbers 0 to ROWS - 1 in files of every format, for tests of laws and of damage."""

import atexit
import functools
import gzip
import io
import shutil
import tempfile
import threading
import zipfile
from pathlib import Path

import example_wire
import numpy as np
import pytest
import torch
from decoders import MISSING
from quiet_lance import lance_or_skip
from sample_files import number_files, tf_records, write_tar
from token_files import documents_of

import torch_distinput as tdi

SIZES = [4, 0, 3, 5]
ROWS = sum(SIZES)
FIRST = [sum(SIZES[:i]) for i in range(len(SIZES))]


_WRITING = threading.Lock()


@functools.cache
def folder():
    path = Path(tempfile.mkdtemp(prefix="tdi-damage-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def files(ending, write):
    """Paths of files of SIZES rows; `write(path, rows)` writes one, where it is not there yet. Ranks are threads in
    some tests: one must not read what another is writing."""
    with _WRITING:
        paths = [folder() / f"{i}{ending}" for i in range(len(SIZES))]
        for path, first, size in zip(paths, FIRST, SIZES, strict=True):
            if not path.exists():
                write(path, list(range(first, first + size)))
    return [str(path) for path in paths]


def column(dataset, name="i"):
    return dataset.map(lambda row: row[name])


def stream(dataset):
    """The same elements on the sequential path."""
    return dataset.filter(lambda *row: True)


def skipping(dataset):
    return dataset.with_options(tdi.Options(on_error="skip"))


def table(rows):
    pa = pytest.importorskip("pyarrow")
    return pa.table({"i": pa.array(rows, pa.int64()), "s": [f"row {row}" for row in rows]})


def parquet(**options):
    module = pytest.importorskip("pyarrow.parquet")
    paths = files(".parquet", lambda path, rows: module.write_table(table(rows), path, row_group_size=2))
    return column(tdi.ParquetDataset(paths, **options))


def csv(**options):
    pytest.importorskip("pyarrow")
    paths = files(".csv", lambda path, rows: path.write_text("i,s\n" + "".join(f"{row},x\n" for row in rows)))
    return column(tdi.CsvDataset(paths, types={"i": torch.int64}, **options))


def json_lines(**options):
    pytest.importorskip("pyarrow")
    paths = files(".jsonl", lambda path, rows: path.write_text("".join(f'{{"i": {row}}}\n' for row in rows)))
    return column(tdi.JsonLinesDataset(paths, types={"i": torch.int64}, **options))


def arrow():
    return column(tdi.Dataset.from_arrow(table(list(range(ROWS)))))


def npy(**options):
    return tdi.NumpyDataset(files(".npy", lambda path, rows: np.save(path, np.array(rows, np.int64))), **options)


def npz(save=np.savez):
    name = f".{save.__name__}.npz"
    return column(tdi.NumpyDataset(files(name, lambda path, rows: save(path, i=np.array(rows, np.int64)))))


def safetensors():
    save = pytest.importorskip("safetensors.numpy").save_file
    paths = files(".safetensors", lambda path, rows: save({"i": np.array(rows, np.int64)}, path))
    return column(tdi.SafetensorsDataset(paths))


def members(rows):
    array = io.BytesIO()
    np.save(array, np.zeros(2))
    return [
        (f"{row:03}.{suffix}", data)
        for row in rows
        for suffix, data in (("cls", b"%d" % row), ("npy", array.getvalue()))
    ]


def tar(compression=None):
    def write(path, rows):
        write_tar(path, members(rows))
        if compression:
            path.write_bytes(gzip.compress(path.read_bytes()))

    return tdi.TarDataset(files(f".{compression}.tar", write), compression)


def zipped():
    pytest.importorskip("pyarrow")

    def write(path, rows):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members(rows):
                archive.writestr(name, data)

    return tdi.ZipDataset(files(".zip", write))


def zarr():
    package = pytest.importorskip("zarr", reason="zarr is not installed")

    def write(path, rows):
        made = package.create_array(str(path), shape=(len(rows),), chunks=(2,), dtype="i8")
        made[:] = np.array(rows, np.int64)

    return tdi.ZarrDataset(files(".zarr", write))


def delta():
    package = pytest.importorskip("deltalake", reason="deltalake is not installed")
    path = folder() / "delta"
    with _WRITING:
        if not path.exists():
            package.write_deltalake(path, table(list(range(ROWS))))
    return column(tdi.DeltaDataset(path))


def lance():
    package = lance_or_skip()
    path = folder() / "lance"
    with _WRITING:
        if not path.exists():
            package.write_dataset(table(list(range(ROWS))), path)
    return column(tdi.LanceDataset(path))


def iceberg():
    catalogs = pytest.importorskip("pyiceberg.catalog.sql", reason="pyiceberg is not installed")
    path = folder() / "iceberg"
    with _WRITING:
        if not path.exists():
            path.mkdir()
            catalog = catalogs.SqlCatalog("rows", uri=f"sqlite:///{path}/catalog.db", warehouse=f"file://{path}")
            catalog.create_namespace("db")
            made = catalog.create_table("db.rows", table([0]).schema)
            made.append(table(list(range(ROWS))))
            (path / "metadata").write_text(made.metadata_location)
    return column(tdi.IcebergDataset((path / "metadata").read_text()))


def records(messages):
    """A dataset of TFRecord files with one of `messages` for each row."""
    ending = f".{messages.__name__}.tfrecord"
    return tdi.TFRecordDataset(files(ending, lambda path, rows: path.write_bytes(tf_records(map(messages, rows)))))


def number(row):
    return row.to_bytes(8, "little")


def example(row):
    return example_wire.example({"i": [row]})


def sequence_example(row):
    return example_wire.sequence_example({"i": [row]}, {"s": [[row], [row]]})


def parsed():
    return column(records(example).parse_example({"i": tdi.FixedLenFeature((), torch.int64)}))


def sequences():
    features = {"i": tdi.FixedLenFeature((), torch.int64)}, {"s": tdi.FixedLenSequenceFeature((), torch.int64)}
    return records(sequence_example).parse_sequence_example(*features).map(lambda context, _: context["i"])


def spelled():
    return tdi.TextLineDataset(number_files([[0, 1, 2], [3, 4], [*range(5, ROWS)]], "text")).to_number(torch.int64)


def tokens(**options):
    paths = files(".bin", lambda path, rows: np.array(rows, np.uint16).tofile(path))
    return tdi.TokenDataset(paths, np.uint16, sequence_length=1, **options).map(lambda inputs, _: inputs)


def documents():
    return tdi.TokenDataset.from_tokens(documents_of([3, 0, 2, 4, 1, 2]), None)


def packed(dataset, length=2, **options):
    return column(dataset.pack(length, **options), "tokens")


def looked_up(rows=tuple("abcbca" * 2)):
    lookup = tdi.preprocessing.StringLookup(vocabulary=["a", "b"])
    return tdi.Dataset.from_tensor_slices(list(rows)).batch(5).map(lookup)


def images():
    if MISSING:
        pytest.skip(MISSING)
    image = pytest.importorskip("PIL.Image")
    root = folder() / "images"
    for row in range(ROWS):
        path = root / "ab"[row % 2] / f"{row:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            image.new("RGB", (4, 4)).save(path)
    return tdi.ImageFolder(root)


def decoded(dataset):
    return dataset.decode_image(key=0).random_crop(3, key=0).horizontal_flip(key=0).map(lambda image, label: label)


def mixed():
    return tdi.Dataset.sample_from_datasets([npy().take(6), stream(npy()).take(6)], [2, 1], seed=1)
