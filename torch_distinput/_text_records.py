# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Where the records of a text file end, found without parsing them: lines, or lines whose quotes are closed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

_CHUNK_BYTES = 1 << 24
# Records are read whole. A longer one is a quote that nothing closes.
_MOST_RECORD_BYTES = 1 << 28
_TAB, _NEWLINE, _RETURN, _SPACE, _QUOTE = 9, 10, 13, 32, 34


class Lines:
    """Records that end where lines do. Lines of white space are none."""

    def ends(self, data: Any) -> Any:
        """The offsets after each record of `data`, which begins with one; an unfinished last record has none."""
        return np.flatnonzero(data == _NEWLINE) + 1

    def blank(self, data: Any, starts: Any, ends: Any) -> Any:
        """Which of the lines [starts[i], ends[i]) are no records."""
        blank = data[starts] == _NEWLINE
        begins_white = np.isin(data[starts], (_TAB, _RETURN, _SPACE))
        for line in np.flatnonzero(begins_white).tolist():
            blank[line] = not data[starts[line] : ends[line]].tobytes().strip(b" \t\r\n")
        return blank


class DelimitedLines:
    """Records of delimited text, as pyarrow parses them: a quote at the begin of a field opens it, line ends are those
    outside quotes. Empty lines are none."""

    def __init__(self, delimiter: str):
        self._delimiter = delimiter.encode()
        self._begins_field = np.zeros(256, bool)  # by the byte before; a quote: another one of the field was closed
        self._begins_field[list(self._delimiter[-1:] + b'\n\r"')] = True
        by = re.escape(self._delimiter)
        # A field: what is quoted and what follows it, up to a delimiter, a line end, or the end of the data.
        self._field = re.compile(rb'(?:"(?:[^"]+|"")*(?:"|\Z))?[^%b\r\n]*(%b|\r\n|\r|\n|\Z)' % (by, by))

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

    def _is_irregular(self, data: Any, quotes: Any, returns: Any) -> bool:
        """Whether a quote is inside of a field that has not begun with one, or a line ends with "\\r" alone: then
        quotes that come before a line end cannot just be counted."""
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
            last = found.group(1)
            if last in (b"\n", b"\r\n") or (last == b"\r" and place < len(text)):
                ends.append(place)
            elif last == b"\r":
                break  # "\n" may follow
        return np.array(ends, np.int64)


Format = Lines | DelimitedLines


def all_ends(data: Any, format_: Format) -> Any:
    """The offsets after each record, of which the last may lack its line end."""
    ends = format_.ends(data)
    if len(data) and (not len(ends) or ends[-1] != len(data)):
        ends = np.append(ends, len(data))
    return ends


def first_end(path: str, format_: Format) -> int:
    """The offset after the first record of a file, 0 where it has none."""
    with open(path, "rb") as file:
        data = np.frombuffer(file.read(_CHUNK_BYTES), np.uint8)
    ends = all_ends(data, format_)
    if not len(ends):
        return 0
    records = np.flatnonzero(~format_.blank(data, np.concatenate([[0], ends[:-1]]), ends))
    return int(ends[records[0]]) if len(records) else 0


def find_blocks(path: str, begin: int, block_bytes: int, format_: Format) -> tuple[list[int], list[int]]:
    """The bounds of blocks of about `block_bytes` bytes from `begin` on, and the number of records in each. Raises
    ValueError for a record that is too long."""
    bounds, counts = [begin], []
    rows, offset, rest = 0, begin, b""  # records of the open block; where `rest`, the begin of a record, lies
    with open(path, "rb") as file:
        file.seek(begin)
        while True:
            chunk = file.read(_CHUNK_BYTES)
            data = np.frombuffer(rest + chunk, np.uint8)
            ends = format_.ends(data) if chunk else all_ends(data, format_)
            if not len(ends) and len(data) > _MOST_RECORD_BYTES:
                raise ValueError(
                    f"the record that begins at byte {offset} has more than {_MOST_RECORD_BYTES} bytes; is a quote not "
                    "closed?"
                )
            if len(ends):
                starts = np.concatenate([[0], ends[:-1]])
                records = np.cumsum(~format_.blank(data, starts, ends))
                done = 0  # of `records`
                while (last := int(np.searchsorted(ends, bounds[-1] + block_bytes - offset))) < len(ends):
                    counts.append(rows + int(records[last]) - done)
                    bounds.append(offset + int(ends[last]))
                    rows, done = 0, int(records[last])
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
