# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`max_record_bytes`: records that are larger than a user expects, above all in small compressed files."""

import gzip
import io
import os
import struct
import tarfile
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import peak_rise
from sample_files import masked_crc, tf_records

import torch_distinput as tdi

SKIP = tdi.Options(on_error="skip")
RECORDS = [b"one", b"x" * 5000, b"three", b"y" * 300_000, b"five"]
SMALL = [b"one", b"three", b"five"]


def lines(records: list[bytes]) -> bytes:
    return b"".join(record + b"\n" for record in records)


def groups(records: list[bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for number, record in enumerate(records):
            member = tarfile.TarInfo(f"{number}.bin")
            member.size = len(record)
            archive.addfile(member, io.BytesIO(record))
    return file.getvalue()


def found(dataset: tdi.Dataset) -> list[bytes]:
    rows = [row["bin"] if isinstance(row, dict) else row for row in dataset]
    return [row.encode() if isinstance(row, str) else row for row in rows]


READERS: dict[str, tuple[Callable, Callable[[list[bytes]], bytes], int, str]] = {
    "lines": (tdi.TextLineDataset, lines, 100, "a line has"),
    "records": (tdi.TFRecordDataset, tf_records, 100, "a record has"),
    "archives": (tdi.TarDataset, groups, 1024, "the members of one key have"),
}
WAYS = {
    "indexed": {},
    "in order": {"index": False},
    "gzip": {"compression_type": "GZIP"},
    "zlib": {"compression_type": "ZLIB"},
}


def written(path: Path, content: bytes, way: str) -> Path:
    pack = {"gzip": gzip.compress, "zlib": zlib.compress}.get(way, bytes)
    path.write_bytes(pack(content))
    return path


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", READERS)
def test_a_record_that_is_too_large_is_named(tmp_path, kind, way):
    read, joined, most, what = READERS[kind]
    path = written(tmp_path / "data", joined(RECORDS), way)
    assert found(read(path, **WAYS[way])) == RECORDS
    assert found(read(path, **WAYS[way], max_record_bytes=1 << 20)) == RECORDS
    iterator = iter(read(path, **WAYS[way], max_record_bytes=most))
    next(iterator)
    for _ in range(2):
        message = f"data: at byte {len(joined(RECORDS[:1])) if kind != 'archives' else 1024}: {what} more than "
        with pytest.raises(tdi.InvalidArgumentError, match=message + f"`max_record_bytes`={most} bytes"):
            next(iterator)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["lines", "records"])
def test_only_the_record_that_is_too_large_is_skipped(tmp_path, kind, way):
    read, joined, most, _ = READERS[kind]
    paths = [written(tmp_path / name, joined(RECORDS), way) for name in "ab"]
    dataset = read(paths, **WAYS[way], max_record_bytes=most).with_options(SKIP)
    iterator = iter(dataset)
    assert found(iterator) == SMALL * 2
    assert iterator.stats()["skipped"] == 4
    tdi.testing.assert_resumable(dataset)


def test_the_rest_of_a_compressed_archive_is_not_read_after_a_group_that_is_too_large(tmp_path):
    path = written(tmp_path / "data", groups([b"one", b"x" * 3_000_000, b"three"]), "gzip")
    dataset = tdi.TarDataset(path, compression_type="GZIP", max_record_bytes=5000)
    with pytest.raises(tdi.InvalidArgumentError, match="`max_record_bytes`=5000 bytes; the rest of the file cannot"):
        list(dataset)
    iterator = iter(dataset.with_options(SKIP))
    assert found(iterator) == [b"one"]
    assert iterator.stats()["skipped"] == 1


@pytest.mark.parametrize("kind", ["lines", "records"])
def test_a_record_may_have_exactly_as_many_bytes(tmp_path, kind):
    read, joined, _, _ = READERS[kind]
    for way in WAYS:
        path = written(tmp_path / way, joined([b"a" * 50, b"b" * 51, b"c" * 50]), way)
        assert found(read(path, **WAYS[way], max_record_bytes=51)) == [b"a" * 50, b"b" * 51, b"c" * 50]
        rows = read(path, **WAYS[way], max_record_bytes=50).with_options(SKIP)
        assert found(rows) == [b"a" * 50, b"c" * 50]
    path = written(tmp_path / "last", joined([b"a" * 51])[:-1] if kind == "lines" else joined([b"a" * 51]), "gzip")
    assert found(read(path, compression_type="GZIP", max_record_bytes=51)) == [b"a" * 51]


def bomb(head: bytes, megabytes: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [packer.compress(head), *(packer.compress(b"a" * (1 << 20)) for _ in range(megabytes)), packer.flush()]
    return b"".join(parts)


@pytest.mark.parametrize("kind", READERS)
def test_a_small_file_does_not_unpack_to_a_record_without_limit(tmp_path, kind):
    head = {"lines": b"", "records": _head_of(600 << 20), "archives": _tar_head(600 << 20)}[kind]
    path = tmp_path / "bomb"
    path.write_bytes(bomb(head, 300 if kind == "lines" else 2))
    dataset = READERS[kind][0](path, compression_type="GZIP")

    def read():
        with pytest.raises(tdi.InvalidArgumentError, match="bomb: at byte 0: .* `max_record_bytes`=268435456 bytes"):
            list(dataset)

    assert peak_rise(read) < 640 << 20


def _head_of(size: int) -> bytes:
    length = struct.pack("<Q", size)
    return length + struct.pack("<I", masked_crc(length))


def _tar_head(size: int) -> bytes:
    member = tarfile.TarInfo("a.bin")
    member.size = size
    return member.tobuf()


def test_a_line_of_a_pipe_has_a_limit(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def write():
        with path.open("wb") as pipe:
            pipe.write(b"one\n" + b"x" * 100_000 + b"\nthree\n")

    writer = threading.Thread(target=write)
    writer.start()
    assert found(tdi.TextLineDataset(path, max_record_bytes=1000).with_options(SKIP)) == [b"one", b"three"]
    writer.join(30)


def test_wrong_sizes_are_named(tmp_path):
    for read in (tdi.TextLineDataset, tdi.TFRecordDataset, tdi.TarDataset):
        with pytest.raises(ValueError, match=f"{read.__name__}: `max_record_bytes` must be at least 1, but is 0"):
            read(tmp_path / "a", max_record_bytes=0)
        with pytest.raises(TypeError, match="`max_record_bytes`"):
            read(tmp_path / "a", max_record_bytes="many")
    with pytest.raises(ValueError, match="`record_bytes` must be at most `max_record_bytes`=4, but is 5"):
        tdi.FixedLengthRecordDataset(tmp_path / "a", 5, max_record_bytes=4)
    (tmp_path / "fixed").write_bytes(b"aabb")
    rows = tdi.FixedLengthRecordDataset(tmp_path / "fixed", 2, max_record_bytes=2)
    assert list(rows) == [b"aa", b"bb"]
