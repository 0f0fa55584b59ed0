# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""CSV and JSON lines, block by block: pyarrow parses blocks of whole records, whose bounds are found beforehand."""

from __future__ import annotations

import csv
import io
import itertools
import re
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from torch_distinput import _stored_index
from torch_distinput._block_files import BlockFiles
from torch_distinput._stored_index import Stamp
from torch_distinput._text_records import DelimitedLines, Format, Lines, all_ends, find_blocks, first_end

BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Records:
    """The blocks of a text file: bytes [bounds[i], bounds[i + 1]) hold counts[i] records. `names`: of its columns."""

    bounds: list[int]
    counts: list[int]
    names: list[str] | None


class TextTables(BlockFiles[Records]):
    """What both formats have in common. `types`: Arrow types that are declared; others come from the first block that
    any file shows. `stores`: whether indexes of files are kept beside them."""

    format: Format  # how its records are told apart
    stored: _stored_index.Format  # and what is stored of that

    def __init__(self, op: str, columns: list[str] | None, types: dict[str, Any], stores: bool):
        super().__init__(op)
        self._columns, self._declared, self._stores = columns, types, stores
        self._schema: Any = None

    @abstractmethod
    def parse(self, data: Any, index: Records, schema: Any) -> Any:
        """The records in `data` as a table: of the fields of `schema`, or, where that is None, of types that are
        inferred."""

    def first_record(self, path: str) -> int:
        """The byte at which the records of a file begin."""
        return 0

    def names_of(self, path: str, begin: int) -> list[str] | None:
        """The names of the columns that a file tells before its first record, which begins at byte `begin`."""
        return None

    def make_index(self, path: str, stamp: Stamp) -> Records:
        found = None
        stores = self._stores and stamp.size >= _stored_index.MIN_STORED
        if stores:
            found = _stored_index.load(path, self.stored, stamp)
        if found is None:
            try:
                found = find_blocks(path, self.first_record(path), BLOCK_BYTES, self.format)
            except ValueError as error:
                raise self.fault(path, f"{error}") from None
            if stores:
                _stored_index.store(path, self.stored, stamp, *found)
        bounds, counts = found
        return Records(bounds, counts, self.names_of(path, bounds[0]))

    def rows(self, index: Records) -> list[int]:
        return index.counts

    def schema_of(self, path: str, index: Records) -> Any:
        if self._schema is None:
            if not index.counts:
                raise self.fault(path, "it has no rows, so that the types of its columns are unknown.")
            self._schema = self._inferred(path, index)
        return self._schema

    def _inferred(self, path: str, index: Records) -> Any:
        import pyarrow

        data = self._bytes(path, index, 0)
        try:
            found = self.parse(data, index, None).schema
        except pyarrow.ArrowException as error:
            declared = pyarrow.schema(self._declared)
            raise self._located(path, index, 0, data, declared, error) from None
        kinds = {field.name: field.type for field in found} | self._declared
        names = list(kinds) if self._columns is None else self._columns
        missing = [name for name in names if name not in kinds]
        if missing:
            raise self.fault(path, f"there is no column {missing[0]!r}; the columns are {found.names}.")
        return pyarrow.schema({name: kinds[name] for name in names})

    def read_block(self, path: str, index: Records, block: int) -> Any:
        import pyarrow

        schema = self.schema_of(path, index)
        data = self._bytes(path, index, block)
        try:
            table = self.parse(data, index, schema).select(schema.names).combine_chunks()
        except (pyarrow.ArrowException, KeyError) as error:
            raise self._located(path, index, block, data, schema, error) from None
        if table.num_rows != index.counts[block]:
            raise self._miscounted(path, index, block, data, table.num_rows)
        return table

    def _bytes(self, path: str, index: Records, block: int) -> bytes:
        begin, end = index.bounds[block], index.bounds[block + 1]
        with open(path, "rb") as file:
            file.seek(begin)
            data = file.read(end - begin)
        if len(data) < end - begin:
            raise self.fault(path, "it has become shorter while it was read.")
        return data

    def _located(self, path: str, index: Records, block: int, data: bytes, schema: Any, error: Exception) -> Exception:
        """The error of a block with the record and the column that it is about."""
        ends = all_ends(np.frombuffer(data, np.uint8), self.format)
        low, high = 0, len(ends)  # the first `low` records are good, the first `high` are not
        while high - low > 1:
            middle = (low + high) // 2
            begin = int(ends[low - 1]) if low else 0
            if self._fails(data[begin : int(ends[middle - 1])], index, schema) is None:
                low = middle
            else:
                high = middle
        bounds = [0, *map(int, ends)]
        records = [data[begin:end] for begin, end in itertools.pairwise(bounds)]
        row = sum(index.counts[:block]) + sum(bool(record.strip(b"\r\n")) for record in records[:low])
        fails = {
            name: self._fails(b"".join(records[low : low + 1]), index, _only(schema, name)) for name in schema.names
        }
        bad = [name for name, found in fails.items() if found is not None]
        if not bad or len(bad) == len(fails) > 1:  # it is about the record, not about a column
            return self.fault(path, f"row {row}: {_without_place(error)}.")
        return self.fault(
            path,
            f"column {bad[0]!r} in row {row}: {_without_place(fails[bad[0]])}; `types` declares the types of columns.",
        )

    def _miscounted(self, path: str, index: Records, block: int, data: bytes, rows: int) -> Exception:
        """The error of a block that is parsed as another number of rows than it has records."""
        bounds = [0, *map(int, all_ends(np.frombuffer(data, np.uint8), self.format))]
        row = sum(index.counts[:block])
        for begin, end in itertools.pairwise(bounds):
            record = data[begin:end]
            if not record.strip(b" \t\r\n"):
                continue
            failed = self._fails(record, index, self._schema)
            if failed is not None or self.parse(record, index, self._schema).num_rows != 1:
                return self.fault(path, f"row {row}: a line must hold one record, but this is {record[:60]!r}.")
            row += 1
        return self.fault(
            path,
            f"bytes {index.bounds[block]} to {index.bounds[block + 1]} hold {rows} rows, not "
            f"{index.counts[block]} as before; has the file changed?",
        )

    def _fails(self, data: bytes, index: Records, schema: Any) -> Exception | None:
        import pyarrow

        try:
            self.parse(data, index, schema)
        except (pyarrow.ArrowException, KeyError) as error:
            return error
        return None


class CsvFiles(TextTables):
    """Delimited text with a line of names at the beginning of each file."""

    def __init__(self, op: str, columns: list[str] | None, types: dict[str, Any], stores: bool, delimiter: str):
        super().__init__(op, columns, types, stores)
        self._delimiter, self.format = delimiter, DelimitedLines(delimiter)
        self.stored = _stored_index.Format("csv", delimiter, BLOCK_BYTES)

    def first_record(self, path: str) -> int:
        begin = first_end(path, self.format)
        if begin == 0:
            raise self.fault(path, "it is empty, without a line of column names.")
        return begin

    def names_of(self, path: str, begin: int) -> list[str]:
        with open(path, "rb") as file:
            head = file.read(begin)
        try:
            text = io.StringIO(head.decode("utf-8-sig").lstrip("\r\n"), newline="")
            names = next(csv.reader(text, delimiter=self._delimiter))
        except (UnicodeDecodeError, csv.Error) as error:
            raise self.fault(path, f"its line of column names cannot be read: {error}.") from None
        for name in names if self._columns is None else self._columns:
            if names.count(name) > 1:
                raise self.fault(path, f"its line of column names has {name!r} {names.count(name)} times.")
        return names

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

    def parse(self, data: Any, index: Records, schema: Any) -> Any:
        import pyarrow
        from pyarrow import json as reader

        if schema is None:
            schema, unexpected = pyarrow.schema(self._declared), "infer"
        else:
            unexpected = "ignore"
        return reader.read_json(
            pyarrow.BufferReader(data),
            reader.ReadOptions(use_threads=False, block_size=len(data) + 1),
            reader.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
        )


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
    return re.sub(r"^(In CSV column #\d+: )?((CSV parse error: )?Row #\d+: )?", "", str(error))


def _only(schema: Any, name: str) -> Any:
    import pyarrow

    return pyarrow.schema([schema.field(name)])
