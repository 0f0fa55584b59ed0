# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""CSV and JSON lines with `index=False`: one pass, the rows and errors of the index, and any place to resume at."""

import json
import os
import re
from collections import Counter

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import torch_distinput as tdi
from torch_distinput.tables import _table_file, _text_records, _text_tables

pytest.importorskip("pyarrow")

TEXTS = st.text(st.sampled_from(["a", "1", ",", '"', "\n", "\r", "é", " "]), max_size=12)
READERS = {"csv": tdi.CsvDataset, "jsonl": tdi.JsonLinesDataset}


def csv_bytes(rows, end, spoiled):
    quoted = ['{},"{}"{}'.format(number, text.replace('"', '""'), end) for number, text in enumerate(rows)]
    return ("a,s" + end + "".join(spoiled.get(number, line) for number, line in enumerate(quoted))).encode()


def json_bytes(rows, end, spoiled):
    lines = [json.dumps({"a": number, "s": text}, ensure_ascii=False) + end for number, text in enumerate(rows)]
    return "".join(spoiled.get(number, line) for number, line in enumerate(lines)).encode()


WRITERS = {"csv": csv_bytes, "jsonl": json_bytes}


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(_text_tables, "BLOCK_BYTES", 40)
    monkeypatch.setattr(_table_file, "_LEAST_READ", 16)
    monkeypatch.setattr(_text_records, "_HEAD_BYTES", 8)


def outcome(dataset):
    """The rows, and the message of the error after them."""
    rows = []
    try:
        for row in dataset:
            rows.append((int(row["a"]), row["s"]))
    except tdi.InvalidArgumentError as error:
        return rows, str(error)
    return rows, None


@pytest.mark.parametrize("kind", READERS)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.lists(st.lists(TEXTS, min_size=1, max_size=20), min_size=1, max_size=3),
    end=st.sampled_from(["\n", "\r\n", "\n\n"]),
    cut=st.integers(0, 3),
    spoiled=st.dictionaries(
        st.integers(0, 19), st.sampled_from(['x,"y"\n', "{}{}\n", '5,"open\n', "\n \n"]), max_size=2
    ),
    skips=st.booleans(),
)
def test_rows_and_errors_are_those_of_the_index(small_chunks, tmp_path_factory, kind, files, end, cut, spoiled, skips):
    folder = tmp_path_factory.mktemp("text")
    names = [folder / f"{number}" for number in range(len(files))]
    for name, rows in zip(names, files, strict=True):
        data = WRITERS[kind](rows, end, spoiled)
        name.write_bytes(data[: len(data) - cut])
    types = {"a": torch.int64, "s": str}
    options = tdi.Options(on_error="skip" if skips else "raise")
    (rows, error), (in_order, error_in_order) = (
        outcome(READERS[kind](names, types=types, index=index).with_options(options)) for index in (True, False)
    )
    # With random access a block with a bad row comes not at all, and the error may be that of another of its rows.
    assert in_order[: len(rows)] == rows and (error or len(in_order) == len(rows))
    assert bool(error_in_order) == bool(error) and (len(spoiled) + bool(cut) > 1 or error_in_order == error)


@pytest.mark.parametrize("kind", READERS)
def test_a_saved_position_is_found_again(small_chunks, tmp_path, kind):
    names = [tmp_path / f"{number}" for number in range(3)]
    for number, name in enumerate(names):
        name.write_bytes(WRITERS[kind]([f"row {row}" for row in range(9 * number + 4)], "\n", {}))
    tdi.testing.assert_resumable(READERS[kind](names, index=False).batch(2))


@pytest.fixture
def bytes_read(monkeypatch):
    """How many bytes were read of each file."""
    counted = Counter()
    original = _table_file.TableFile.read_at

    def read_at(file, offset, size):
        data = original(file, offset, size)
        counted[file.path] += len(data)
        return data

    monkeypatch.setattr(_table_file.TableFile, "read_at", read_at)
    return counted


@pytest.mark.parametrize("kind", READERS)
def test_each_byte_is_read_once(tmp_path, bytes_read, monkeypatch, kind):
    monkeypatch.setattr(_text_tables, "BLOCK_BYTES", 1 << 14)
    names = [tmp_path / f"{number}" for number in range(2)]
    for name in names:
        name.write_bytes(WRITERS[kind](["x" * 100] * 8000, "\n", {}))
    assert len(list(READERS[kind](names, index=False).batch(100))) == 160
    head = 2 << 14  # tells the types of columns
    sizes = [name.stat().st_size for name in names]
    assert (
        sizes[0]
        < bytes_read[str(names[0])]
        <= sizes[0] + head + _text_records._HEAD_BYTES + 2 * _table_file._LEAST_READ
    )
    assert bytes_read[str(names[1])] == sizes[1]


def test_only_the_first_and_the_last_reads_of_a_file_are_kept(tmp_path, bytes_read):
    name, least = tmp_path / "t", _table_file._LEAST_READ
    name.write_bytes(bytes(6 * least))
    kept = _table_file.KeptReads(_table_file.TableFile("op", os.fsencode(name)), recent=2)
    for number in (0, 1, 2, 3, 0, 2, 3):
        kept.read_at(number * least, least)
    assert bytes_read[str(name)] == 4 * least
    kept.read_at(least, least)
    assert bytes_read[str(name)] == 5 * least


@pytest.mark.parametrize("kind", READERS)
def test_rows_come_before_the_end_of_the_file_was_looked_at(tmp_path, bytes_read, monkeypatch, kind):
    monkeypatch.setattr(_text_tables, "BLOCK_BYTES", 1 << 12)
    name = tmp_path / "t"
    name.write_bytes(WRITERS[kind](["x" * 100] * 8000, "\n", {}))
    next(iter(READERS[kind](name, index=False)))
    assert bytes_read[str(name)] < name.stat().st_size / 2


@pytest.mark.parametrize("kind", READERS)
def test_a_file_that_becomes_shorter_meanwhile_is_an_error(small_chunks, tmp_path, kind):
    name = tmp_path / "t"
    name.write_bytes(WRITERS[kind]([f"row {row}" for row in range(100)], "\n", {}))
    rows = iter(READERS[kind](name, index=False))
    next(rows)
    with name.open("r+b") as file:
        file.truncate(name.stat().st_size // 2)
    with pytest.raises(tdi.InvalidArgumentError, match=re.escape(f"{name}: it has become shorter while it was read")):
        list(rows)
