# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""CSV and JSON lines: equal values, errors that name file and row, and the index that is stored for a large file."""

import csv
import itertools
import json
import os

import pytest
import torch
from arrow_tables import numbers
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_distinput as tdi
from torch_distinput.tables import _stored_index, _text_records, _text_tables
from torch_distinput.tables._table_file import TableFile

pa = pytest.importorskip("pyarrow")

TEXTS = st.text(alphabet='ab,"\n\ré ', max_size=6)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(-5, 5), TEXTS), min_size=1, max_size=12), st.integers(1, 40), st.booleans())
def test_csv_rows_are_those_of_pythons_csv(tmp_path_factory, rows, block_bytes, last_line_ends):
    name = tmp_path_factory.mktemp("csv") / "t.csv"
    with open(name, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        writer.writerows([("i", "s"), *rows])
    if not last_line_ends:
        name.write_bytes(name.read_bytes()[:-1])
    dataset = tdi.CsvDataset(name, types={"i": torch.int64, "s": str})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_text_tables, "BLOCK_BYTES", block_bytes)
        patch.setattr(_text_records, "_CHUNK_BYTES", 16 + block_bytes)
        assert [(int(row["i"]), row["s"]) for row in dataset.shuffle(1)] == rows
        assert len(dataset) == len(rows)
        tdi.testing.assert_paths_agree(dataset.shuffle(seed=2))


@settings(max_examples=25)
@given(
    st.lists(
        st.fixed_dictionaries({"a": st.integers(-9, 9), "t": TEXTS, "l": st.lists(st.booleans(), max_size=2)}),
        min_size=1,
        max_size=9,
    ),
    st.integers(1, 60),
)
def test_json_rows_are_those_of_pythons_json(tmp_path_factory, rows, block_bytes):
    name = tmp_path_factory.mktemp("json") / "t.jsonl"
    name.write_text("\n\n".join(map(json.dumps, rows)))
    dataset = tdi.JsonLinesDataset(name, types={"a": torch.float32, "l": pa.list_(pa.bool_())})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_text_tables, "BLOCK_BYTES", block_bytes)
        found = [{"a": int(row["a"]), "t": row["t"], "l": row["l"].tolist()} for row in dataset]
        assert found == rows and len(dataset) == len(rows)
        tdi.testing.assert_resumable(dataset.shuffle(seed=1))


def test_blank_lines_and_both_line_ends_are_no_rows(tmp_path):
    name = tmp_path / "t.csv"
    name.write_bytes(b"\xef\xbb\xbfa;b\r\n1;x\r\n\r\n2;y\n\n3;z\r\n")
    dataset = tdi.CsvDataset(name, delimiter=";")
    assert [(int(row["a"]), row["b"]) for row in dataset] == [(1, "x"), (2, "y"), (3, "z")]
    assert len(dataset) == 3


@pytest.mark.parametrize(
    ("text", "types", "message"),
    [
        ("a,b\n1,x\n\n2,y\nq,z\n", {"a": torch.int64}, r"t\.csv: column 'a' in row 2: .*invalid value 'q'"),
        ("a,b\n1,x\n2,y,z\n", None, r"t\.csv: row 1: Expected 2 columns, got 3"),
        ("a,b\n1,x\n,y\n", None, r"t\.csv: column 'a' is null in row 1"),
        ("a,b,a\n1,x,2\n", None, r"t\.csv: its line of column names has 'a' 2 times"),
        ("\udce9,b\n1,x\n", None, r"t\.csv: its line of column names cannot be read: 'utf-8' codec"),
        ("", None, r"t\.csv: it is empty"),
        ("a,b\n", None, r"t\.csv: it has no rows"),
    ],
)
def test_csv_errors_name_file_column_and_row(tmp_path, text, types, message):
    (tmp_path / "t.csv").write_text(text, errors="surrogateescape")
    with pytest.raises(tdi.InvalidArgumentError, match=message):
        list(tdi.CsvDataset(tmp_path / "t.csv", types=types))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1}\n\n{"a": 2} {"a": 3}\n', r"row 1: a line must hold one record, but this is b'{\"a\": 2} "),
        ('{"a": 0}\n{\n"a": 1\n}\n', r"row 1: a line must hold one record, but this is b'{\\n'"),
        ('{"a": 1}\n{"a": "x"}\n', r"row 1: JSON parse error: Column\(/a\) changed from number to string"),
        ('{"a": 1}\n{"a": 2', r"row 1: JSON parse error: Missing a comma"),
        ('{"a": 1, "a": 2}\n', r"row 0: JSON parse error: Column\(/a\) was specified twice"),
    ],
)
def test_json_errors_name_file_and_row(tmp_path, text, message):
    (tmp_path / "t.jsonl").write_text(text)
    with pytest.raises(tdi.InvalidArgumentError, match=rf"t\.jsonl: {message}"):
        list(tdi.JsonLinesDataset(tmp_path / "t.jsonl"))


@pytest.mark.parametrize("delimiter", ["", ";;", "é", '"', "\n"])
def test_delimiters_are_one_ascii_character(delimiter):
    with pytest.raises(ValueError, match="CsvDataset: `delimiter` must be one ASCII character"):
        tdi.CsvDataset("t.csv", delimiter=delimiter)


def test_types_of_the_first_block_hold_for_all_files(tmp_path):
    (tmp_path / "1.jsonl").write_text('{"a": 1, "b": "x"}\n')
    (tmp_path / "2.jsonl").write_text('{"a": 2, "b": "y", "c": 1}\n{"a": "three", "b": "z"}\n')
    names = [tmp_path / "1.jsonl", tmp_path / "2.jsonl"]
    with pytest.raises(tdi.InvalidArgumentError, match=r"2\.jsonl: column 'a' in row 1: "):
        list(tdi.JsonLinesDataset(names))
    assert [row["b"] for row in tdi.JsonLinesDataset(names, columns=["b"])] == ["x", "y", "z"]


@pytest.mark.parametrize("make", [tdi.ParquetDataset, tdi.CsvDataset, tdi.JsonLinesDataset])
def test_wrong_arguments_are_refused_at_the_call(make):
    with pytest.raises(TypeError, match=f"{make.__name__}: `files`"):
        make(3)
    with pytest.raises(ValueError, match="`columns` must name a column at least"):
        make("t", columns=[])
    with pytest.raises(TypeError, match="`nulls` must be"):
        make("t", nulls=[])


WRITERS_OF_TEXT = {
    "csv": lambda name, rows: name.write_text("a,s\n" + "".join(f'{row},"{"x" * 40}\n{row}"\n' for row in rows)),
    "jsonl": lambda name, rows: name.write_text("".join(json.dumps({"a": row, "s": "x" * 40}) + "\n" for row in rows)),
}
READERS_OF_TEXT = {"csv": tdi.CsvDataset, "jsonl": tdi.JsonLinesDataset}


@pytest.fixture
def passes(monkeypatch):
    """The files whose records are looked for, in order."""
    seen = []
    original = _text_tables.find_blocks

    def find_blocks(file, *arguments):
        seen.append(os.path.basename(file.path))
        return original(file, *arguments)

    monkeypatch.setattr(_text_tables, "find_blocks", find_blocks)
    return seen


@pytest.mark.parametrize("kind", WRITERS_OF_TEXT)
def test_the_index_of_a_large_text_table_is_stored(tmp_path, passes, kind):
    name, small = tmp_path / f"t.{kind}", tmp_path / f"small.{kind}"
    WRITERS_OF_TEXT[kind](name, range(8000))
    WRITERS_OF_TEXT[kind](small, range(3))
    make = READERS_OF_TEXT[kind]
    assert len(make(name)) == 8000 and len(make(small)) == 3 and passes == [name.name, small.name]
    stored = tmp_path / f".t.{kind}.{kind}.tdi-index"
    assert stored.exists() and len(list(tmp_path.iterdir())) == 3
    assert numbers(make(name, columns=["a"]).shuffle(seed=1).batch(1000), "a") != list(range(8000))
    assert passes == [name.name, small.name]
    WRITERS_OF_TEXT[kind](name, range(7999, -1, -1))  # as many bytes: only the time tells
    os.utime(name, ns=(1, 1))
    assert numbers(make(name, columns=["a"]).batch(1000), "a") == list(range(7999, -1, -1))
    assert passes == [name.name, small.name, name.name]


def test_without_an_index_none_is_stored(tmp_path):
    name = tmp_path / "t.csv"
    WRITERS_OF_TEXT["csv"](name, range(8000))
    assert len(list(tdi.CsvDataset(name, index=False))) == 8000 and len(list(tmp_path.iterdir())) == 1


COMMAS = _stored_index.Format("csv", ",", _text_tables.BLOCK_BYTES)


def test_a_damaged_stored_index_is_not_trusted(tmp_path, passes):
    name = tmp_path / "t.csv"
    WRITERS_OF_TEXT["csv"](name, range(8000))
    assert len(tdi.CsvDataset(name)) == 8000
    stored = tmp_path / ".t.csv.csv.tdi-index"
    whole = stored.read_bytes()
    for place in range(0, len(whole), 7):
        stored.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert _stored_index.load(os.fsencode(name), COMMAS, TableFile("", os.fsencode(name)).stamp()) is None
    stored.write_bytes(whole[: len(whole) // 2])
    assert len(tdi.CsvDataset(name)) == 8000 and passes == [name.name] * 2 and stored.read_bytes() == whole


def test_an_index_goes_to_the_cache_where_none_can_lie_beside_the_file(tmp_path, passes, monkeypatch):
    (tmp_path / "data").mkdir()
    name = tmp_path / "data" / "t.csv"
    WRITERS_OF_TEXT["csv"](name, range(8000))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "data" / ".t.csv.csv.tdi-index").mkdir()  # permissions do not bind the superuser, who may run the tests
    for _ in range(2):
        assert len(tdi.CsvDataset(name)) == 8000
    assert passes == [name.name] and len(list((tmp_path / "cache" / "torch_distinput").iterdir())) == 1


def test_an_index_for_another_delimiter_is_not_used(tmp_path, passes):
    """A quote opens a field only after a delimiter, so that records depend on it."""
    name = tmp_path / "t.csv"
    name.write_text("a;b,c\n" + 'x;"1,2\n' * 80000)
    assert len(tdi.CsvDataset(name)) == 80000
    assert len(tdi.CsvDataset(name, delimiter=";")) == 40000
    assert passes == [name.name] * 2


RAW = st.lists(st.sampled_from(["a", "1", ",", '"', "\n", "\r", "\r\n", "é", " "]), max_size=24)


@settings(max_examples=150)
@given(RAW, st.integers(1, 12))
def test_records_of_any_text_are_those_that_pyarrow_finds(tmp_path_factory, pieces, block_bytes):
    reader = pytest.importorskip("pyarrow.csv")
    name = tmp_path_factory.mktemp("raw") / "t.csv"
    name.write_bytes(("h,i\n" + "".join(pieces)).encode())
    records = _text_records.DelimitedLines(",")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_text_records, "_CHUNK_BYTES", 7)
        bounds, counts = _text_records.find_blocks(TableFile("", os.fsencode(name)), 4, block_bytes, records)
    for (begin, end), count in zip(itertools.pairwise(bounds), counts, strict=True):
        skipped = []
        data = pa.BufferReader(name.read_bytes()[begin:end])
        parse = reader.ParseOptions(
            newlines_in_values=True, invalid_row_handler=lambda row: skipped.append(1) or "skip"
        )
        try:
            found = reader.read_csv(data, reader.ReadOptions(column_names=["h", "i"]), parse).num_rows
        except pa.ArrowInvalid as error:
            assert "Empty CSV" in str(error)
            found = 0
        assert count == found + len(skipped)


def test_a_quote_that_nothing_closes_is_an_error_not_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(_text_records, "_MOST_RECORD_BYTES", 1000)
    monkeypatch.setattr(_text_records, "_CHUNK_BYTES", 100)
    (tmp_path / "t.csv").write_text('a,b\n1,"x\n' + "2,y\n" * 1000)
    with pytest.raises(tdi.InvalidArgumentError, match=r"t\.csv: the record that begins at byte 4 has more than"):
        next(iter(tdi.CsvDataset(tmp_path / "t.csv")))
