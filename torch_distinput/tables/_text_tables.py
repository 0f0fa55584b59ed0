# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Text tables block by block: a pass finds blocks of whole records, and pyarrow parses them."""

import contextlib
import time
from typing import Any

from torch_distinput import _C
from torch_distinput.tables import _stored_index
from torch_distinput.tables._table_file import KeptReads, Stamp, TableFile
from torch_distinput.tables._text_blocks import Records, TextBlocks, read_of
from torch_distinput.tables._text_in_order import BlocksInOrder
from torch_distinput.tables._text_records import BlockSearch, Source, find_blocks, too_long

BLOCK_BYTES = 1 << 20
# How many times a host looks whether another one has stored an index before it makes it.
_LOOKS = 4


class TextTables(TextBlocks):
    """Text tables with an index of each file, or read in order. `stores`: whether indexes are stored beside the
    files."""

    stored: _stored_index.Format  # what is stored of `format`

    def __init__(self, op: str, columns: list[str] | None, types: dict[str, Any], stores: bool):
        super().__init__(op, columns, types)
        self._stores = stores

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

    def open(self, file: bytes) -> BlocksInOrder:
        """The blocks of a file in order, found as they are read."""
        return BlocksInOrder(self, TableFile(self._op, file), BLOCK_BYTES)

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
                    self._schema = self.inferred(source, head)
            return self._schema

    def read_rows(self, file: bytes, block: int, begin: int, end: int) -> Any:
        """Rows [begin, end) of a block as an Arrow table of one chunk. A bad row does not make the others of its block
        fail."""
        with self.errors(file):
            index, opened = self._current(file)
            return self.part_of_block(opened, index, block, begin, end)

    def ranges(self, index: Records, block: int) -> list[tuple[int, int]]:
        begin, end = read_of(index, block)
        return [] if too_long(end - begin) else [(begin, end - begin)]
