# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Where the records of a text file end, found without parsing them: lines, or lines whose quotes are closed."""

import re
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


def find_blocks(
    file: Source,
    begin: int,
    block_bytes: int,
    format_: Format,
    report: Callable[[int], None] | None = None,
    *,
    only_first: bool = False,
) -> tuple[list[int], list[int]]:
    """The bounds of blocks of about `block_bytes` bytes from `begin` on, and the number of records in each. A record
    that is too long gets a block of its own up to the end of the file; nothing after its start is searched. `report` is
    called with the bytes read so far. With `only_first`, nothing after the first block is searched."""
    chunk_bytes = 2 * block_bytes if only_first else _CHUNK_BYTES
    bounds, counts = [begin], []
    rows, offset, rest = 0, begin, b""  # records of the open block; the offset of `rest`, the start of a record
    place = begin
    while True:
        file.will_read([(place, chunk_bytes if only_first else 2 * chunk_bytes)])
        chunk = file.read_at(place, chunk_bytes)
        place += len(chunk)
        if report is not None:
            report(place)
        data = np.frombuffer(rest + chunk, np.uint8)
        ends = format_.ends(data) if chunk else all_ends(data, format_)
        if not len(ends) and too_long(len(data)):
            if bounds[-1] < offset:
                counts.append(rows)
                bounds.append(offset)
            counts.append(1)
            bounds.append(file.size())
            return bounds, counts
        if len(ends):
            starts = np.concatenate([[0], ends[:-1]])
            records = np.cumsum(~format_.blank(data, starts, ends))
            done = 0  # of `records`
            while (last := int(np.searchsorted(ends, bounds[-1] + block_bytes - offset))) < len(ends):
                counts.append(rows + int(records[last]) - done)
                bounds.append(offset + int(ends[last]))
                rows, done = 0, int(records[last])
                if only_first:
                    return bounds, counts
            rows += int(records[-1]) - done
            rest = data[int(ends[-1]) :].tobytes()
            offset += int(ends[-1])
        else:
            rest = data.tobytes()
        if not chunk:
            break
    if bounds[-1] < offset:
        counts.append(rows)
        bounds.append(offset)
    return bounds, counts
