# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Indexes that lie beside files: whose are believed, what they may say, and how they are written, for every kind."""

import io
import json
import os
import stat
import tarfile
import zlib

import pytest
from sample_files import tf_records

import torch_distinput as tdi

pytest.importorskip("pyarrow")

ROWS = 20_000


def _write_tar(path):
    with tarfile.open(path, "w") as archive:
        for row in range(300):
            info = tarfile.TarInfo(f"{row:05}.txt")
            info.size = 1000
            archive.addfile(info, io.BytesIO(b"x" * 1000))


# What writes a file that is large enough to have its index stored, what reads it, and its rows.
KINDS = {
    "lines": (lambda path: path.write_text("".join(f"{row:020}\n" for row in range(ROWS))), tdi.TextLineDataset, ROWS),
    "records": (lambda path: path.write_bytes(tf_records([b"x" * 1000] * 300)), tdi.TFRecordDataset, 300),
    "groups": (_write_tar, tdi.TarDataset, 300),
    "csv": (
        lambda path: path.write_text("a,b\n" + "".join(f"{row},{row:020}\n" for row in range(ROWS))),
        tdi.CsvDataset,
        ROWS,
    ),
    "jsonl": (
        lambda path: path.write_text("".join(f'{{"a": {row}, "b": "{row:020}"}}\n' for row in range(ROWS))),
        tdi.JsonLinesDataset,
        ROWS,
    ),
}


@pytest.fixture(params=KINDS)
def stored(request, tmp_path, monkeypatch):
    """A file, what reads it, its rows, and the index that was stored for it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write, make, rows = KINDS[request.param]
    path = tmp_path / "data"
    write(path)
    assert len(make(path)) == rows
    return path, make, rows, tmp_path / f".data.{request.param}.tdi-index"


def _is_believed(path, make, rows, place):
    """Whether the index is used as it lies there: one that is not believed is replaced."""
    before = place.stat().st_ino
    assert len(make(path)) == rows
    return place.stat().st_ino == before


def test_an_index_of_ones_own_is_believed(stored):
    assert _is_believed(*stored)


@pytest.mark.parametrize("mode", [0o646, 0o664, 0o666])
def test_an_index_that_others_may_write_is_replaced(stored, mode):
    os.chmod(stored[0], 0o644)
    os.chmod(stored[-1], mode)
    assert not _is_believed(*stored)
    assert stored[-1].stat().st_mode & 0o022 == 0 and _is_believed(*stored)


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can give files away")
def test_an_index_of_a_stranger_is_replaced(stored):
    path, _, _, place = stored
    os.chown(place, 4321, -1)
    assert not _is_believed(*stored)
    os.chown(place, 4321, -1)
    os.chown(path, 4321, -1)
    assert _is_believed(*stored)


def test_an_index_of_impossible_size_takes_no_memory(stored):
    place = stored[-1]
    place.write_bytes(b"")
    os.truncate(place, 64 << 30)
    assert not _is_believed(*stored)


def test_an_index_has_the_mode_of_the_data_under_the_umask(stored):
    path, make, rows, place = stored
    for mode, wanted in ((0o600, 0o600), (0o666, 0o640), (0o644, 0o640)):
        os.chmod(path, mode)
        place.unlink()
        before = os.umask(0o027)
        try:
            assert len(make(path)) == rows
        finally:
            os.umask(before)
        assert stat.S_IMODE(place.stat().st_mode) == wanted


def test_the_environment_turns_the_writing_of_indexes_off(stored, tmp_path, monkeypatch):
    path, make, rows, place = stored
    place.unlink()
    monkeypatch.setenv("TORCH_DISTINPUT_WRITE_INDEX", "0")
    assert len(make(path)) == rows
    assert os.listdir(tmp_path) == ["data"]


def _plant(path, place, bounds, counts, text=None):
    """Writes an index of a CSV file with a right head and checksum."""
    status = os.stat(path)
    head = {"version": 3, "kind": "csv", "delimiter": ",", "block_bytes": 1 << 20}
    head |= {"mtime": status.st_mtime_ns, "size": status.st_size}
    text = text or json.dumps({"head": head, "bounds": bounds, "counts": counts}).encode()
    place.write_bytes(b"%08x\n%b" % (zlib.crc32(text), text))


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "data"
    KINDS["csv"][0](path)
    return path, tdi.CsvDataset, ROWS, tmp_path / ".data.csv.tdi-index"


def test_a_right_index_is_the_one_that_these_tests_bend(csv):
    _plant(csv[0], csv[-1], [4, os.path.getsize(csv[0])], [ROWS])
    assert _is_believed(*csv)


SIZE = 4 + sum(len(f"{row},{row:020}\n") for row in range(ROWS))
HALF = 4 + sum(len(f"{row},{row:020}\n") for row in range(ROWS // 2))


@pytest.mark.parametrize(
    ("bounds", "counts"),
    [
        pytest.param([4, HALF], [ROWS // 2], id="half of the file"),
        pytest.param([HALF, SIZE], [ROWS // 2], id="the other half"),
        pytest.param([0, SIZE], [ROWS], id="from the line of names on"),
        pytest.param([4, SIZE, 4, SIZE], [ROWS, 0, ROWS], id="twice"),
        pytest.param([4, SIZE, SIZE], [ROWS, 1], id="an empty block"),
        pytest.param([4, HALF, SIZE], [ROWS, 0], id="a block that would never be read"),
        pytest.param([4, SIZE], [-5], id="a negative number"),
        pytest.param([4, SIZE], [2**62], id="more rows than bytes"),
        pytest.param([4, HALF, SIZE], [2**62, 2**62], id="a sum that overflows"),
        pytest.param([4, 2**80, SIZE], [1, 1], id="a bound beyond 64 bits"),
        pytest.param([4.0, float(SIZE)], [ROWS], id="no whole numbers"),
        pytest.param([4, SIZE], [True], id="a boolean"),
        pytest.param(["x", "y"], ["z"], id="text"),
        pytest.param([], [3], id="no bounds"),
        pytest.param(None, None, id="null"),
        pytest.param({"4": 1}, {"1": 4}, id="an object"),
    ],
)
def test_an_index_that_cannot_be_the_files_is_replaced(csv, bounds, counts):
    _plant(csv[0], csv[-1], bounds, counts)
    assert not _is_believed(*csv)
    assert [int(row["a"]) for row in tdi.CsvDataset(csv[0]).take(2)] == [0, 1]


def test_an_index_that_nests_deeply_is_replaced(csv):
    _plant(csv[0], csv[-1], None, None, b"[" * 4000)
    assert not _is_believed(*csv)


@pytest.mark.parametrize(
    ("bounds", "counts", "message"),
    [
        ([4, HALF, SIZE], [ROWS // 2 - 1, ROWS // 2 + 1], "hold 10000 rows, not 9999 as before"),
        ([4, HALF + 3, SIZE], [ROWS // 2 + 1, ROWS // 2], "Expected 2 columns, got 1|hold|are not whole records"),
        ([4, HALF - 3, SIZE], [ROWS // 2, ROWS // 2], "are not whole records"),
    ],
)
def test_an_index_that_lies_about_records_is_an_error_not_a_loss(csv, bounds, counts, message):
    _plant(csv[0], csv[-1], bounds, counts)
    with pytest.raises(tdi.InvalidArgumentError, match=message):
        list(tdi.CsvDataset(csv[0]).batch(1000))
