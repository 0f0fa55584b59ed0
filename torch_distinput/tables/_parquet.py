# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Parquet files, block by block: a block is a row group, or several small ones."""

from dataclasses import dataclass, replace
from typing import Any

from torch_distinput.tables._block_files import BlockFiles, in_order
from torch_distinput.tables._stored_index import Report, share
from torch_distinput.tables._table_file import Stamp, TableFile

_MAGIC = b"PAR1"
# The bytes read at the end of a file; most footers are shorter.
_FOOTER_GUESS = 64 << 10
# Bytes between parts that pyarrow reads together: the default hole_size_limit of its CacheOptions.
_NEAR = 8192


@dataclass(frozen=True)
class Footer:
    """The metadata of a Parquet file, the schema of its rows, its row groups and rows by block, and the columns that
    blocks are made of, with those of the condition on rows. `leaves`: the numbers of the parts that these columns are
    stored as."""

    metadata: Any
    schema: Any
    groups: list[list[int]]
    counts: list[int]
    columns: list[str]
    leaves: list[int]


class ParquetFiles(BlockFiles[Footer]):
    """Reads row groups with pyarrow, whose native code runs without the GIL."""

    def __init__(self, op: str, columns: list[str] | None, filters: Any, least_rows: int):
        super().__init__(op)
        self._columns, self._filters, self._least_rows = columns, filters, least_rows
        if filters is None:
            self.threads_of_stores = 32  # a footer is short: what it takes is latency

    def make_index(self, file: TableFile, stamp: Stamp) -> Footer:
        import pyarrow.parquet as parquet

        with parquet.ParquetFile(self._footer(file, stamp)) as footer:
            metadata, whole = footer.metadata, footer.schema_arrow
        schema = self._chosen(file, whole)
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        groups = _together(sizes, self._least_rows)
        counts = [sum(sizes[group] for group in block) for block in groups]
        known = Footer(metadata, schema, groups, counts, schema.names, _leaves(metadata, schema.names))
        if self._filters is None:
            return known
        condition = self._condition_columns(whole)
        of_condition = replace(known, columns=condition, leaves=_leaves(metadata, condition))
        parts = [_chunks(metadata, block, of_condition.leaves) for block in groups]
        counts = [self._filtered(file, of_condition, groups[block]).num_rows for block in in_order(file, parts)]
        columns = list(dict.fromkeys([*schema.names, *condition]))
        return replace(known, counts=counts, columns=columns, leaves=_leaves(metadata, columns))

    def _footer(self, file: TableFile, stamp: Stamp) -> Any:
        """A file with the metadata of `file`, which one process on the host reads; `file` itself where its end is not
        that of a Parquet file, for which pyarrow has the message."""
        import pyarrow

        found: list[bytes] = []

        def accept(content: bytes) -> bool:
            found.append(content)
            return _is_footer(content)

        def make(report: Report) -> bytes:
            found.append(_read_footer(file, stamp.size))
            return found[-1]

        share(file.name, "parquet footer 1", stamp.size, stamp.size + len(_MAGIC), accept, make)
        return pyarrow.BufferReader(found[-1]) if _is_footer(found[-1]) else file.for_pyarrow()

    def rows(self, index: Footer) -> list[int]:
        return index.counts

    def schema_of(self, file: TableFile, index: Footer) -> Any:
        return index.schema

    def ranges(self, index: Footer, block: int) -> list[tuple[int, int]]:
        return _chunks(index.metadata, index.groups[block], index.leaves)

    def read_block(self, file: TableFile, index: Footer, block: int) -> Any:
        read = self._read if self._filters is None else self._filtered
        table = read(file, index, index.groups[block])
        return table.select(index.schema.names).combine_chunks()

    def _read(self, file: TableFile, index: Footer, groups: list[int]) -> Any:
        import pyarrow.parquet as parquet

        source = file.for_pyarrow(_chunks(index.metadata, groups, index.leaves))
        with parquet.ParquetFile(source, metadata=index.metadata, page_checksum_verification=True) as opened:
            table = opened.read_row_groups(groups, columns=index.columns, use_threads=False)
        table.validate()  # the file may describe its columns wrongly
        return table

    def _filtered(self, file: TableFile, index: Footer, groups: list[int]) -> Any:
        """The rows that pass, in the order of the file. A scan of pyarrow.dataset would change their order, and abort
        the process or wait forever if the statistics of a column are damaged."""
        return _passing(self._read(file, index, groups), self._filters)

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

    def _chosen(self, file: TableFile, schema: Any) -> Any:
        import pyarrow

        if self._columns is None:
            return schema
        missing = [name for name in self._columns if name not in schema.names]
        if missing:
            raise self.fault(file, f"there is no column {missing[0]!r}; the columns are {schema.names}.")
        return pyarrow.schema([schema.field(name) for name in self._columns])


def _read_footer(file: TableFile, size: int) -> bytes:
    """What opens as a Parquet file with the metadata of `file` and without its rows; other bytes where the file ends as
    no Parquet file does."""
    begin = max(0, size - _FOOTER_GUESS)
    end = file.read_at(begin, size - begin)
    needed = int.from_bytes(end[-8:-4], "little") + 8
    if len(end) < needed <= size:
        end = file.read_at(size - needed, needed - len(end)) + end
    return _MAGIC + end[-needed:]


def _leaves(metadata: Any, names: list[str]) -> list[int]:
    """The numbers of the parts that the columns `names` are stored as; a nested column has several."""
    paths = [metadata.schema.column(leaf).path for leaf in range(metadata.num_columns)]
    wanted = tuple(f"{name}." for name in names)
    return [leaf for leaf, path in enumerate(paths) if f"{path}.".startswith(wanted)]


def _chunks(metadata: Any, groups: list[int], leaves: list[int]) -> list[tuple[int, int]]:
    """Where these parts of row groups lie, as the file says: offset and size of each that pyarrow reads at once."""
    parts = []
    for group in map(metadata.row_group, groups):
        for chunk in (group.column(leaf) for leaf in leaves if leaf < group.num_columns):
            begin = chunk.data_page_offset
            if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < begin:
                begin = chunk.dictionary_page_offset
            if begin >= 0 and 0 <= chunk.total_compressed_size < 1 << 62:
                parts.append((begin, chunk.total_compressed_size))
    return _joined(parts)


def _joined(parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """These ranges (offset and size) by offset, those that are near to each other as one with what lies between."""
    joined: list[tuple[int, int]] = []
    for begin, size in sorted(parts):
        first, length = joined[-1] if joined else (begin, 0)
        if joined and begin - (first + length) <= _NEAR:
            joined[-1] = first, max(length, begin + size - first)
        else:
            joined.append((begin, size))
    return joined


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
