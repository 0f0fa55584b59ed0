# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Archives of arrays (.npz) whose bytes are damaged, or which strangers made to unpack to more than they hold."""

import io
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from processes import peak_rise

import torch_distinput as tdi

SKIP = tdi.Options(on_error="skip")


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def deflated(raw: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(raw) + packer.flush()


def local_head(name: bytes, raw: bytes, packed: bytes, method: int = 8) -> bytes:
    sizes = struct.pack("<IIIHH", zlib.crc32(raw), len(packed), len(raw), len(name), 0)
    return struct.pack("<IHHHHH", 0x04034B50, 20, 0, method, 0, 0) + sizes + name


def entry(name: bytes, raw: bytes, packed_size: int, at: int, method: int = 8) -> bytes:
    sizes = struct.pack("<IIIHHHHHII", zlib.crc32(raw), packed_size, len(raw), len(name), 0, 0, 0, 0, 0, at)
    return struct.pack("<IHHHHHH", 0x02014B50, 20, 20, 0, method, 0, 0) + sizes + name


def archive(body: bytes, entries: list[bytes]) -> bytes:
    directory = b"".join(entries)
    sizes = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, len(entries), len(entries), len(directory), len(body), 0)
    return body + directory + sizes


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize("read", [list, lambda rows: list(rows.shuffle(seed=1).batch(7))])
def test_the_checksum_of_a_stored_member_is_compared_before_its_rows_are_read(tmp_path, read):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.arange(100), y=np.zeros(100))
    flip(path, path.read_bytes().index(np.arange(100).tobytes()) + 216)
    dataset = tdi.NumpyDataset(path)
    assert len(dataset) == 100  # the head alone tells
    for _ in range(2):
        with pytest.raises(tdi.InvalidArgumentError, match="a.npz: at byte .*: the CRC-32 of member 'x.npy' is"):
            read(dataset)


def test_each_flipped_bit_of_a_stored_member_is_found(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.arange(20))
    content = path.read_bytes()
    (begin,) = (at for at in range(len(content)) if content[at : at + 6] == b"\x93NUMPY")
    for at in range(begin, begin + len(npy(np.arange(20))), 5):
        path.write_bytes(content)
        flip(path, at)
        with pytest.raises(tdi.InvalidArgumentError, match="a.npz"):
            list(tdi.NumpyDataset(path))


def test_a_damaged_archive_is_one_skipped_file(tmp_path):
    paths = [tmp_path / name for name in ("a.npz", "b.npz", "c.npz")]
    for number, path in enumerate(paths):
        np.savez(path, x=np.arange(5) + 10 * number)
    flip(paths[1], paths[1].read_bytes().index(np.arange(10, 15).tobytes()))
    iterator = iter(tdi.NumpyDataset(paths).with_options(SKIP))
    assert [int(row["x"]) for row in iterator] == [0, 1, 2, 3, 4, 20, 21, 22, 23, 24]
    assert iterator.stats()["skipped"] == 1


def test_checksums_are_compared_once_for_a_dataset(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.arange(100))
    dataset = tdi.NumpyDataset(path)
    list(dataset)
    before = path.stat()
    flip(path, 400)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert len(list(dataset)) == 100
    with pytest.raises(tdi.InvalidArgumentError, match="CRC-32"):
        list(tdi.NumpyDataset(path))


def test_members_that_share_bytes_are_refused_before_they_are_unpacked(tmp_path):
    path = tmp_path / "overlap.npz"
    raw = npy(np.zeros(8 << 20, np.uint8))
    packed = deflated(raw)
    body = local_head(b"a.npy", raw, packed) + packed
    path.write_bytes(archive(body, [entry(b"a.npy", raw, len(packed), 0)] * 24))

    def read():
        with pytest.raises(tdi.InvalidArgumentError, match="overlap.npz: .*member 'a.npy' overlaps member 'a.npy'"):
            len(tdi.NumpyDataset(path).batch(1)) and list(tdi.NumpyDataset(path))

    assert peak_rise(read) < 32 << 20


def test_a_member_whose_bytes_hold_the_next_one_is_refused(tmp_path):
    """The next member's head is quoted by a stored block in this one's deflate stream, which goes on with its data."""
    raw = npy(np.zeros(1000, np.uint8))
    packed = deflated(raw)
    inner = local_head(b"b.npy", raw, packed)
    quoted = b"\0" + struct.pack("<HH", len(inner), len(inner) ^ 0xFFFF) + inner + packed
    outer = local_head(b"a.npy", inner + raw, quoted)
    body = outer + quoted
    at = len(outer) + 5
    path = tmp_path / "quoted.npz"
    entries = [entry(b"a.npy", inner + raw, len(quoted), 0), entry(b"b.npy", raw, len(packed), at)]
    path.write_bytes(archive(body, entries))
    with pytest.raises(tdi.InvalidArgumentError, match="quoted.npz: .*member 'a.npy' overlaps member 'b.npy'"):
        list(tdi.NumpyDataset(path))


def test_a_member_must_end_before_the_directory_and_have_one_name(tmp_path):
    raw = npy(np.arange(3))
    path = tmp_path / "a.npz"
    body = local_head(b"a.npy", raw, raw, 0) + raw
    path.write_bytes(archive(body[:-8], [entry(b"a.npy", raw, len(raw), 0, 0)]))
    with pytest.raises(tdi.InvalidArgumentError, match="member 'a.npy' overlaps the archive's directory"):
        list(tdi.NumpyDataset(path))
    path.write_bytes(archive(body, [entry(b"b.npy", raw, len(raw), 0, 0)]))
    with pytest.raises(tdi.InvalidArgumentError, match="'b.npy' of the directory has the name 'a.npy' where it"):
        list(tdi.NumpyDataset(path))
    path.write_bytes(archive(body, [entry(b"a.npy", raw, len(raw), 0, 0)]))
    assert [int(row["a"]) for row in tdi.NumpyDataset(path)] == [0, 1, 2]


def test_an_archive_that_would_fill_the_machine_is_refused_before_it_is_unpacked(tmp_path):
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
    packed = memory // 1000
    path = tmp_path / "large.npz"
    extra = struct.pack("<HHQQ", 1, 16, 2 * memory // 2 + 1, packed)
    head = struct.pack("<IHHHHHIIIHH", 0x04034B50, 45, 0, 8, 0, 0, 0, 2**32 - 1, 2**32 - 1, 5, 0) + b"a.npy"
    sizes = struct.pack("<IIIHHHHHII", 0, 2**32 - 1, 2**32 - 1, 5, len(extra), 0, 0, 0, 0, 0)
    directory = struct.pack("<IHHHHHH", 0x02014B50, 45, 45, 0, 8, 0, 0) + sizes + b"a.npy" + extra
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 1, 1, len(directory), len(head) + packed, 0)
    with path.open("wb") as file:
        file.write(head)
        file.seek(packed, os.SEEK_CUR)  # a hole, which takes no place
        file.write(directory + end)

    def read():
        with pytest.raises(tdi.InvalidArgumentError, match="large.npz: .*'a.npy' unpacks to .* has no memory"):
            list(tdi.NumpyDataset(path))

    assert peak_rise(read) < 32 << 20


def test_a_member_that_says_more_than_it_unpacks_to_takes_no_memory_for_it(tmp_path):
    raw = npy(np.frombuffer(np.random.default_rng(1).bytes(1 << 20), np.uint8))
    packed = deflated(raw)
    path = tmp_path / "short.npz"
    content = bytearray(archive(local_head(b"a.npy", raw, packed) + packed, [entry(b"a.npy", raw, len(packed), 0)]))
    at = content.index(b"PK\1\2") + 24
    content[at : at + 4] = struct.pack("<I", 1 << 30)
    path.write_bytes(content)

    def read():
        with pytest.raises(tdi.InvalidArgumentError, match="short.npz: .*'a.npy'"):
            list(tdi.NumpyDataset(path))

    assert peak_rise(read) < 64 << 20


def test_a_name_that_is_not_utf_8_is_shown_with_its_file(tmp_path):
    path = tmp_path / "a.npz"
    file = io.BytesIO()
    np.savez(file, abcd=np.arange(3))
    path.write_bytes(file.getvalue().replace(b"abcd.npy", b"ab\xff\xfe.npy"))
    with pytest.raises(tdi.InvalidArgumentError, match=r"a.npz: .* member 'ab\\xff\\xfe.npy' is not UTF-8"):
        list(tdi.NumpyDataset(path))
