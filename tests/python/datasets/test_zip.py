# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Zip archives: the groups of tar archives with the same members, what is read, damage and bombs."""

import io
import pickle
import struct
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_files import write_tar

import torch_distinput as tdi
from torch_distinput import _C
from torch_distinput.tables import _zip_files

pytest.importorskip("pyarrow")

METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def write(path, members, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return str(path)


def rows(first, count):
    return [(f"d/{row:03}.{end}", b"%d" % row * size) for row in range(first, first + count) for end, size in SUFFIXES]


SUFFIXES = (("cls", 1), ("bin", 40))


def keys(dataset):
    return [key for batch in dataset for key in batch["__key__"]]


@settings(max_examples=30, deadline=None)
@given(
    data=st.data(),
    counts=st.lists(st.integers(1, 12), min_size=1, max_size=3),
    seed=st.integers(0, 99),
    world=st.integers(1, 7),
    block=st.sampled_from([1, 100, 1 << 18]),
    ops=st.sampled_from([lambda ds: ds, lambda ds: ds.shuffle(seed=3), lambda ds: ds.shuffle(seed=3, blocks=2)]),
)
def test_elements_are_those_of_a_tar_archive_with_the_same_members(data, counts, seed, world, block, ops):
    drawn = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(_zip_files, "_BLOCK_BYTES", block)
        names = {"zip": [], "tar": []}
        for number, count in enumerate(counts):
            members = [
                (f"{number}/é.d/{row}.{end}", drawn.bytes(int(drawn.integers(0, 300))))
                for row in range(count)
                for end in drawn.permutation(["Cls", "a.bin", "x"]).tolist()
            ]
            members += [("left out", b"x"), (".hidden", b"y")]
            path = Path(folder, f"{number}.zip")
            with zipfile.ZipFile(path, "w") as archive:
                archive.mkdir("folder") if hasattr(archive, "mkdir") else archive.writestr("folder/", b"")
                for name, content in members:
                    archive.writestr(name, content, data.draw(st.sampled_from(METHODS)))
            write_tar(Path(folder, f"{number}.tar"), members)
            names["zip"].append(str(path))
            names["tar"].append(str(Path(folder, f"{number}.tar")))
        dataset, expected = tdi.ZipDataset(names["zip"]), list(tdi.TarDataset(names["tar"]))
        assert list(dataset) == expected and len(dataset) == len(expected)
        assert dataset.element_spec == tdi.TarDataset(names["tar"]).element_spec
        batches = ops(dataset).batch(4)
        shares = [tdi.testing.worker_stream(batches, world, 1, rank, tdi.AutoShardPolicy.DATA) for rank in range(world)]
        assert sorted(key for share in shares for key in keys(share)) == sorted(row["__key__"] for row in expected)


@pytest.mark.parametrize("ops", [lambda ds: ds, lambda ds: ds.shuffle(seed=1), lambda ds: ds.shuffle(seed=1, blocks=2)])
def test_laws_of_zip_archives(tmp_path, monkeypatch, ops):
    monkeypatch.setattr(_zip_files, "_BLOCK_BYTES", 200)
    names = [write(tmp_path / f"{number}.zip", rows(20 * number, 20)) for number in range(3)]
    dataset = ops(tdi.ZipDataset(names)).batch(7)
    tdi.testing.assert_resumable(dataset)
    tdi.testing.assert_paths_agree(dataset)
    assert keys(pickle.loads(pickle.dumps(dataset))) == keys(dataset)
    assert sorted(keys(dataset)) == [f"d/{row:03}" for row in range(60)]


def test_only_the_directory_and_the_members_asked_for_are_read(tmp_path, monkeypatch):
    path = write(tmp_path / "a.zip", [(f"{row}.bin", b"x" * 300_000) for row in range(20)], zipfile.ZIP_STORED)
    dataset = tdi.ZipDataset(path).with_options(tdi.Options(num_threads=0, prefetch=0))
    seen = []
    original = tdi.tables._table_file.TableFile.read_at

    def read_at(self, offset, size):
        seen.append((offset, size))
        return original(self, offset, size)

    monkeypatch.setattr(tdi.tables._table_file.TableFile, "read_at", read_at)
    assert next(iter(dataset.skip(13).batch(1)))["__key__"] == ["13"]
    assert sum(size for _, size in seen) < 300_000 + (64 << 10) + 2000


def test_braces_name_shards(tmp_path):
    for number in range(3):
        write(tmp_path / f"part-{number}.zip", rows(10 * number, 2))
    assert len(tdi.ZipDataset(str(tmp_path / "part-{0..2}.zip"))) == 6


def test_archives_with_wide_sizes_and_bytes_before_them(tmp_path):
    path = tmp_path / "wide.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in rows(0, 3):
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as member:
                member.write(content)
        archive.comment = b"a comment " * 50
    path.write_bytes(b"#!/bin/sh\n" * 9 + path.read_bytes())
    assert [row["cls"] for row in tdi.ZipDataset(path)] == [b"0", b"1", b"2"]


def test_an_archive_of_more_than_65535_members_has_a_wide_directory(tmp_path):
    path = write(tmp_path / "many.zip", [(f"{row}.x", b"") for row in range(65_600)], zipfile.ZIP_STORED)
    dataset = tdi.ZipDataset(path)
    assert len(dataset) == 65_600
    assert next(iter(dataset.skip(65_599)))["__key__"] == "65599"


def skipped(path):
    return [row["__key__"] for row in tdi.ZipDataset(path).with_options(tdi.Options(on_error="skip"))]


def entry_of(content, name):
    """Where the directory has the entry of a member."""
    return content.rindex(name.encode()) - 46


@pytest.mark.parametrize("method", METHODS)
def test_a_flipped_bit_is_an_error_of_its_element(tmp_path, method):
    path = Path(write(tmp_path / "a.zip", rows(0, 5), method))
    content = bytearray(path.read_bytes())
    content[content.index(b"d/002.bin") + 12] ^= 4
    path.write_bytes(content)
    with pytest.raises(tdi.InvalidArgumentError, match=r"ZipDataset: .*a.zip: byte \d+: member 'd/002.bin' "):
        list(tdi.ZipDataset(path))
    assert skipped(path) == ["d/000", "d/001", "d/003", "d/004"]


@pytest.mark.parametrize(
    "field, value, words",
    [
        ((24, "<I"), 5_000_000, "has impossible sizes"),
        ((24, "<I"), 79, "has not the 79 bytes that the directory says"),
        ((24, "<I"), 81, "has not the 81 bytes that the directory says"),
        ((20, "<I"), 4_000_000, "has impossible sizes"),
        ((20, "<I"), 200, "reach into what follows it"),
        ((42, "<I"), 4_000_000, "has impossible sizes"),
        ((16, "<I"), 1, "has a wrong checksum"),
        ((10, "<H"), 14, "is compressed by method 14, but only stored and deflated ones are read"),
        ((8, "<H"), 1, "is encrypted"),
        ((38, "<I"), 0o120777 << 16, "is a link"),
    ],
)
def test_what_the_directory_says_is_not_believed(tmp_path, field, value, words):
    path = Path(write(tmp_path / "a.zip", rows(100, 4)))
    content = bytearray(path.read_bytes())
    place, form = field
    struct.pack_into(form, content, entry_of(content, "d/102.bin") + place, value)
    path.write_bytes(content)
    with pytest.raises(tdi.InvalidArgumentError, match=f"ZipDataset: .*member 'd/102.bin' .*{words}"):
        list(tdi.ZipDataset(path))
    assert skipped(path) == ["d/100", "d/101", "d/103"]


def test_a_member_that_begins_elsewhere_is_an_error(tmp_path):
    path = Path(write(tmp_path / "a.zip", rows(0, 3)))
    content = bytearray(path.read_bytes())
    place = entry_of(content, "d/001.bin") + 42
    struct.pack_into("<I", content, place, struct.unpack_from("<I", content, place)[0] + 1)
    path.write_bytes(content)
    with pytest.raises(tdi.InvalidArgumentError, match="member 'd/001.bin' does not begin here"):
        list(tdi.ZipDataset(path))


@pytest.mark.parametrize("name", ["/d/1.cls", "../1.cls", "d/../../1.cls"])
def test_names_that_lead_out_of_the_archive_are_refused(tmp_path, name):
    path = write(tmp_path / "a.zip", [("d/0.cls", b"0"), (name, b"1"), ("d/2.cls", b"2")])
    with pytest.raises(tdi.InvalidArgumentError, match="has a name that leads out of the archive"):
        list(tdi.ZipDataset(path))
    assert skipped(path) == ["d/0", "d/2"]


def test_a_member_that_occurs_twice_and_one_that_lacks_are_refused(tmp_path):
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = write(
            tmp_path / "a.zip", [("0.cls", b"0"), ("1.cls", b"1"), ("1.cls", b"1"), ("2.txt", b""), ("3.cls", b"")]
        )
    dataset = tdi.ZipDataset(path)
    with pytest.raises(tdi.InvalidArgumentError, match="member '1.cls' occurs twice"):
        list(dataset)
    assert skipped(path) == ["0", "3"]
    other = write(tmp_path / "b.zip", [("0.txt", b"0")])
    with pytest.raises(
        tdi.InvalidArgumentError, match=r"b.zip: '0' has no member '.cls' in contrast to the first element"
    ):
        list(tdi.ZipDataset([write(tmp_path / "c.zip", [("0.cls", b"")]), other]))


def test_bombs_unpack_to_no_more_than_is_allowed(tmp_path):
    bomb = write(tmp_path / "bomb.zip", [("0.x", b"small"), ("1.x", bytes(3_000_000)), ("2.x", b"small")])
    with pytest.raises(tdi.InvalidArgumentError, match="members of '1' have 3000000 bytes, more than the 2000000 of"):
        list(tdi.ZipDataset(bomb, max_record_bytes=2_000_000))
    lying = bytearray(Path(bomb).read_bytes())
    struct.pack_into("<I", lying, entry_of(lying, "1.x") + 24, 1000)
    Path(bomb).write_bytes(lying)
    with pytest.raises(tdi.InvalidArgumentError, match="member '1.x' has not the 1000 bytes"):
        list(tdi.ZipDataset(bomb, max_record_bytes=2_000_000))
    assert skipped(bomb) == ["0", "2"]


def test_members_that_share_bytes_are_refused(tmp_path):
    path = Path(write(tmp_path / "a.zip", [("0.x", b"0" * 100), ("1.x", b"1" * 100)], zipfile.ZIP_STORED))
    content = bytearray(path.read_bytes())
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("1.x", b"z" * 20)
    at = content.index(b"0" * 100)
    content[at : at + 50] = inner.getvalue()[:50]  # a head within the bytes of the first member
    struct.pack_into("<I", content, entry_of(content, "1.x") + 42, at)
    path.write_bytes(content)
    with pytest.raises(tdi.InvalidArgumentError, match="member '0.x' has 100 bytes, which reach into what follows it"):
        list(tdi.ZipDataset(path))


@pytest.mark.parametrize("keep", [0, 10, 200, -1, -30])
def test_what_is_no_zip_archive_or_was_cut_is_an_error_that_names_it(tmp_path, keep):
    path = Path(write(tmp_path / "a.zip", rows(0, 5)))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(
        tdi.InvalidArgumentError, match="ZipDataset: .*a.zip: this is not a zip archive, or it is damaged"
    ):
        len(tdi.ZipDataset(path))


@settings(max_examples=60, deadline=None)
@given(place=st.integers(0, 10_000), value=st.integers(0, 255))
def test_any_changed_byte_is_an_error_or_changes_nothing_that_is_read(place, value):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(write(Path(folder, "a.zip"), rows(0, 5)))
        expected = list(tdi.ZipDataset(path))
        content = bytearray(path.read_bytes())
        content[place % len(content)] = value
        path.write_bytes(content)
        try:
            found = list(tdi.ZipDataset(path))
        except (tdi.InvalidArgumentError, tdi.NotFoundError):
            return
        contents = {part for row in expected for name, part in row.items() if name != "__key__"}
        assert all(part in contents for row in found for name, part in row.items() if name != "__key__")


def test_files_are_named_in_errors(tmp_path):
    with pytest.raises(tdi.NotFoundError, match="ZipDataset: .*nothing.zip"):
        list(tdi.ZipDataset(tmp_path / "nothing.zip"))
    with pytest.raises(ValueError, match="`max_record_bytes` must be at least 1, but is 0"):
        tdi.ZipDataset("a.zip", max_record_bytes=0)
    empty = write(tmp_path / "empty.zip", [])
    assert len(tdi.ZipDataset([write(tmp_path / "a.zip", rows(0, 2)), empty])) == 2
    assert not _C.names_object(empty.encode())
