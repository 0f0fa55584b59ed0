# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A bad record costs its own row and nothing else, and no record kills the process."""

import json

import numpy as np
import pytest
import torch

import torch_distinput as tdi
from torch_distinput.tables import _text_records, _text_tables

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ROWS = 1200
SKIP = tdi.Options(on_error="skip")
TYPES = {"a": torch.int64, "b": str}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(_text_tables, "BLOCK_BYTES", 1 << 12)


def write(path, bad, line):
    """A file of numbered rows, those of `bad` (rows to bytes) in the place of what `line` makes."""
    path.write_bytes(b"".join(bad.get(row, line(row)) for row in range(ROWS)))
    return path


def csv_file(path, bad):
    return write(path, {**bad, 0: b"a,b\n" + bad.get(0, b"0,x0\n")}, lambda row: f"{row},x{row}\n".encode())


def json_file(path, bad):
    return write(path, bad, lambda row: b'{"a": %d, "b": "x%d"}\n' % (row, row))


CSV = {
    "a field of another type": b"q,x\n",
    "a short record": b"1\n",
    "a long record": b"1,x,y\n",
    "a null": b",x\n",
    "no UTF-8": b"7,\xff\n",
    "a number that does not fit": b"99999999999999999999,x\n",
}
JSON = {
    "no closing bracket": b"{broken\n",
    "null": b"null\n",
    "a number": b"3\n",
    "a list": b"[]\n",
    "a text": b'"x"\n',
    "two objects": b'{"a": 1, "b": "x"} {"a": 2, "b": "y"}\n',
    "an object and null": b'{"a": 1, "b": "x"}null\n',
    "another type": b'{"a": "x", "b": "x"}\n',
    "a missing key": b'{"b": "x"}\n',
    "a key twice": b'{"a": 1, "a": 2, "b": "x"}\n',
    "no UTF-8": b'{"a": 1, "b": "\xff"}\n',
    "a key that is no UTF-8": b'{"a": 1, "b": "x", "\xff": 1}\n',
    "lists in lists": b'{"a": 1, "b": "x", "c": ' + b"[" * 30_000 + b"]" * 30_000 + b"}\n",
    "objects in objects": b'{"a":' * 30_000 + b"1" + b"}" * 30_000 + b"\n",
    "a bracket too many": b'{"a": 1, "b": "x"}}\n',
    "NUL": b"\0\n",
}
DECIDES = [CSV["a field of another type"], CSV["no UTF-8"], CSV["a number that does not fit"]]
CASES = [pytest.param(tdi.CsvDataset, csv_file, text, id=f"csv, {name}") for name, text in CSV.items()]
CASES += [pytest.param(tdi.JsonLinesDataset, json_file, text, id=f"json, {name}") for name, text in JSON.items()]


@pytest.mark.parametrize("types", [TYPES, None])
@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("row", [0, 7, ROWS - 1])
@pytest.mark.parametrize(("make", "file", "text"), CASES)
def test_a_bad_record_is_one_skipped_row(tmp_path, make, file, text, row, index, types):
    if types is None and text in DECIDES and row < ROWS - 1:
        pytest.skip("it lies in the first block, so that it decides about the type of its column")
    name = file(tmp_path / "t", {row: text})
    good = [number for number in range(ROWS) if number != row]
    dataset = make(name, types=types, index=index)
    for options in (SKIP, tdi.Options(on_error=tdi.Skip(max_count=1))):
        rows = iter(dataset.with_options(options))
        assert [int(found["a"]) for found in rows] == good and rows.stats().skipped == 1
    with pytest.raises((ValueError, RuntimeError), match="Skip"):
        list(dataset.with_options(tdi.Options(on_error=tdi.Skip(max_count=0))))
    with pytest.raises(tdi.InvalidArgumentError, match=rf"/t: .*row {row}\b"):
        list(dataset)


@pytest.mark.parametrize(("make", "file"), [(tdi.CsvDataset, csv_file), (tdi.JsonLinesDataset, json_file)])
def test_many_bad_records_are_as_many_rows(tmp_path, make, file):
    bad = dict.fromkeys((*range(5, 30), 400, 401, 1000, *range(ROWS - 3, ROWS)), b"broken,,,\n")
    good = [row for row in range(ROWS) if row not in bad]
    dataset = make(file(tmp_path / "t", bad), types=TYPES)
    rows = iter(dataset.with_options(SKIP))
    assert [int(row["a"]) for row in rows] == good and rows.stats().skipped == len(bad)
    for pipeline in (dataset.batch(7), dataset.shuffle(50, seed=1).batch(7), dataset.shuffle(ROWS, seed=1).batch(7)):
        pipeline = pipeline.with_options(SKIP)
        assert sorted(int(number) for batch in pipeline for number in batch["a"]) == good
    tdi.testing.assert_resumable(dataset.take(60).batch(3).with_options(SKIP))
    with pytest.raises(ValueError, match=rf"{len(bad)} rows failed, but Skip"):
        list(dataset.with_options(tdi.Options(on_error=tdi.Skip(max_count=len(bad) - 1))))


def test_rows_before_a_bad_one_come_without_skipping_too(tmp_path):
    rows = iter(tdi.CsvDataset(csv_file(tmp_path / "t", {7: b"q,x\n"}), types=TYPES, index=False))
    assert [int(next(rows)["a"]) for _ in range(7)] == list(range(7))
    for _ in range(2):
        with pytest.raises(tdi.InvalidArgumentError, match="column 'a' in row 7"):
            next(rows)


@pytest.mark.parametrize("row", range(3, 10))
def test_the_error_of_a_record_does_not_depend_on_its_place_in_a_block(tmp_path, monkeypatch, row):
    monkeypatch.setattr(_text_tables, "BLOCK_BYTES", 60)  # three records
    name = json_file(tmp_path / "t", {row: b'{"a": 1, "b": "xx" \n'})
    with pytest.raises(tdi.InvalidArgumentError, match=rf'row {row}: a line must hold one record, .* "xx" \\n'):
        list(tdi.JsonLinesDataset(name, types=TYPES))


def test_a_file_of_bad_records_alone_is_an_error(tmp_path):
    (tmp_path / "t").write_text("null\n[]\n")
    with pytest.raises(
        tdi.InvalidArgumentError, match=r"/t: row 0: a line must hold one record, but this is b'null\\n'"
    ):
        list(tdi.JsonLinesDataset(tmp_path / "t"))


def test_a_byte_order_mark_is_no_part_of_the_first_object(tmp_path):
    (tmp_path / "t").write_bytes(b'\xef\xbb\xbf{"a": 1}\n{"a": 2}\n')
    assert [int(row["a"]) for row in tdi.JsonLinesDataset(tmp_path / "t")] == [1, 2]


@pytest.mark.parametrize("kind", ["row", "last row", "irregular"])
def test_an_open_quote_names_file_row_and_line(tmp_path, kind):
    quoted = {"row": (700, b'700,"x\n'), "last row": (ROWS - 1, b'1199,"x\n'), "irregular": (9, b'9,"x\n')}
    row, text = quoted[kind]
    bad = {row: text} | ({3: b'3,5" disk\n'} if kind == "irregular" else {})
    name = csv_file(tmp_path / "t", bad)
    for index in (True, False):
        dataset = tdi.CsvDataset(name, types=TYPES, index=index)
        with pytest.raises(
            tdi.InvalidArgumentError, match=rf"/t: row {row}: the record that begins in line {row + 2} has a quote"
        ):
            list(dataset)
        assert [int(found["a"]) for found in dataset.with_options(SKIP)] == list(range(row))


def test_a_record_that_is_too_long_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(_text_records, "_MOST_RECORD_BYTES", 5000)
    monkeypatch.setattr(_text_records, "_CHUNK_BYTES", 1024)
    name = csv_file(tmp_path / "t", {500: b'500,"x\n'})
    dataset = tdi.CsvDataset(name, types=TYPES)
    with pytest.raises(
        tdi.InvalidArgumentError, match=r"has more than 5000 bytes \(row 500, line 502\); is a quote not"
    ):
        list(dataset)
    rows = iter(dataset.with_options(SKIP))
    assert [int(row["a"]) for row in rows] == list(range(500)) and rows.stats().skipped == 1


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize(
    ("head", "names"),
    [(b"\xef\xbb\xbf\n1,2\n", ["1", "2"]), (b"\xef\xbb\xbf\r\n\na,b\n", ["a", "b"]), (b"\n\r\nc,d\n", ["c", "d"])],
)
def test_the_line_of_names_is_the_first_that_is_not_empty(tmp_path, head, names, index):
    (tmp_path / "t").write_bytes(head + b"3,4\n")
    rows = list(tdi.CsvDataset(tmp_path / "t", index=index))
    assert [{name: int(value) for name, value in row.items()} for row in rows] == [
        dict(zip(names, (3, 4), strict=True))
    ]


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"\xef\xbb\xbf", "it is empty"),
        (b"\xef\xbb\xbf\n\n", "it is empty"),
        (b'"a,b\n1,2\n', "its line of column names has a quote that is never closed"),
    ],
)
def test_a_file_without_names_is_an_error(tmp_path, text, message, index):
    (tmp_path / "t").write_bytes(text)
    with pytest.raises(tdi.InvalidArgumentError, match=rf"^CsvDataset: [^:]*/t: {message}"):
        list(tdi.CsvDataset(tmp_path / "t", index=index))


def test_a_null_in_a_parquet_file_is_one_skipped_row(tmp_path):
    numbers = [None if row in (3, 77, 78) else row for row in range(100)]
    parquet.write_table(pa.table({"a": numbers}), tmp_path / "t", row_group_size=40)
    rows = iter(tdi.ParquetDataset(tmp_path / "t").with_options(SKIP))
    assert [int(row["a"]) for row in rows] == [row for row in numbers if row is not None] and rows.stats().skipped == 3


def test_a_row_group_that_cannot_be_read_counts_as_its_rows(tmp_path):
    name = tmp_path / "t"
    options = {"write_page_checksum": True, "use_dictionary": False, "compression": "none"}
    parquet.write_table(pa.table({"x": np.arange(1000)}), name, row_group_size=100, **options)
    whole = name.read_bytes()
    place = whole.index(np.int64(550).tobytes() + np.int64(551).tobytes())
    name.write_bytes(whole[:place] + b"\1" + whole[place + 1 :])
    dataset = tdi.ParquetDataset(name)
    rows = iter(dataset.with_options(SKIP))
    assert [int(row["x"]) for row in rows] == [*range(500), *range(600, 1000)] and rows.stats().skipped == 100
    with pytest.raises(ValueError, match="100 rows failed, but Skip"):
        list(dataset.with_options(tdi.Options(on_error=tdi.Skip(max_count=99))))


def test_a_column_name_that_is_no_utf8_names_the_file(tmp_path):
    parquet.write_table(pa.table({"abcd": [1]}), tmp_path / "t", store_schema=False)
    (tmp_path / "t").write_bytes((tmp_path / "t").read_bytes().replace(b"abcd", b"a\xff\xfed"))
    with pytest.raises(tdi.InvalidArgumentError, match="/t: a text in it is not UTF-8"):
        list(tdi.ParquetDataset(tmp_path / "t"))


def test_values_of_json_that_are_deep_but_not_too_deep_are_read(tmp_path):
    value = {"a": 1}
    for _ in range(90):
        value = {"c": value}
    (tmp_path / "t").write_text(json.dumps({"a": 1, "deep": value}) + "\n")
    assert [int(row["a"]) for row in tdi.JsonLinesDataset(tmp_path / "t", columns=["a"])] == [1]


@pytest.mark.parametrize("filters", [None, [("i", ">", 0)]])
def test_damaged_statistics_of_a_column_are_an_error(tmp_path, filters):
    """pyarrow's scans abort the process, or wait forever, where its readers raise an error."""
    name = tmp_path / "t"
    parquet.write_table(pa.table({"i": range(40)}), name, row_group_size=25, compression="none", use_dictionary=False)
    whole = bytearray(name.read_bytes())
    footer = int.from_bytes(whole[-8:-4], "little")
    refused = 0
    for place in range(len(whole) - 8 - footer, len(whole) - 8, 3):
        name.write_bytes(whole[:place] + bytes([whole[place] ^ 0x0C]) + whole[place + 1 :])
        try:
            list(tdi.ParquetDataset(name, filters=filters).batch(40))
        except (ValueError, TypeError, OSError, MemoryError):
            refused += 1
    assert refused > 20
