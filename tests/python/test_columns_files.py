# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Parquet, CSV and JSON lines: equal values, what is read when, laws, shares of workers, bad files."""

import csv
import itertools
import json
import os

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_distinput as tdi
from torch_distinput import _parquet, _stored_index, _text_records, _text_tables

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

FILES, ROWS, GROUP = 4, 23, 5


def table(first=0, rows=ROWS):
    numbers = np.arange(first, first + rows)
    return pa.table(
        {
            "i": numbers,
            "x": numbers.astype(np.float32) / 2,
            "s": [f"row {number}" for number in numbers],
            "l": [list(range(number % 4)) for number in numbers],
        }
    )


@pytest.fixture
def files(tmp_path):
    names = [str(tmp_path / f"{i}.parquet") for i in range(FILES)]
    for i, name in enumerate(names):
        parquet.write_table(table(i * ROWS), name, row_group_size=GROUP)
    return names


@pytest.fixture
def reads(monkeypatch):
    """The blocks that are read, in order."""
    seen = []
    original = _parquet.ParquetFiles.read_block

    def read_block(self, path, index, block):
        seen.append((os.path.basename(path), block))
        return original(self, path, index, block)

    monkeypatch.setattr(_parquet.ParquetFiles, "read_block", read_block)
    return seen


def numbers(batches, name="i"):
    return [number for batch in batches for number in batch[name].tolist()]


def test_rows_of_parquet_files_are_those_of_pyarrow(files):
    dataset = tdi.ParquetDataset(files)
    rows = [row for name in files for row in parquet.read_table(name).to_pylist()]
    found = [{**row, "i": int(row["i"]), "x": float(row["x"]), "l": row["l"].tolist()} for row in dataset]
    assert found == rows and len(dataset) == len(rows)
    assert dataset.element_spec["l"] == tdi.TensorSpec([None], torch.int64)


@pytest.mark.parametrize("columns", [["i", "x"], ["s", "i"]])
def test_laws_of_parquet(files, columns):
    dataset = tdi.ParquetDataset(files, columns).shuffle(12, seed=3).batch(7)
    tdi.testing.assert_resumable(dataset)
    tdi.testing.assert_paths_agree(dataset)
    tdi.testing.assert_resumable(dataset.filter(lambda batch: True))
    whole = numbers(dataset._native.iterate(epoch=0))
    assert sorted(whole) == list(range(FILES * ROWS)) and whole != sorted(whole)
    one = dataset.with_options(tdi.Options(num_threads=1, prefetch=0))
    assert numbers(one._native.iterate(epoch=0)) == whole
    assert numbers(tdi.ParquetDataset(files, columns).shuffle(seed=1).batch(9)) != whole


def test_the_first_batch_reads_footers_and_one_row_group(tmp_path, reads):
    names = [str(tmp_path / f"{i}.parquet") for i in range(100)]
    for i, name in enumerate(names):
        parquet.write_table(pa.table({"i": [i] * 4}), name, row_group_size=2)
    dataset = tdi.ParquetDataset(names).batch(2).with_options(tdi.Options(prefetch=0))
    assert len(dataset) == 200 and reads == []
    iterator = iter(dataset)
    assert next(iterator)["i"].tolist() == [0, 0] and reads == [("0.parquet", 0)]
    for _ in range(150):
        next(iterator)
    reads.clear()
    resumed = iter(tdi.ParquetDataset(names).batch(2).with_options(tdi.Options(prefetch=0)))
    resumed.load_state_dict(iterator.state_dict())
    assert next(resumed)["i"].tolist() == [75, 75] and reads == [("75.parquet", 1)]


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="the system does not count what a process reads")
def test_the_first_batch_of_100_files_reads_the_bytes_of_footers_and_one_row_group(tmp_path):
    rows, group_bytes, footer_bytes = 16_384, 16_384 * 8, 1 << 16  # pyarrow looks for a footer in the last 64 KiB
    first = str(tmp_path / "0.parquet")
    numbers_ = np.random.default_rng(0).integers(0, 2**62, 3 * rows)
    options = {"compression": "none", "use_dictionary": False, "row_group_size": rows}
    parquet.write_table(pa.table({"i": numbers_}), first, **options)
    names = [first, *(str(tmp_path / f"{i}.parquet") for i in range(1, 100))]
    for name in names[1:]:
        os.link(first, name)
    next(iter(tdi.ParquetDataset(first).batch(2)))  # what pyarrow loads once

    def read_bytes():
        with open("/proc/self/io") as file:
            return int(file.readline().split()[1])

    before = read_bytes()
    batch = next(iter(tdi.ParquetDataset(names).batch(256).with_options(tdi.Options(prefetch=0))))
    assert batch["i"].tolist() == numbers_[:256].tolist()
    assert read_bytes() - before < 100 * footer_bytes + 1.1 * group_bytes + 100_000


@pytest.mark.parametrize("ops", [lambda ds: ds, lambda ds: ds.shuffle(3 * GROUP, seed=1)])
def test_a_windowed_shuffle_reads_no_more_than_a_pass(files, reads, ops):
    list(ops(tdi.ParquetDataset(files, ["i", "s"])).batch(4))
    assert len(reads) == len(set(reads)) == FILES * -(-ROWS // GROUP)


def test_small_row_groups_are_read_together(files, reads):
    assert numbers(tdi.ParquetDataset(files[:1], ["i"], batch_rows=9).batch(10)) == list(range(ROWS))
    assert len(reads) == 3  # groups of 5, 5 | 5, 5 | 3


@pytest.mark.parametrize("condition", [[("x", ">", 5), ("i", "<", 60)], "expression"])
def test_filters_keep_rows_and_their_number(files, condition):
    if condition == "expression":
        field = pytest.importorskip("pyarrow.dataset").field
        condition = (field("x") > 5) & (field("i") < 60)
    dataset = tdi.ParquetDataset(files, ["i"], filters=condition)
    assert len(dataset) == 49 and numbers(dataset.batch(10)) == list(range(11, 60))
    tdi.testing.assert_resumable(dataset.shuffle(seed=1).batch(5))


def test_columns_are_stacked_and_nulls_replaced(tmp_path):
    name = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"a": [1.0, None], "b": [3, 4], "y": [0, 1]}), name)
    dataset = tdi.ParquetDataset(name, columns=["y"], stack={"x": ["a", "b"]}, nulls={"a": -1})
    batch = next(iter(dataset.batch(2)))
    assert list(batch) == ["y", "x"] and batch["x"].tolist() == [[1, 3], [-1, 4]]
    with pytest.raises(tdi.InvalidArgumentError, match=r"t\.parquet: column 'a' is null in row 1"):
        list(tdi.ParquetDataset(name))


@pytest.mark.parametrize("policy", ["FILE", "DATA"])
def test_workers_share_files_or_rows(files, policy):
    dataset = tdi.ParquetDataset(tdi.Dataset.list_files(files, shuffle=False), ["i"]).batch(6)
    policy = getattr(tdi.AutoShardPolicy, policy)
    shares = [numbers(tdi.testing.worker_stream(dataset, 3, 1, worker, policy)) for worker in range(3)]
    if policy == tdi.AutoShardPolicy.FILE:
        assert shares[1] == list(range(ROWS, 2 * ROWS))
    assert sorted(itertools.chain(*shares)) == list(range(FILES * ROWS))


def test_a_file_that_cannot_be_read_is_named_or_skipped(files, tmp_path):
    with open(files[1], "r+b") as file:
        file.truncate(200)
    with pytest.raises(tdi.InvalidArgumentError, match=r"ParquetDataset: .*1\.parquet: "):
        list(tdi.ParquetDataset(files))
    lenient = tdi.ParquetDataset(files, ["i"]).with_options(tdi.Options(on_error="skip")).batch(5)
    assert sorted(numbers(lenient)) == [*range(ROWS), *range(2 * ROWS, 4 * ROWS)]
    tdi.testing.assert_resumable(lenient)
    with pytest.raises(tdi.NotFoundError, match=r"none\.parquet: there is no such file"):
        next(iter(tdi.ParquetDataset(tmp_path / "none.parquet")))


def test_another_schema_is_named(files, tmp_path):
    parquet.write_table(table().set_column(1, "x", pa.array(["a"] * ROWS)), files[2])
    with pytest.raises(tdi.InvalidArgumentError, match=r"2\.parquet: column 'x' has the Arrow format 'u', but 'f' in"):
        list(tdi.ParquetDataset(files))
    parquet.write_table(table().drop_columns(["s"]), files[2])
    with pytest.raises(tdi.InvalidArgumentError, match=r"2\.parquet: column 2 is 'l', but 's' in the first file"):
        list(tdi.ParquetDataset(files))
    with pytest.raises(tdi.InvalidArgumentError, match=r"2\.parquet: there is no column 's'; the columns are"):
        list(tdi.ParquetDataset(files, ["s"]))


def test_a_file_that_changes_between_epochs_is_read_anew(files):
    dataset = tdi.ParquetDataset(files[:1], ["i"])
    assert len(dataset) == ROWS
    parquet.write_table(table(100, 7), files[0], row_group_size=GROUP)
    assert len(dataset) == 7 and numbers(dataset.batch(7)) == list(range(100, 107))


WRITERS = {
    "polars": lambda rows, name: pytest.importorskip("polars").DataFrame(rows).write_parquet(name, row_group_size=3),
    "pandas": lambda rows, name: pytest.importorskip("pandas").DataFrame(rows).to_parquet(name, index=False),
    "duckdb": lambda rows, name: (
        pytest.importorskip("duckdb").from_arrow(pa.table(rows)).write_parquet(str(name), row_group_size=2048)
    ),
}


@pytest.mark.parametrize("writer", WRITERS)
@settings(max_examples=8)
@given(
    st.lists(
        st.tuples(st.integers(-(2**40), 2**40), st.floats(-9, 9), st.booleans(), st.text("aé ", max_size=9)), min_size=1
    )
)
def test_files_of_other_writers(tmp_path_factory, writer, rows):
    name = tmp_path_factory.mktemp("other") / "t.parquet"
    WRITERS[writer](dict(zip("ixbs", map(list, zip(*rows)))), name)
    dataset = tdi.ParquetDataset(name)
    assert [(int(row["i"]), float(row["x"]), bool(row["b"]), row["s"]) for row in dataset] == rows
    batch = next(iter(dataset.batch(len(rows))))
    assert batch["s"] == [row[3] for row in rows] and batch["x"].tolist() == [row[1] for row in rows]


@pytest.mark.parametrize("lie", [1, -1])
def test_a_footer_that_lies_is_named(files, monkeypatch, lie):
    monkeypatch.setattr(_parquet.ParquetFiles, "rows", lambda self, index: [count + lie for count in index.counts])
    with pytest.raises(tdi.InvalidArgumentError, match=r"0\.parquet: block 0 has not the \d rows that were counted"):
        list(tdi.ParquetDataset(files))


def test_workers_of_torchs_loader_read_their_shares(files):
    dataset = tdi.ParquetDataset(files, ["i"]).shuffle(7, seed=1).batch(5)
    iterator = iter(dataset)
    begun = next(iterator)["i"].tolist()  # threads of this process have read blocks when the workers are forked
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=2, timeout=60)
    assert sorted(numbers(loader)) == list(range(FILES * ROWS))
    assert sorted(begun + numbers(iterator)) == list(range(FILES * ROWS))


def test_without_an_index_files_are_read_in_order(files, reads):
    dataset = tdi.ParquetDataset(files, ["i"], index=False)
    assert dataset.cardinality() == tdi.UNKNOWN and reads == []
    assert numbers(dataset.batch(8)) == list(range(FILES * ROWS)) and reads == sorted(set(reads))
    tdi.testing.assert_resumable(dataset.shuffle(9, seed=1).batch(5))
    with pytest.raises(ValueError, match='ParquetDataset: `index` must be True, False or "auto"'):
        tdi.ParquetDataset(files, index="no")


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


@pytest.mark.parametrize("filters", [None, [("x", ">=", 0)]])
def test_checksums_of_pages_are_verified(tmp_path, filters):
    name = tmp_path / "t.parquet"
    options = {"write_page_checksum": True, "use_dictionary": False, "compression": "none"}
    parquet.write_table(pa.table({"x": np.arange(1000)}), name, **options)
    whole = name.read_bytes()
    place = whole.index(np.int64(500).tobytes() + np.int64(501).tobytes())
    name.write_bytes(whole[:place] + b"\1" + whole[place + 1 :])
    with pytest.raises(tdi.InvalidArgumentError, match=r"t\.parquet: .*CRC checksum verification failed"):
        list(tdi.ParquetDataset(name, filters=filters).batch(100))


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

    def find_blocks(path, *arguments):
        seen.append(os.path.basename(path))
        return original(path, *arguments)

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
        assert _stored_index.load(str(name), COMMAS, _stored_index.Stamp.of(str(name))) is None
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
        bounds, counts = _text_records.find_blocks(str(name), 4, block_bytes, records)
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
