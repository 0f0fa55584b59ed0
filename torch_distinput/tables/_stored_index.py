# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Stores, beside a text table, where its records lie. Files of records have the same kind of index."""

from __future__ import annotations

import contextlib
import itertools
import json
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass

from torch_distinput import _C
from torch_distinput.tables._table_file import Stamp

# Where the blocks of a file lie: their bounds and the number of records in each.
Blocks = tuple[list[int], list[int]]
# Called with a growing number while a file is read.
Report = Callable[[int], None]

# Indexes of smaller files are not stored: reading such a file takes no longer than reading its index.
MIN_STORED = 256 << 10
# What is known of smaller files is not shared: an entry takes a page of memory.
MIN_SHARED = 4 << 10
_VERSION = 3


@dataclass(frozen=True)
class Format:
    """What decides the bounds of blocks: the rule that separates records, and the size of a block."""

    kind: str  # in the names of stored indexes
    delimiter: str
    block_bytes: int


def load(path: bytes, format_: Format, stamp: Stamp) -> Blocks | None:
    """The bounds of the blocks of a file and the number of records in each. None unless the stored index is complete,
    has this format and `stamp`, and is plausible for the file: it may be damaged, belong to another file, or come from
    a stranger. The caller checks where the records begin."""
    found: list[Blocks | None] = [None]

    def accept(content: bytes) -> bool:
        found[0] = decoded(content, format_, stamp)
        return found[0] is not None

    _C.load_stored(path, format_.kind, most_bytes(format_, stamp), accept)
    return found[0]


def shared(
    path: bytes, format_: Format, stamp: Stamp, make: Callable[[Report], tuple[Blocks, bool]]
) -> tuple[Blocks, bool]:
    """What `make` returns for a file, or has returned in another process on this host: its blocks, and whether its last
    record has an open quote. The blocks are checked as those of a stored index are."""
    found: list[tuple[Blocks, bool]] = []

    def accept(content: bytes) -> bool:
        known = decoded(content[1:], format_, stamp)
        if known is not None:
            found.append((known, content[:1] == b"1"))
        return known is not None

    def made(report: Report) -> bytes:
        found.append(make(report))
        blocks, is_open = found[0]
        return (b"1" if is_open else b"0") + encoded(format_, stamp, *blocks)

    share(path, json.dumps(_head(format_, stamp)), stamp.size, most_bytes(format_, stamp), accept, made)
    return found[0]


def share(
    path: bytes, kind: str, size: int, most: int, accept: Callable[[bytes], bool], make: Callable[[Report], bytes]
) -> None:
    """Calls `accept` with the bytes of this kind that another process on the host has made of a file; else `make`."""
    if size < MIN_SHARED:
        make(lambda done: None)
    else:
        _C.share_on_host(f"{kind} {_C.version_on_host(path)}".encode(), most, accept, make)


def decoded(content: bytes, format_: Format, stamp: Stamp) -> Blocks | None:
    """The blocks that a stored index tells. None unless it is complete, and plausible for this format and stamp."""
    with contextlib.suppress(ValueError, LookupError, TypeError, RecursionError):
        checksum, text = content.split(b"\n", 1)
        if int(checksum, 16) != zlib.crc32(text):
            return None
        found = json.loads(text)
        bounds, counts = found["bounds"], found["counts"]
        if found["head"] == _head(format_, stamp) and _fits(bounds, counts, stamp.size):
            return bounds, counts
    return None


def encoded(format_: Format, stamp: Stamp, bounds: list[int], counts: list[int]) -> bytes:
    """An index as it is stored."""
    text = json.dumps({"head": _head(format_, stamp), "bounds": bounds, "counts": counts}).encode()
    return b"%08x\n%b" % (zlib.crc32(text), text)


def most_bytes(format_: Format, stamp: Stamp) -> int:
    """The most bytes of a stored index: its head and an entry for each block. Only the last two blocks may be smaller
    than the format's block size."""
    return 4096 + 64 * (stamp.size // format_.block_bytes + 3)


def _fits(bounds: list[int], counts: list[int], size: int) -> bool:
    """Whether blocks with these bounds cover a file to its end and have room for their records. Each block must hold a
    record, because an empty one would never be read."""
    if not all(type(number) is int for number in (*bounds, *counts)) or len(bounds) != len(counts) + 1:
        return False
    if bounds[0] < 0 or bounds[-1] != size:
        return False
    # A record has a byte at least, and all but the last have a line end.
    return all(
        0 < count <= (after - before + 1) // 2
        for (before, after), count in zip(itertools.pairwise(bounds), counts, strict=True)
    )


def store(path: bytes, format_: Format, stamp: Stamp, bounds: list[int], counts: list[int]) -> None:
    """Stores an index where that is possible. One that cannot be stored is made again when it is next needed."""
    _C.store_beside(path, format_.kind, encoded(format_, stamp, bounds, counts))


def _head(format_: Format, stamp: Stamp) -> dict[str, int | str]:
    return {"version": _VERSION, **asdict(format_), **asdict(stamp)}
