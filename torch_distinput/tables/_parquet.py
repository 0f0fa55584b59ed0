# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Parquet files, block by block: a block is a row group, or several small ones."""

import os
from dataclasses import dataclass, replace
from typing import Any

from torch_distinput.tables._block_files import BlockFiles
from torch_distinput.tables._stored_index import Report, Stamp, share

_MAGIC = b"PAR1"
# The bytes read at the end of a file; most footers are shorter.
_FOOTER_GUESS = 64 << 10


@dataclass(frozen=True)
class Footer:
    """The metadata of a Parquet file, its row groups by block, and the columns that the condition on rows reads."""

    metadata: Any
    schema: Any
    groups: list[list[int]]
    counts: list[int]
    condition: list[str]


class ParquetFiles(BlockFiles[Footer]):
    """Reads row groups with pyarrow, whose native code runs without the GIL."""

    def __init__(self, op: str, columns: list[str] | None, filters: Any, least_rows: int):
        super().__init__(op)
        self._columns, self._filters, self._least_rows = columns, filters, least_rows

    def make_index(self, path: str, stamp: Stamp) -> Footer:
        import pyarrow.parquet as parquet

        with parquet.ParquetFile(self._footer(path, stamp)) as file:
            metadata, whole = file.metadata, file.schema_arrow
        schema = self._chosen(path, whole)
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        groups = _together(sizes, self._least_rows)
        known = Footer(metadata, schema, groups, [sum(sizes[group] for group in block) for block in groups], [])
        if self._filters is None:
            return known
        known = replace(known, condition=self._condition_columns(whole))
        counts = [self._filtered(path, known, block, known.condition).num_rows for block in groups]
        return replace(known, counts=counts)

    def _footer(self, path: str, stamp: Stamp) -> Any:
        """A file with the metadata of that at `path`, which one process on the host reads; the path itself where its
        end is not that of a Parquet file, for which pyarrow has the message."""
        import pyarrow

        found: list[bytes] = []

        def accept(content: bytes) -> bool:
            found.append(content)
            return _is_footer(content)

        def make(report: Report) -> bytes:
            found.append(_read_footer(path))
            return found[-1]

        share(path, "parquet footer 1", stamp.size, stamp.size + len(_MAGIC), accept, make)
        return pyarrow.BufferReader(found[-1]) if _is_footer(found[-1]) else path

    def rows(self, index: Footer) -> list[int]:
        return index.counts

    def schema_of(self, path: str, index: Footer) -> Any:
        return index.schema

    def read_block(self, path: str, index: Footer, block: int) -> Any:
        groups, names = index.groups[block], index.schema.names
        if self._filters is None:
            table = self._read(path, index, groups, names)
        else:
            table = self._filtered(path, index, groups, list(dict.fromkeys([*names, *index.condition])))
        return table.select(names).combine_chunks()

    def _read(self, path: str, index: Footer, groups: list[int], names: list[str]) -> Any:
        import pyarrow.parquet as parquet

        with parquet.ParquetFile(path, metadata=index.metadata, page_checksum_verification=True) as file:
            table = file.read_row_groups(groups, columns=names, use_threads=False)
        table.validate()  # the file may describe its columns wrongly
        return table

    def _filtered(self, path: str, index: Footer, groups: list[int], names: list[str]) -> Any:
        """The rows that pass, in the order of the file. A scan of pyarrow.dataset would change their order, and abort
        the process or wait forever if the statistics of a column are damaged."""
        return _passing(self._read(path, index, groups, names), self._filters)

    def _condition_columns(self, schema: Any) -> list[str]:
        """The columns that the condition reads: evaluating it without one of them fails."""
        import pyarrow

        empty = schema.empty_table()
        _passing(empty, self._filters)
        needed = []
        for name in empty.column_names:
            try:
                _passing(empty.drop_columns([name]), self._filters)
            except (pyarrow.ArrowException, KeyError):
                needed.append(name)
        return needed

    def _chosen(self, path: str, schema: Any) -> Any:
        import pyarrow

        if self._columns is None:
            return schema
        missing = [name for name in self._columns if name not in schema.names]
        if missing:
            raise self.fault(path, f"there is no column {missing[0]!r}; the columns are {schema.names}.")
        return pyarrow.schema([schema.field(name) for name in self._columns])


def _read_footer(path: str) -> bytes:
    """What opens as a Parquet file with the metadata of `path` and without its rows; other bytes where the file ends as
    no Parquet file does."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _FOOTER_GUESS))
        end = file.read(_FOOTER_GUESS)
        needed = int.from_bytes(end[-8:-4], "little") + 8
        if len(end) < needed <= size:
            file.seek(size - needed)
            end = file.read(needed)
    return _MAGIC + end[-needed:]


def _is_footer(content: bytes) -> bool:
    """Whether these bytes are as `_read_footer` returns them for a Parquet file. pyarrow checks their metadata."""
    return (
        content[:4] == content[-4:] == _MAGIC
        and len(content) == int.from_bytes(content[-8:-4], "little") + 8 + len(_MAGIC)
        and len(content) > 12
    )


def _passing(table: Any, condition: Any) -> Any:
    from pyarrow import acero

    rows = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
    passing = acero.Declaration("filter", acero.FilterNodeOptions(condition), [rows])
    return passing.to_table(use_threads=False)


def _together(sizes: list[int], least: int) -> list[list[int]]:
    """Consecutive row groups, put together until they have `least` rows."""
    blocks: list[list[int]] = []
    count = 0
    for group, size in enumerate(sizes):
        if blocks and count < least:
            blocks[-1].append(group)
            count += size
        else:
            blocks.append([group])
            count = size
    return blocks
