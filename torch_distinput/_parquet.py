# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Parquet files, block by block: a block is a row group, or several small ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch_distinput._block_files import BlockFiles
from torch_distinput._stored_index import Stamp


@dataclass(frozen=True)
class Footer:
    """What a Parquet file says of itself, and its row groups by block."""

    metadata: Any
    schema: Any
    groups: list[list[int]]
    counts: list[int]


class ParquetFiles(BlockFiles[Footer]):
    """Reads row groups with pyarrow, whose native code runs without the GIL."""

    def __init__(self, op: str, columns: list[str] | None, filters: Any, least_rows: int):
        super().__init__(op)
        self._columns, self._filters, self._least_rows = columns, filters, least_rows

    def make_index(self, path: str, stamp: Stamp) -> Footer:
        import pyarrow.parquet as parquet

        with parquet.ParquetFile(path) as file:
            metadata, schema = file.metadata, self._chosen(path, file.schema_arrow)
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        groups = _together(sizes, self._least_rows)
        if self._filters is None:
            counts = [sum(sizes[group] for group in block) for block in groups]
        else:
            counts = [self._fragment(path, block).count_rows(filter=self._filters) for block in groups]
        return Footer(metadata, schema, groups, counts)

    def rows(self, index: Footer) -> list[int]:
        return index.counts

    def schema_of(self, path: str, index: Footer) -> Any:
        return index.schema

    def read_block(self, path: str, index: Footer, block: int) -> Any:
        import pyarrow
        import pyarrow.parquet as parquet

        groups, names = index.groups[block], index.schema.names
        if self._filters is not None:
            # One scan of several row groups yields them in any order.
            parts = [
                self._fragment(path, [group]).to_table(columns=names, filter=self._filters, use_threads=False)
                for group in groups
            ]
            table = pyarrow.concat_tables(parts)
        else:
            with parquet.ParquetFile(path, metadata=index.metadata, page_checksum_verification=True) as file:
                table = file.read_row_groups(groups, columns=names, use_threads=False).select(names)
        table.validate()  # a file may say anything of its columns
        return table.combine_chunks()

    def _fragment(self, path: str, groups: list[int]) -> Any:
        import pyarrow.dataset as dataset
        from pyarrow import fs

        scan = dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
        kind = dataset.ParquetFileFormat(default_fragment_scan_options=scan)
        return kind.make_fragment(path, filesystem=fs.LocalFileSystem(), row_groups=groups)

    def _chosen(self, path: str, schema: Any) -> Any:
        import pyarrow

        if self._columns is None:
            return schema
        missing = [name for name in self._columns if name not in schema.names]
        if missing:
            raise self.fault(path, f"there is no column {missing[0]!r}; the columns are {schema.names}.")
        return pyarrow.schema([schema.field(name) for name in self._columns])


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
