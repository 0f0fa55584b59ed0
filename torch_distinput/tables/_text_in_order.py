# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The blocks of a text file in one pass over it."""

from dataclasses import replace
from typing import Any

from torch_distinput.tables._table_file import KeptReads, TableFile
from torch_distinput.tables._text_blocks import Records, TextBlocks
from torch_distinput.tables._text_records import BlockSearch

# What is read at once, and what a store is asked for ahead.
_CHUNK_BLOCKS = 2
_AHEAD_BLOCKS = 16


class BlocksInOrder:
    """The blocks of a text file in order, each byte of which is read once. One thread at a time. Errors are those of
    `BlockFiles`; what raises can be tried again."""

    def __init__(self, tables: TextBlocks, file: TableFile, block_bytes: int):
        with tables.errors(file.name):
            self._tables, self._file, self._size = tables, file, file.stamp().size
            # A block ends in the last chunk, and begins there or in the one before; a chunk lies in two reads.
            self._source = KeptReads(file, recent=3)
            chunk, ahead = _CHUNK_BLOCKS * block_bytes, _AHEAD_BLOCKS * block_bytes
            self._source.will_read([(0, ahead)])
            begin = tables.first_record(self._source)
            names = tables.names_of(self._source, begin)
            self._search = BlockSearch(self._source, begin, block_bytes, tables.format, chunk, ahead)
            self._index = Records(self._search.bounds, self._search.counts, names, is_open=False)

    def next(self) -> int | None:
        """Goes to the next block and returns its rows; None behind the last one."""
        with self._tables.errors(self._file.name):
            found = self._search.next()
            if self._search.is_last:
                self._check_end()
                self._index = replace(self._index, is_open=self._tables.is_open(self._source, self._index))
            return self._index.counts[-1] if found else None

    def read(self) -> Any:
        """The present block as an Arrow table of one chunk."""
        with self._tables.errors(self._file.name):
            return self._tables.read_block(self._source, self._index, self._block)

    def read_rows(self, begin: int, end: int) -> Any:
        """Rows [begin, end) of the present block, as `TextBlocks.part_of_block`."""
        with self._tables.errors(self._file.name):
            return self._tables.part_of_block(self._source, self._index, self._block, begin, end)

    @property
    def _block(self) -> int:
        return len(self._index.counts) - 1

    def _check_end(self) -> None:
        """A file may grow while it is read; what is added is read, or is not."""
        if self._file.stamp().size < self._size:
            raise self._tables.fault(self._file, "it has become shorter while it was read.")
