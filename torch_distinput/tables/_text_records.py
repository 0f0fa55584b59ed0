# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Where the records of a text file end, found without parsing them: lines, or lines whose quotes are closed."""

import re
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from torch_distinput.tables._table_file import KeptReads, TableFile

_CHUNK_BYTES = 1 << 24
# Bytes in which the line of column names usually ends.
_HEAD_BYTES = 1 << 16
# Records are read whole. A longer one has a quote that is never closed.
_MOST_RECORD_BYTES = 1 << 28
_MOST_HEAD_BYTES = 1 << 24
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_TAB, _NEWLINE, _RETURN, _SPACE, _QUOTE = 9, 10, 13, 32, 34


class Lines:
    """Records that end with their line. Lines of white space are skipped."""

    def ends(self, data: Any) -> Any:
        """The offset after each record of `data`, which begins with a record; an unfinished last record has no
        offset."""
        return np.flatnonzero(data == _NEWLINE) + 1

    def blank(self, data: Any, starts: Any, ends: Any) -> Any:
        """Which of the lines [starts[i], ends[i]) are skipped."""
        blank = data[starts] == _NEWLINE
        begins_white = np.isin(data[starts], (_TAB, _RETURN, _SPACE))
        for line in np.flatnonzero(begins_white).tolist():
            blank[line] = not data[starts[line] : ends[line]].tobytes().strip(b" \t\r\n")
        return blank

    def is_open(self, data: bytes) -> bool:
        """Whether `data` ends inside a quote."""
        return False

    def seems_open(self, data: bytes) -> bool:
        """As `is_open`, in less time; False if that cannot be decided."""
        return False


class DelimitedLines:
    """Records of delimited text, as pyarrow parses them: a quote at the start of a field opens a quoted field; line
    ends inside quotes do not end a record. Empty lines are skipped."""

    def __init__(self, delimiter: str):
        self._delimiter = delimiter.encode()
        self._begins_field = np.zeros(256, bool)  # by the byte before; after a closing quote, a quote opens again
        self._begins_field[list(self._delimiter[-1:] + b'\n\r"')] = True
        by = re.escape(self._delimiter)
        # A field: what is quoted and what follows it, up to a delimiter, a line end, or the end of the data.
        self._field = re.compile(rb'(?:"(?:[^"]+|"")*("|\Z))?[^%b\r\n]*(%b|\r\n|\r|\n|\Z)' % (by, by))

    def ends(self, data: Any) -> Any:
        """As `Lines.ends`."""
        lines = np.flatnonzero(data == _NEWLINE)
        returns = np.flatnonzero(data == _RETURN)
        quotes = np.flatnonzero(data == _QUOTE)
        if len(quotes) == 0 and len(returns) == 0:
            return lines + 1
        if self._is_irregular(data, quotes, returns):
            return self._ends_one_by_one(data)
        return lines[np.searchsorted(quotes, lines) % 2 == 0] + 1

    def blank(self, data: Any, starts: Any, ends: Any) -> Any:
        """As `Lines.blank`."""
        return np.isin(data[starts], (_NEWLINE, _RETURN))

    def is_open(self, data: bytes) -> bool:
        """As `Lines.is_open`."""
        if not self._seems_irregular(data):
            return _has_odd_quotes(data)
        found, place = None, 0
        while place < len(data):
            found = self._field.match(data, place)
            assert found is not None, "the pattern matches anywhere"
            place = found.end()
        return found is not None and found.group(1) == b""

    def seems_open(self, data: bytes) -> bool:
        """As `Lines.seems_open`."""
        return _has_odd_quotes(data) and not self._seems_irregular(data)

    def _seems_irregular(self, data: bytes) -> bool:
        view = np.frombuffer(data, np.uint8)
        return self._is_irregular(view, np.flatnonzero(view == _QUOTE), np.flatnonzero(view == _RETURN))

    def _is_irregular(self, data: Any, quotes: Any, returns: Any) -> bool:
        """Whether a quote stands inside a field that does not begin with one, or a line ends with "\\r" alone: counting
        the quotes before a line end is then not enough."""
        opening = quotes[::2]
        if not self._begins_field[data[opening[opening > 0] - 1]].all():
            return True
        following = np.append(data[1:], _NEWLINE)[returns]
        lone = returns[following != _NEWLINE]
        return bool((np.searchsorted(quotes, lone) % 2 == 0).any())

    def _ends_one_by_one(self, data: Any) -> Any:
        text = data.tobytes()
        ends, place = [], 0
        while place < len(text):
            found = self._field.match(text, place)
            assert found is not None, "the pattern matches anywhere"
            place = found.end()
            last = found.group(2)
            if last in (b"\n", b"\r\n") or (last == b"\r" and place < len(text)):
                ends.append(place)
            elif last == b"\r":
                break  # "\n" may follow
        return np.array(ends, np.int64)


Format = Lines | DelimitedLines
Source = TableFile | KeptReads


def _has_odd_quotes(data: bytes) -> bool:
    return bool(np.count_nonzero(np.frombuffer(data, np.uint8) == _QUOTE) % 2)


def all_ends(data: Any, format_: Format) -> Any:
    """The offset after each record; the last record may lack its line end."""
    ends = format_.ends(data)
    if len(data) and (not len(ends) or ends[-1] != len(data)):
        ends = np.append(ends, len(data))
    return ends


def too_long(size: int) -> int:
    """The most bytes that a record may have if `size` is more than that, else 0."""
    return _MOST_RECORD_BYTES if size > _MOST_RECORD_BYTES else 0


def after_mark(file: Source) -> int:
    """The offset after the byte order mark of a file, 0 where it has none."""
    return 3 if file.read_at(0, 3) == _BYTE_ORDER_MARK else 0


def first_end(file: Source, begin: int, format_: Format) -> int:
    """The offset after the first record of a file from byte `begin` on, 0 where it has none. Raises ValueError for a
    record that is too long or ends inside of a quote."""
    raw, wanted = b"", _HEAD_BYTES - begin
    while True:
        chunk = file.read_at(begin + len(raw), wanted - len(raw))
        raw += chunk
        data = np.frombuffer(raw, np.uint8)
        ends = format_.ends(data) if chunk else all_ends(data, format_)
        starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
        records = ends[~format_.blank(data, starts, ends)] if len(ends) else ends
        if len(records):
            break
        if not chunk:
            return 0
        if len(raw) >= _MOST_HEAD_BYTES:
            raise ValueError(f"its line of column names has more than {_MOST_HEAD_BYTES} bytes; is a quote open?")
        wanted = min(4 * wanted, _MOST_HEAD_BYTES)
    end = int(records[0])
    if format_.is_open(raw[:end]):
        raise ValueError("its line of column names has a quote that is never closed.")
    return begin + end


def line_at(file: Source, offset: int) -> int:
    """The number, from 1, of the line with byte `offset` of a file."""
    line, place = 1, 0
    while place < offset:
        chunk = file.read_at(place, min(offset - place, _CHUNK_BYTES))
        if not chunk:
            break
        line += chunk.count(b"\n")
        place += len(chunk)
    return line


class BlockSearch:
    """Finds blocks of about `block_bytes` bytes from byte `begin` of a file on, one after the other: block i has the
    bytes [bounds[i], bounds[i + 1]) and `counts[i]` records. A record that is too long gets a block of its own up to
    the end of the file; nothing after its start is searched. `chunk_bytes` are read at once, of `ahead_bytes` that are
    asked for."""

    def __init__(
        self, file: Source, begin: int, block_bytes: int, format_: Format, chunk_bytes: int, ahead_bytes: int
    ) -> None:
        self._file, self._format = file, format_
        self._block_bytes, self._chunk_bytes, self._ahead_bytes = block_bytes, chunk_bytes, ahead_bytes
        self.bounds: list[int] = [begin]
        self.counts: list[int] = []
        self.place = begin  # the end of what was read
        self._found: deque[tuple[int, int]] = deque()  # the ends and counts of the next blocks
        self._bound = begin  # the end of the last one of them
        # The records of the block that is not complete yet, and what follows them, which begins at byte `_offset`.
        self._rows, self._offset, self._rest = 0, begin, b""
        self._is_read = False

    def next(self) -> bool:
        """Goes to the next block; False behind the last one. What raises can be tried again."""
        while not self._found and not self._is_read:
            self._read()
        if not self._found:
            return False
        end, count = self._found.popleft()
        self.bounds.append(end)
        self.counts.append(count)
        return True

    @property
    def is_last(self) -> bool:
        """Whether no block follows the present one. Its last record may lack its end then."""
        return self._is_read and not self._found

    def _read(self) -> None:
        self._file.will_read([(self.place, self._ahead_bytes)])
        chunk = self._file.read_at(self.place, self._chunk_bytes)
        self.place += len(chunk)
        data = np.frombuffer(self._rest + chunk, np.uint8)
        ends = self._format.ends(data) if chunk else all_ends(data, self._format)
        self._is_read = not chunk
        if not len(ends) and too_long(len(data)):
            self._end_block()
            self._rows, self._offset = 1, self._file.size()
            self._is_read = True
        elif len(ends):
            self._cut(data, ends)
        else:
            self._rest = data.tobytes()
        if self._is_read:
            self._end_block()

    def _cut(self, data: Any, ends: Any) -> None:
        """Cuts `data`, whose records end at `ends`, into blocks."""
        starts = np.concatenate([[0], ends[:-1]])
        records = np.cumsum(~self._format.blank(data, starts, ends))
        begin, done = self._offset, 0  # `done` of `records` are in blocks
        while (last := int(np.searchsorted(ends, self._bound + self._block_bytes - begin))) < len(ends):
            self._rows += int(records[last]) - done
            self._offset = begin + int(ends[last])
            self._end_block()
            done = int(records[last])
        self._rows += int(records[-1]) - done
        self._offset = begin + int(ends[-1])
        self._rest = data[int(ends[-1]) :].tobytes()

    def _end_block(self) -> None:
        """A block ends at `_offset`, unless it would be empty."""
        if self._bound < self._offset:
            self._found.append((self._offset, self._rows))
            self._bound, self._rows = self._offset, 0


def find_blocks(
    file: Source, begin: int, block_bytes: int, format_: Format, report: Callable[[int], None] | None = None
) -> tuple[list[int], list[int]]:
    """The bounds and counts of all blocks of a file, as `BlockSearch` has them. `report` is called with the bytes read
    so far."""
    search = BlockSearch(file, begin, block_bytes, format_, _CHUNK_BYTES, 2 * _CHUNK_BYTES)
    while search.next():
        if report is not None:
            report(search.place)
    return search.bounds, search.counts
