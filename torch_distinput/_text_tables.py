# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""CSV and JSON lines, block by block: pyarrow parses blocks of whole records, whose bounds are found beforehand."""

from __future__ import annotations

import csv
import itertools
import re
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from torch_distinput._block_files import BlockFiles

BLOCK_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 24
_NEWLINE, _RETURN, _QUOTE = 10, 13, 34


@dataclass(frozen=True)
class Records:
    """The blocks of a text file: bytes [bounds[i], bounds[i + 1]) hold counts[i] records. `names`: of its columns."""

    bounds: list[int]
    counts: list[int]
    names: list[str] | None


class TextTables(BlockFiles[Records]):
    """What both formats have in common. `types`: Arrow types that are declared; others come from the first block that
    any file shows."""

    quoted: bool  # whether a record may hold line ends in quotes

    def __init__(self, op: str, columns: list[str] | None, types: dict[str, Any]):
        super().__init__(op)
        self._columns, self._declared = columns, types
        self._schema: Any = None

    @abstractmethod
    def parse(self, data: Any, index: Records, schema: Any) -> Any:
        """The records in `data` as a table: of the fields of `schema`, or, where that is None, of types that are
        inferred."""

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
            return self.parse(data, index, schema).select(schema.names).combine_chunks()
        except (pyarrow.ArrowException, KeyError) as error:
            raise self._located(path, index, block, data, schema, error) from None

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
        ends = _record_ends(np.frombuffer(data, np.uint8), self.quoted)
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

    def _fails(self, data: bytes, index: Records, schema: Any) -> Exception | None:
        import pyarrow

        try:
            self.parse(data, index, schema)
        except (pyarrow.ArrowException, KeyError) as error:
            return error
        return None


class CsvFiles(TextTables):
    """Delimited text with a line of names at the beginning of each file."""

    quoted = True

    def __init__(self, op: str, columns: list[str] | None, types: dict[str, Any], delimiter: str):
        super().__init__(op, columns, types)
        self._delimiter = delimiter

    def make_index(self, path: str) -> Records:
        with open(path, "rb") as file:
            head = file.read(_CHUNK_BYTES)
        ends = _record_ends(np.frombuffer(head, np.uint8), quoted=True)
        if not len(head):
            raise self.fault(path, "it is empty, without a line of column names.")
        begin = int(ends[0])
        names = next(csv.reader([head[:begin].decode("utf-8-sig")], delimiter=self._delimiter))
        return Records(*_blocks(path, begin, quoted=True), names)

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

    quoted = False

    def make_index(self, path: str) -> Records:
        return Records(*_blocks(path, 0, quoted=False), None)

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


def _record_ends(data: Any, quoted: bool, inside: bool = False) -> Any:
    """The offsets after each record, of which the last may lack its line end. `inside`: whether `data` begins between
    quotes."""
    ends = _line_ends(data, quoted, inside)[0]
    if len(data) and (not len(ends) or ends[-1] != len(data)):
        ends = np.append(ends, len(data))
    return ends


def _line_ends(data: Any, quoted: bool, inside: bool) -> tuple[Any, bool]:
    """The offsets after each line end that ends a record, and whether `data` ends between quotes."""
    lines = np.flatnonzero(data == _NEWLINE)
    if quoted:
        quotes = np.flatnonzero(data == _QUOTE)
        if len(quotes) or inside:
            lines = lines[(np.searchsorted(quotes, lines) + inside) % 2 == 0]
            inside = bool((len(quotes) + inside) % 2)
    return lines + 1, inside


def _blocks(path: str, begin: int, quoted: bool) -> tuple[list[int], list[int]]:
    """The bounds of blocks of about BLOCK_BYTES bytes from `begin` on, and the number of records in each; empty lines
    are none."""
    bounds, counts = [begin], []
    rows, previous, inside = 0, begin, False  # of the open block; where the last record ended
    last_byte = 0  # of the chunk before
    with open(path, "rb") as file:
        file.seek(begin)
        offset = begin
        while chunk := file.read(_CHUNK_BYTES):
            data = np.frombuffer(chunk, np.uint8)
            ends, inside = _line_ends(data, quoted, inside)
            ends = ends + offset
            starts = np.concatenate([[previous], ends[:-1]]) if len(ends) else ends
            lengths = ends - starts
            blank = lengths == 1
            short = np.flatnonzero(lengths == 2)
            before = ends[short] - offset - 2
            blank[short] = np.where(before < 0, last_byte, data[np.maximum(before, 0)]) == _RETURN
            last_byte = int(data[-1])
            records = np.cumsum(~blank)
            done = 0  # of `records`
            while len(ends):
                last = int(np.searchsorted(ends, bounds[-1] + BLOCK_BYTES))
                if last >= len(ends):
                    break
                counts.append(rows + int(records[last]) - done)
                bounds.append(int(ends[last]))
                rows, done = 0, int(records[last])
            if len(ends):
                rows += int(records[-1]) - done
                previous = int(ends[-1])
            offset += len(chunk)
    if previous < offset:  # a last record without a line end
        rows += 1
    if bounds[-1] < offset:
        counts.append(rows)
        bounds.append(offset)
    return bounds, counts
