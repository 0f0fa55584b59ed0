# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Blocks of records of a text file as Arrow tables, and the errors of bad records."""

import re
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from torch_distinput import _C
from torch_distinput.tables._block_files import BlockFiles
from torch_distinput.tables._text_records import Format, Source, all_ends, line_at, too_long

# How many blocks are searched for the first that shows types, and how many parts of a block with bad records.
_MOST_SHOWN = 16
_MOST_SPANS = 64


@dataclass(frozen=True)
class Records:
    """The blocks of a text file: bytes [bounds[i], bounds[i + 1]) hold counts[i] records. `names`: the names of its
    columns. `is_open`: whether its last record has a quote that is never closed."""

    bounds: list[int]
    counts: list[int]
    names: list[str] | None
    is_open: bool


@dataclass(frozen=True)
class Cut:
    """Records of a block, told apart: record i is `data[slice(*bounds[i])]`. The first is row `first_row` of the file;
    `data` begins at its byte `place`."""

    block: int
    first_row: int
    place: int
    data: bytes
    bounds: list[tuple[int, int]]

    def __len__(self) -> int:
        return len(self.bounds)

    def records(self, begin: int, end: int) -> bytes:
        """Records [begin, end), with blank lines between them."""
        return self.data[self.bounds[begin][0] : self.bounds[end - 1][1]] if begin < end else b""


class TextBlocks(BlockFiles[Records]):
    """What both formats have in common. `types`: the declared Arrow types; others are inferred from the first block
    that shows any."""

    format: Format  # how its records are told apart

    def __init__(self, op: str, columns: list[str] | None, types: dict[str, Any]):
        super().__init__(op)
        self._columns, self._declared = columns, types
        self._schema: Any = None
        self._shown_by: tuple[bytes, int] | None = None  # the block that showed the types
        self._last_cut: tuple[Records, Cut] | None = None

    @abstractmethod
    def parse(self, data: Any, index: Records, schema: Any) -> Any:
        """The records in `data` as a table: of the fields of `schema`, or, where that is None, of types that are
        inferred."""

    @abstractmethod
    def is_broken(self, record: bytes, index: Records) -> bool:
        """Whether a record cannot be parsed, whatever the types of its columns."""

    @abstractmethod
    def first_record(self, file: Source) -> int:
        """The byte at which the records of a file begin."""

    def names_of(self, file: Source, begin: int) -> list[str] | None:
        """The names of the columns that a file tells before its first record, which begins at byte `begin`."""
        return None

    def is_open(self, file: Source, index: Records) -> bool:
        """Whether the last record of `index`, which is the last one of the file, ends inside a quote."""
        if not index.counts or too_long(index.bounds[-1] - index.bounds[-2]):
            return False
        return self.format.is_open(file.read_at(index.bounds[-2], index.bounds[-1] - index.bounds[-2]))

    def schema_of(self, file: Source, index: Records) -> Any:
        if self._schema is None:
            if not index.counts:
                raise self.fault(file, "it has no rows, so that the types of its columns are unknown.")
            self._schema = self.inferred(file, index)
        return self._schema

    def inferred(self, file: Source, index: Records) -> Any:
        """The schema that the first block with good records shows."""
        import pyarrow

        found: Any = None
        failed: Exception | None = None
        for block in range(min(len(index.counts), _MOST_SHOWN)):
            try:
                cut = self._cut(file, index, block)
                found = self._schema_of_good(cut, index)
            except _C.InvalidArgumentError as fault:
                failed = failed or fault
                continue
            if found is not None:
                self._shown_by = (file.name, block)
                break
            declared = pyarrow.schema(self._declared)
            error = self._fails(cut.data, index, None)
            failed = failed or self._located(file, index, cut, declared, error or ValueError("no row can be read"))
        if found is None:
            raise failed or self.fault(file, "it has no rows, so that the types of its columns are unknown.")
        kinds = {field.name: field.type for field in found} | self._declared
        names = list(kinds) if self._columns is None else self._columns
        missing = [name for name in names if name not in kinds]
        if missing:
            raise self.fault(file, f"there is no column {missing[0]!r}; the columns are {found.names}.")
        return pyarrow.schema({name: kinds[name] for name in names})

    def _schema_of_good(self, cut: Cut, index: Records) -> Any:
        """The schema of the records that can be parsed; None if none can. A bad record does not decide the types of the
        others, and its error is raised when it is read. Where types differ, the type of most records holds."""
        passes = _passing(len(cut), lambda begin, end: self._fails(cut.records(begin, end), index, None) is None)
        chosen: list[tuple[int, int]] = []
        for span in sorted(passes, key=lambda span: span[0] - span[1])[:_MOST_SPANS]:
            tried = sorted([*chosen, span])
            if self._fails(b"".join(cut.records(*part) for part in tried), index, None) is None:
                chosen = tried
        return self.parse(b"".join(cut.records(*part) for part in chosen), index, None).schema if chosen else None

    def read_block(self, file: Source, index: Records, block: int) -> Any:
        import pyarrow

        schema = self.schema_of(file, index)
        data = self._bytes(file, index, block)
        if index.is_open and block == len(index.counts) - 1:
            raise self._unclosed(file, self._cut(file, index, block))
        try:
            table = self.parse(data, index, schema).select(schema.names).combine_chunks()
        except (pyarrow.ArrowException, KeyError) as error:
            raise self._located(file, index, self._cut(file, index, block), schema, error) from None
        if table.num_rows != index.counts[block]:
            raise self._miscounted(file, index, block, table.num_rows)
        return table

    def part_of_block(self, file: Source, index: Records, block: int, begin: int, end: int) -> Any:
        """As `read_rows`, of a file that is open."""
        import pyarrow

        schema = self.schema_of(file, index)
        cut = self._cut(file, index, block)
        if len(cut) != index.counts[block]:
            raise self._miscounted(file, index, block, len(cut))
        if index.is_open and cut.first_row + end == sum(index.counts):
            raise self._unclosed(file, cut)
        part = Cut(cut.block, cut.first_row + begin, cut.place, cut.data, cut.bounds[begin:end])
        data = part.records(0, end - begin)
        try:
            table = self.parse(data, index, schema).select(schema.names).combine_chunks()
        except (pyarrow.ArrowException, KeyError) as error:
            if end - begin > 1:
                raise self.fault(file, f"{error}") from None
            raise self._located(file, index, part, schema, error) from None
        if table.num_rows != end - begin:
            others = index.counts[block] - (end - begin)
            raise self._miscounted(file, index, block, others + table.num_rows)
        return table

    def _bytes(self, file: Source, index: Records, block: int) -> bytes:
        begin, end = index.bounds[block], index.bounds[block + 1]
        if index.counts[block] == 1 and (most := too_long(end - begin)):
            raise self.fault(
                file,
                f"the record that begins at byte {begin} has more than {most} bytes (row {sum(index.counts[:block])}, "
                f"line {line_at(file, begin)}); is a quote not closed?",
            )
        first, last = read_of(index, block)
        data = file.read_at(first, last - first)
        if len(data) < last - first:
            raise self.fault(file, "it has become shorter while it was read.")
        ended, data = first == begin or data[:1] in (b"\n", b"\r"), data[begin - first :]
        if last < end:
            data += b"\n"
        if not ended or (block + 1 < len(index.counts) and self.format.seems_open(data)):
            raise self.fault(
                file,
                f"bytes {begin} to {end} are not whole records; is the index stored beside it that of another file?",
            )
        return data

    def _cut(self, file: Source, index: Records, block: int) -> Cut:
        """The records of a block. The block read last is kept, because its rows may be requested one by one."""
        known = self._last_cut
        if known is not None and known[0] is index and known[1].block == block:
            return known[1]
        data = self._bytes(file, index, block)
        view = np.frombuffer(data, np.uint8)
        ends = all_ends(view, self.format)
        starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
        there = ~self.format.blank(view, starts, ends)
        bounds = list(zip(starts[there].tolist(), ends[there].tolist(), strict=True))
        cut = Cut(block, sum(index.counts[:block]), index.bounds[block], data, bounds)
        self._last_cut = (index, cut)
        return cut

    def _located(self, file: Source, index: Records, cut: Cut, schema: Any, error: Exception) -> Exception:
        """The error of records, with the row and the column that caused it."""
        import pyarrow

        low, high = 0, len(cut)  # the first `low` records are good, the first `high` are not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._fails(cut.records(0, middle), index, schema) is None else (low, middle)
        row, record = cut.first_row + low, cut.records(low, low + 1)
        if self.is_broken(record, index):
            return self.fault(file, f"row {row}: {_without_place(self._fails(record, index, schema) or error)}.")
        fails = {field.name: self._fails(record, index, pyarrow.schema([field])) for field in schema}
        bad = [name for name, found in fails.items() if found is not None]
        if not bad or len(bad) == len(fails) > 1:  # it is about the record, not about a column
            return self.fault(file, f"row {row}: {_without_place(error)}.")
        declares = "`types` declares the types of columns."
        if self._shown_by == (file.name, cut.block) and bad[0] not in self._declared and "changed from" in str(error):
            return self.fault(file, f"row {row}: {_without_place(error)}; {declares}")
        return self.fault(file, f"column {bad[0]!r} in row {row}: {_without_place(fails[bad[0]])}; {declares}")

    def _unclosed(self, file: Source, cut: Cut) -> Exception:
        """The error of the last record of a file, which is in `cut`; pyarrow would close its quote at the end."""
        row, line = cut.first_row + len(cut) - 1, line_at(file, cut.place + cut.bounds[-1][0])
        return self.fault(file, f"row {row}: the record that begins in line {line} has a quote that is never closed.")

    def _miscounted(self, file: Source, index: Records, block: int, rows: int) -> Exception:
        """The error for a block that has `rows` rows, and not as many as were counted."""
        return self.fault(
            file,
            f"bytes {index.bounds[block]} to {index.bounds[block + 1]} hold {rows} rows, not {index.counts[block]} as "
            f"before; has the file changed, or is the index stored beside it another's?",
        )

    def _fails(self, data: bytes, index: Records, schema: Any) -> Exception | None:
        import pyarrow

        try:
            self.parse(data, index, schema)
        except (pyarrow.ArrowException, KeyError) as error:
            return error
        return None


def read_of(index: Records, block: int) -> tuple[int, int]:
    """The bytes that are read for a block: with the one that must end the record before, and without its own last one,
    which the next block reads. A store is then asked for each byte once."""
    begin, end = index.bounds[block], index.bounds[block + 1]
    return begin - (block > 0), end - (block + 1 < len(index.counts))


def _passing(count: int, passes: Callable[[int, int], bool]) -> list[tuple[int, int]]:
    """The parts of [0, count) that pass, found by halving those that do not."""
    good: list[tuple[int, int]] = []
    left = [(0, count)] if count else []
    while left:
        begin, end = left.pop()
        if passes(begin, end):
            good.append((begin, end))
        elif end - begin > 1:
            middle = (begin + end) // 2
            left += [(middle, end), (begin, middle)]
    return good


def _without_place(error: Any) -> str:
    """pyarrow's message without row and column, which it counts within a block."""
    return re.sub(r"^(In CSV column #\d+: )?((CSV parse error: )?Row #\d+: )?|\.? in row \d+$", "", str(error))
