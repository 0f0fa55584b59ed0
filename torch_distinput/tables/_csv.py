# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""CSV: delimited text."""

import csv
import io
from typing import Any

from torch_distinput.tables import _stored_index
from torch_distinput.tables._text_blocks import Records
from torch_distinput.tables._text_records import DelimitedLines, Source, after_mark, first_end
from torch_distinput.tables._text_tables import BLOCK_BYTES, TextTables


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
