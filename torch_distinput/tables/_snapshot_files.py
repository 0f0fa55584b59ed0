# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The rows of a snapshot of a table: those of its Parquet files, without the deleted ones, as the table types them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from torch_distinput.tables._parquet import Footer, ParquetFiles
from torch_distinput.tables._snapshot import Column, DataFile, Snapshot
from torch_distinput.tables._table_file import Stamp, TableFile

# The key under which pyarrow has the number that a Parquet file gives to a column.
_NUMBER = b"PARQUET:field_id"


class SnapshotFiles(ParquetFiles):
    """Reads row groups, as `ParquetFiles` does. `files`: those of the snapshot, by the names that they are read by."""

    def __init__(self, op: str, snapshot: Snapshot, files: Mapping[bytes, DataFile]):
        import pyarrow

        super().__init__(op, None, None, 1)
        self._columns_of_table, self._files = snapshot.columns, files
        self._schema = pyarrow.schema([column.field for column in snapshot.columns]).remove_metadata()

    def make_index(self, file: TableFile, stamp: Stamp) -> Footer:
        footer = super().make_index(file, stamp)
        deleted = self._files[file.name].deleted
        ends = list(itertools.accumulate(footer.counts))
        rows = ends[-1] if ends else 0
        if len(deleted) and not 0 <= deleted[0] <= deleted[-1] < rows:
            raise self.fault(
                file, f"the table says that row {deleted[-1]} of it is deleted, but it has {rows} rows; is it damaged?"
            )
        gone = np.diff(np.searchsorted(deleted, [0, *ends])).tolist()
        return replace(footer, counts=[count - lost for count, lost in zip(footer.counts, gone, strict=True)])

    def schema_of(self, file: TableFile, index: Footer) -> Any:
        return self._schema

    def read_block(self, file: TableFile, index: Footer, block: int) -> Any:
        import pyarrow

        groups, metadata = index.groups[block], index.metadata
        sizes = [metadata.row_group(group).num_rows for group in range(groups[-1] + 1)]
        begin, end = sum(sizes[: groups[0]]), sum(sizes)
        table = self._read(file, index, groups)
        first, last = np.searchsorted(self._files[file.name].deleted, [begin, end])
        rows = end - begin
        if first < last:
            rows -= int(last - first)
            kept = np.delete(np.arange(end - begin), self._files[file.name].deleted[first:last] - begin)
            table = table.take(kept)
        columns = [self._column(file, column, table, rows) for column in self._columns_of_table]
        return pyarrow.Table.from_arrays(columns, schema=self._schema).combine_chunks()

    def _chosen(self, file: TableFile, schema: Any) -> Any:
        import pyarrow

        found = [_stored(column, schema) for column in self._columns_of_table]
        return pyarrow.schema([field for field in found if field is not None])

    def _column(self, file: TableFile, column: Column, table: Any, rows: int) -> Any:
        """The column in the rows of `table`, as the table types it."""
        import pyarrow

        name, type_ = column.field.name, column.field.type
        stored = _stored(column, table.schema)
        if stored is None:
            value = self._files[file.name].constants.get(name, column.missing)
            return pyarrow.repeat(pyarrow.scalar(value, type_), rows)
        if not _converts(stored.type, type_):
            raise self.fault(
                file, f"column {name!r} is stored as {stored.type}, but it is now {type_}; rewrite the file."
            )
        if stored.type == type_:
            return table.column(stored.name)
        try:
            return table.column(stored.name).cast(type_)
        except pyarrow.ArrowException as error:
            raise self.fault(file, f"column {name!r} is stored as {stored.type}, not {type_}: {error}") from None


def number_of(field: Any) -> int | None:
    """The number that a Parquet file gives to a column, or to a part of one."""
    text = (field.metadata or {}).get(_NUMBER)
    return None if text is None else int(text)


def _stored(column: Column, schema: Any) -> Any:
    """The field of a file that has a column; None where the file lacks it."""
    numbers = {number: field for field in schema if (number := number_of(field)) is not None}
    if column.number is not None and numbers:
        return numbers.get(column.number)
    return next((schema.field(name) for name in column.stored if name in schema.names), None)


def _converts(stored: Any, wanted: Any) -> bool:
    """Whether a cast makes values of one type those of another: it would read texts as numbers, and it finds the parts
    of structs by name, also those that have got another number since, or that it lacks."""
    from pyarrow import types

    if types.is_dictionary(stored):
        return _converts(stored.value_type, wanted)
    if types.is_struct(stored) and types.is_struct(wanted):
        return stored.num_fields == wanted.num_fields and all(map(_is_same_part, stored, wanted))
    if _is_list(stored) and _is_list(wanted):
        return _is_same_part(stored.value_field.with_name(""), wanted.value_field.with_name(""))
    return _kind(stored) == _kind(wanted)


def _is_same_part(stored: Any, wanted: Any) -> bool:
    numbers = {number_of(stored), number_of(wanted)} - {None}
    return len(numbers) < 2 and stored.name == wanted.name and _converts(stored.type, wanted.type)


def _is_list(type_: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_))


def _kind(type_: Any) -> str:
    """Types of one kind can be cast to one another, where the values allow it."""
    from pyarrow import types

    for is_kind in (types.is_integer, types.is_floating, types.is_decimal):
        if is_kind(type_):
            return "number"
    if types.is_temporal(type_):
        return "time"
    name = str(type_).removeprefix("large_").removesuffix("_view")
    return "binary" if types.is_fixed_size_binary(type_) else name
