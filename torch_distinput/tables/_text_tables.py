# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""CSV and JSON lines, block by block: a first pass finds blocks of whole records, and pyarrow parses them."""

import contextlib
import csv
import io
import re
import time
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from torch_distinput import _C
from torch_distinput.tables import _stored_index
from torch_distinput.tables._block_files import BlockFiles
from torch_distinput.tables._table_file import KeptReads, Stamp, TableFile
from torch_distinput.tables._text_records import (
    BlockSearch,
    DelimitedLines,
    Format,
    Lines,
    Source,
    after_mark,
    all_ends,
    find_blocks,
    first_end,
    line_at,
    too_long,
)

BLOCK_BYTES = 1 << 20
# What is read at once where blocks are found in order, and what a store is asked for ahead.
_CHUNK_BLOCKS = 2
_AHEAD_BLOCKS = 16
# How many times a host looks whether another one has stored an index before it makes it.
_LOOKS = 4
# How many blocks are searched for the first that shows types, and how many parts of a block with bad records.
_MOST_SHOWN = 16
_MOST_SPANS = 64


@dataclass(frozen=True)
class Records:
    """The blocks of a text file: bytes [bounds[i], bounds[i + 1]) hold counts[i] records. `names`: the names of its
    columns. `is_open`: whether its last record has a quote that is never closed."""

    bounds: list[int]
    counts: list[int]
    names: list[str] | None
    is_open: bool


@dataclass(frozen=True)
class Cut:
    """Records of a block, told apart: record i is `data[slice(*bounds[i])]`. The first is row `first_row` of the file;
    `data` begins at its byte `place`."""

    block: int
    first_row: int
    place: int
    data: bytes
    bounds: list[tuple[int, int]]

    def __len__(self) -> int:
        return len(self.bounds)

    def records(self, begin: int, end: int) -> bytes:
        """Records [begin, end), with blank lines between them."""
        return self.data[self.bounds[begin][0] : self.bounds[end - 1][1]] if begin < end else b""


class TextTables(BlockFiles[Records]):
    """What both formats have in common. `types`: the declared Arrow types; others are inferred from the first block
    that shows any. `stores`: whether indexes are stored beside the files."""

    format: Format  # how its records are told apart
    stored: _stored_index.Format  # and what is stored of that

    def __init__(self, op: str, columns: list[str] | None, types: dict[str, Any], stores: bool):
        super().__init__(op)
        self._columns, self._declared, self._stores = columns, types, stores
        self._schema: Any = None
        self._shown_by: tuple[bytes, int] | None = None  # the block that showed the types
        self._last_cut: tuple[Records, Cut] | None = None

    @abstractmethod
    def parse(self, data: Any, index: Records, schema: Any) -> Any:
        """The records in `data` as a table: of the fields of `schema`, or, where that is None, of types that are
        inferred."""

    @abstractmethod
    def is_broken(self, record: bytes, index: Records) -> bool:
        """Whether a record cannot be parsed, whatever the types of its columns."""

    @abstractmethod
    def first_record(self, file: Source) -> int:
        """The byte at which the records of a file begin."""

    def names_of(self, file: Source, begin: int) -> list[str] | None:
        """The names of the columns that a file tells before its first record, which begins at byte `begin`."""
        return None

    def make_index(self, file: TableFile, stamp: Stamp) -> Records:
        if not file.is_remote:
            return self._index_of(file, file, stamp)
        kept = KeptReads(file)
        if stamp.size < _stored_index.MIN_STORED:
            kept.will_read([(0, stamp.size)])
        return self._index_of(file, kept, stamp)

    def make_stored(self, file: bytes, report: _stored_index.Report) -> bytes:
        """The index of a file as it is stored, by a pass over it."""
        with self.errors(file):
            opened = TableFile(self._op, file)
            source = KeptReads(opened) if opened.is_remote else opened
            stamp = opened.stamp()
            blocks = find_blocks(source, self.first_record(source), BLOCK_BYTES, self.format, report)
            return _stored_index.encoded(self.stored, stamp, *blocks)

    def count_stored(self, file: bytes, content: bytes) -> int | None:
        """The rows of a stored index; None unless it is that of the file as it is now."""
        with self.errors(file):
            found = _stored_index.decoded(content, self.stored, TableFile(self._op, file).stamp())
            return None if found is None else sum(found[1])

    def _index_of(self, file: TableFile, source: Source, stamp: Stamp) -> Records:
        begin = self.first_record(source)
        (bounds, counts), is_open = _stored_index.shared(
            file.name, self.stored, stamp, lambda report: self._read_through(file, source, stamp, begin, report)
        )
        return Records(bounds, counts, self.names_of(source, begin), is_open)

    def _read_through(
        self, file: TableFile, source: Source, stamp: Stamp, begin: int, report: _stored_index.Report
    ) -> tuple[_stored_index.Blocks, bool]:
        """The blocks of a file, from the index beside it if that is right, and whether its last record is open."""
        stores = self._stores and stamp.size >= _stored_index.MIN_STORED
        found = self._load(file, stamp, report) if stores else None
        if found is None or found[0][0] != begin:
            found = find_blocks(source, begin, BLOCK_BYTES, self.format, report)
            if stores:
                _stored_index.store(file.name, self.stored, stamp, *found)
        return found, self.is_open(source, Records(*found, None, is_open=False))

    def _load(self, file: TableFile, stamp: Stamp, report: _stored_index.Report) -> _stored_index.Blocks | None:
        """The stored index; waits for another host that is about to store it."""
        wait = max(0.0, self.patience(file.name, stamp.size) / _LOOKS)
        for look in range(_LOOKS if wait and _C.may_store() else 0):
            found = _stored_index.load(file.name, self.stored, stamp)
            if found is not None or self.patience(file.name, stamp.size) <= 0:
                return found
            time.sleep(wait)
            report(look + 1)
        return _stored_index.load(file.name, self.stored, stamp)

    def is_open(self, file: Source, index: Records) -> bool:
        """Whether the last record of `index`, which is the last one of the file, ends inside a quote."""
        if not index.counts or too_long(index.bounds[-1] - index.bounds[-2]):
            return False
        return self.format.is_open(file.read_at(index.bounds[-2], index.bounds[-1] - index.bounds[-2]))

    def lacks_index(self, files: list[bytes]) -> bool:
        objects = [file for file in files if _C.names_object(file)]
        return not all(self.side_by_side(self._has_index, objects).values())

    def _has_index(self, file: bytes) -> bool:
        with self.errors(file):
            opened = TableFile(self._op, file)
            stamp = opened.stamp()
            if self.known_index(opened, stamp) is not None:
                return True
            return self._stores and _stored_index.load(file, self.stored, stamp) is not None

    def rows(self, index: Records) -> list[int]:
        return index.counts

    def open(self, file: bytes) -> "BlocksInOrder":
        """The blocks of a file in order, found as they are read."""
        return BlocksInOrder(self, TableFile(self._op, file))

    def schema(self, file: bytes) -> Any:
        return self._schema_of_head(file) or super().schema(file)

    def _schema_of_head(self, file: bytes) -> Any:
        """The schema of a file without an index, of which only the first block is read. None where that shows no types,
        or where there is an index."""
        with self.errors(file):
            opened = TableFile(self._op, file)
            if self._schema is None and self.known_index(opened, opened.stamp()) is None:
                source = KeptReads(opened)
                begin = self.first_record(source)
                search = BlockSearch(source, begin, BLOCK_BYTES, self.format, 2 * BLOCK_BYTES, 2 * BLOCK_BYTES)
                search.next()
                head = Records(search.bounds, search.counts, self.names_of(source, begin), is_open=False)
                with contextlib.suppress(_C.InvalidArgumentError):  # raised again, with rows of the whole file
                    self._schema = self._inferred(source, head)
            return self._schema

    def schema_of(self, file: Source, index: Records) -> Any:
        if self._schema is None:
            if not index.counts:
                raise self.fault(file, "it has no rows, so that the types of its columns are unknown.")
            self._schema = self._inferred(file, index)
        return self._schema

    def _inferred(self, file: Source, index: Records) -> Any:
        import pyarrow

        found: Any = None
        failed: Exception | None = None
        for block in range(min(len(index.counts), _MOST_SHOWN)):
            try:
                cut = self._cut(file, index, block)
                found = self._schema_of_good(cut, index)
            except _C.InvalidArgumentError as fault:
                failed = failed or fault
                continue
            if found is not None:
                self._shown_by = (file.name, block)
                break
            declared = pyarrow.schema(self._declared)
            error = self._fails(cut.data, index, None)
            failed = failed or self._located(file, index, cut, declared, error or ValueError("no row can be read"))
        if found is None:
            raise failed or self.fault(file, "it has no rows, so that the types of its columns are unknown.")
        kinds = {field.name: field.type for field in found} | self._declared
        names = list(kinds) if self._columns is None else self._columns
        missing = [name for name in names if name not in kinds]
        if missing:
            raise self.fault(file, f"there is no column {missing[0]!r}; the columns are {found.names}.")
        return pyarrow.schema({name: kinds[name] for name in names})

    def _schema_of_good(self, cut: Cut, index: Records) -> Any:
        """The schema of the records that can be parsed; None if none can. A bad record does not decide the types of the
        others, and its error is raised when it is read. Where types differ, the type of most records holds."""
        passes = _passing(len(cut), lambda begin, end: self._fails(cut.records(begin, end), index, None) is None)
        chosen: list[tuple[int, int]] = []
        for span in sorted(passes, key=lambda span: span[0] - span[1])[:_MOST_SPANS]:
            tried = sorted([*chosen, span])
            if self._fails(b"".join(cut.records(*part) for part in tried), index, None) is None:
                chosen = tried
        return self.parse(b"".join(cut.records(*part) for part in chosen), index, None).schema if chosen else None

    def read_block(self, file: Source, index: Records, block: int) -> Any:
        import pyarrow

        schema = self.schema_of(file, index)
        data = self._bytes(file, index, block)
        if index.is_open and block == len(index.counts) - 1:
            raise self._unclosed(file, self._cut(file, index, block))
        try:
            table = self.parse(data, index, schema).select(schema.names).combine_chunks()
        except (pyarrow.ArrowException, KeyError) as error:
            raise self._located(file, index, self._cut(file, index, block), schema, error) from None
        if table.num_rows != index.counts[block]:
            raise self._miscounted(file, index, self._cut(file, index, block), table.num_rows)
        return table

    def read_rows(self, file: bytes, block: int, begin: int, end: int) -> Any:
        """Rows [begin, end) of a block as an Arrow table of one chunk. A bad row does not make the others of its block
        fail."""
        with self.errors(file):
            index, opened = self._current(file)
            return self.part_of_block(opened, index, block, begin, end)

    def part_of_block(self, file: Source, index: Records, block: int, begin: int, end: int) -> Any:
        """As `read_rows`, of a file that is open."""
        import pyarrow

        schema = self.schema_of(file, index)
        cut = self._cut(file, index, block)
        if len(cut) != index.counts[block]:
            raise self._miscounted(file, index, cut, len(cut))
        if index.is_open and cut.first_row + end == sum(index.counts):
            raise self._unclosed(file, cut)
        part = Cut(cut.block, cut.first_row + begin, cut.place, cut.data, cut.bounds[begin:end])
        data = part.records(0, end - begin)
        try:
            table = self.parse(data, index, schema).select(schema.names).combine_chunks()
        except (pyarrow.ArrowException, KeyError) as error:
            if end - begin > 1:
                raise self.fault(file, f"{error}") from None
            raise self._located(file, index, part, schema, error) from None
        if table.num_rows != end - begin:
            raise self._miscounted(file, index, part, table.num_rows)
        return table

    def ranges(self, index: Records, block: int) -> list[tuple[int, int]]:
        begin, end = _read_of(index, block)
        return [] if too_long(end - begin) else [(begin, end - begin)]

    def _bytes(self, file: Source, index: Records, block: int) -> bytes:
        begin, end = index.bounds[block], index.bounds[block + 1]
        if index.counts[block] == 1 and (most := too_long(end - begin)):
            raise self.fault(
                file,
                f"the record that begins at byte {begin} has more than {most} bytes (row {sum(index.counts[:block])}, "
                f"line {line_at(file, begin)}); is a quote not closed?",
            )
        first, last = _read_of(index, block)
        data = file.read_at(first, last - first)
        if len(data) < last - first:
            raise self.fault(file, "it has become shorter while it was read.")
        ended, data = first == begin or data[:1] in (b"\n", b"\r"), data[begin - first :]
        if last < end:
            data += b"\n"
        if not ended or (block + 1 < len(index.counts) and self.format.seems_open(data)):
            raise self.fault(
                file,
                f"bytes {begin} to {end} are not whole records; is the index stored beside it that of another file?",
            )
        return data

    def _cut(self, file: Source, index: Records, block: int) -> Cut:
        """The records of a block. The block read last is kept, because its rows may be requested one by one."""
        known = self._last_cut
        if known is not None and known[0] is index and known[1].block == block:
            return known[1]
        data = self._bytes(file, index, block)
        view = np.frombuffer(data, np.uint8)
        ends = all_ends(view, self.format)
        starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
        there = ~self.format.blank(view, starts, ends)
        bounds = list(zip(starts[there].tolist(), ends[there].tolist(), strict=True))
        cut = Cut(block, sum(index.counts[:block]), index.bounds[block], data, bounds)
        self._last_cut = (index, cut)
        return cut

    def _located(self, file: Source, index: Records, cut: Cut, schema: Any, error: Exception) -> Exception:
        """The error of records, with the row and the column that caused it."""
        import pyarrow

        low, high = 0, len(cut)  # the first `low` records are good, the first `high` are not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._fails(cut.records(0, middle), index, schema) is None else (low, middle)
        row, record = cut.first_row + low, cut.records(low, low + 1)
        if self.is_broken(record, index):
            return self.fault(file, f"row {row}: {_without_place(self._fails(record, index, schema) or error)}.")
        fails = {field.name: self._fails(record, index, pyarrow.schema([field])) for field in schema}
        bad = [name for name, found in fails.items() if found is not None]
        if not bad or len(bad) == len(fails) > 1:  # it is about the record, not about a column
            return self.fault(file, f"row {row}: {_without_place(error)}.")
        declares = "`types` declares the types of columns."
        if self._shown_by == (file.name, cut.block) and bad[0] not in self._declared and "changed from" in str(error):
            return self.fault(file, f"row {row}: {_without_place(error)}; {declares}")
        return self.fault(file, f"column {bad[0]!r} in row {row}: {_without_place(fails[bad[0]])}; {declares}")

    def _unclosed(self, file: Source, cut: Cut) -> Exception:
        """The error of the last record of a file, which is in `cut`; pyarrow would close its quote at the end."""
        row, line = cut.first_row + len(cut) - 1, line_at(file, cut.place + cut.bounds[-1][0])
        return self.fault(file, f"row {row}: the record that begins in line {line} has a quote that is never closed.")

    def _miscounted(self, file: Source, index: Records, cut: Cut, rows: int) -> Exception:
        """The error for records that pyarrow parses as another number of rows."""
        for row in range(len(cut)):
            record = cut.records(row, row + 1)
            failed = self._fails(record, index, self._schema)
            if failed is not None or self.parse(record, index, self._schema).num_rows != 1:
                return self.fault(
                    file, f"row {cut.first_row + row}: a line must hold one record, but this is {record[:60]!r}."
                )
        return self.fault(
            file,
            f"bytes {index.bounds[cut.block]} to {index.bounds[cut.block + 1]} hold {rows} rows, not "
            f"{index.counts[cut.block]} as before; has the file changed, or is the index stored beside it another's?",
        )

    def _fails(self, data: bytes, index: Records, schema: Any) -> Exception | None:
        import pyarrow

        try:
            self.parse(data, index, schema)
        except (pyarrow.ArrowException, KeyError) as error:
            return error
        return None


class BlocksInOrder:
    """The blocks of a text file in order, each byte of which is read once. One thread at a time. Errors are those of
    `BlockFiles`; what raises can be tried again."""

    def __init__(self, tables: TextTables, file: TableFile):
        with tables.errors(file.name):
            self._tables, self._file, self._size = tables, file, file.stamp().size
            # A block ends in the last chunk, and begins there or in the one before; a chunk lies in two reads.
            self._source = KeptReads(file, recent=3)
            self._source.will_read([(0, _AHEAD_BLOCKS * BLOCK_BYTES)])
            begin = tables.first_record(self._source)
            self._search = BlockSearch(
                self._source,
                begin,
                BLOCK_BYTES,
                tables.format,
                _CHUNK_BLOCKS * BLOCK_BYTES,
                _AHEAD_BLOCKS * BLOCK_BYTES,
            )
            self._index = Records(
                self._search.bounds, self._search.counts, tables.names_of(self._source, begin), is_open=False
            )

    def next(self) -> int | None:
        """Goes to the next block and returns its rows; None behind the last one."""
        with self._tables.errors(self._file.name):
            search = self._search
            found = search.next()
            if not found or search.is_last:
                self._check_end()
                self._index = replace(self._index, is_open=self._tables.is_open(self._source, self._index))
            return search.counts[-1] if found else None

    def read(self) -> Any:
        """The present block as an Arrow table of one chunk."""
        with self._tables.errors(self._file.name):
            return self._tables.read_block(self._source, self._index, len(self._index.counts) - 1)

    def read_rows(self, begin: int, end: int) -> Any:
        """Rows [begin, end) of the present block, as `TextTables.read_rows`."""
        with self._tables.errors(self._file.name):
            return self._tables.part_of_block(self._source, self._index, len(self._index.counts) - 1, begin, end)

    def _check_end(self) -> None:
        """A file may grow while it is read; what is added is read, or is not."""
        if self._file.stamp().size < self._size:
            raise self._tables.fault(self._file, "it has become shorter while it was read.")


class CsvFiles(TextTables):
    """Delimited text with a line of names at the beginning of each file."""

    def __init__(self, op: str, columns: list[str] | None, types: dict[str, Any], stores: bool, delimiter: str):
        super().__init__(op, columns, types, stores)
        self._delimiter, self.format = delimiter, DelimitedLines(delimiter)
        self.stored = _stored_index.Format("csv", delimiter, BLOCK_BYTES)

    def first_record(self, file: Source) -> int:
        try:
            begin = first_end(file, after_mark(file), self.format)
        except ValueError as error:
            raise self.fault(file, f"{error}") from None
        if begin == 0:
            raise self.fault(file, "it is empty, without a line of column names.")
        return begin

    def names_of(self, file: Source, begin: int) -> list[str]:
        head = file.read_at(0, begin)
        try:
            text = io.StringIO(head.decode("utf-8-sig").lstrip("\r\n"), newline="")
            names = next(csv.reader(text, delimiter=self._delimiter), [])
        except (UnicodeDecodeError, csv.Error) as error:
            raise self.fault(file, f"its line of column names cannot be read: {error}.") from None
        for name in names if self._columns is None else self._columns:
            if names.count(name) > 1:
                raise self.fault(file, f"its line of column names has {name!r} {names.count(name)} times.")
        return names

    def is_broken(self, record: bytes, index: Records) -> bool:
        import pyarrow

        schema = pyarrow.schema({name: pyarrow.binary() for name in index.names or ()})
        return self._fails(record, index, schema) is not None

    def parse(self, data: Any, index: Records, schema: Any) -> Any:
        import pyarrow
        from pyarrow import csv as reader

        names = self._columns if schema is None else schema.names
        types = self._declared if schema is None else {field.name: field.type for field in schema}
        missing = [name for name in names or () if name not in (index.names or ())]
        if missing:
            raise pyarrow.ArrowInvalid(f"there is no column {missing[0]!r}; the columns are {index.names}")
        return reader.read_csv(
            pyarrow.BufferReader(data),
            reader.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=index.names),
            reader.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
            reader.ConvertOptions(column_types=types, include_columns=names),
        )


class JsonLinesFiles(TextTables):
    """One JSON object a line."""

    format = Lines()
    stored = _stored_index.Format("jsonl", "\n", BLOCK_BYTES)

    def first_record(self, file: Source) -> int:
        return after_mark(file)

    def is_broken(self, record: bytes, index: Records) -> bool:
        import pyarrow

        return self._fails(record, index, pyarrow.schema([])) is not None

    def parse(self, data: Any, index: Records, schema: Any) -> Any:
        import pyarrow
        from pyarrow import json as reader

        self._check_objects(data)
        if schema is None:
            schema, unexpected = pyarrow.schema(self._declared), "infer"
        else:
            unexpected = "ignore"
        return reader.read_json(
            pyarrow.BufferReader(data),
            reader.ReadOptions(use_threads=False, block_size=len(data) + 1),
            reader.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
        )

    def _check_objects(self, data: bytes) -> None:
        """Raises ArrowInvalid unless each line is one object: pyarrow's parser crashes on a line `null` and on objects
        that are nested too deeply."""
        import pyarrow

        fault = _C.json_fault(data)
        if fault is None:
            return
        begin, end, rule = fault
        line = data[begin:end]
        if rule == "too deep":
            raise pyarrow.ArrowInvalid(
                f"objects and arrays lie deeper within one another than {_C.MAX_JSON_DEPTH} levels"
            )
        if rule == "not UTF-8":
            raise pyarrow.ArrowInvalid("the text is not UTF-8")
        # pyarrow's message says more about a last line that is cut off.
        if rule == "no object" or begin > 0 or line[-1:] == b"\n":
            raise pyarrow.ArrowInvalid(
                f"a line must hold one record, but this is {line[:60]!r}; a record is one JSON object"
            )


def _read_of(index: Records, block: int) -> tuple[int, int]:
    """The bytes that are read for a block: with the one that must end the record before, and without its own last one,
    which the next block reads. A store is then asked for each byte once."""
    begin, end = index.bounds[block], index.bounds[block + 1]
    return begin - (block > 0), end - (block + 1 < len(index.counts))


def _passing(count: int, passes: Callable[[int, int], bool]) -> list[tuple[int, int]]:
    """The parts of [0, count) that pass, found by halving those that do not."""
    good: list[tuple[int, int]] = []
    left = [(0, count)] if count else []
    while left:
        begin, end = left.pop()
        if passes(begin, end):
            good.append((begin, end))
        elif end - begin > 1:
            middle = (begin + end) // 2
            left += [(middle, end), (begin, middle)]
    return good


def arrow_type(op: str, name: str, kind: Any) -> Any:
    """The Arrow type for a torch dtype, `str`, `bytes`, or itself."""
    import pyarrow

    if isinstance(kind, pyarrow.DataType):
        return kind
    known = {str: pyarrow.string(), bytes: pyarrow.binary(), torch.bool: pyarrow.bool_()}
    for number in ("int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"):
        known[getattr(torch, number)] = getattr(pyarrow, number)()
    if kind not in known:
        raise TypeError(f"{op}: `types[{name!r}]` must be a torch dtype, str, bytes or an Arrow type, but is {kind!r}.")
    return known[kind]


def _without_place(error: Any) -> str:
    """pyarrow's message without row and column, which it counts within a block."""
    return re.sub(r"^(In CSV column #\d+: )?((CSV parse error: )?Row #\d+: )?|\.? in row \d+$", "", str(error))
