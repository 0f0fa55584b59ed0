# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Indexes of text tables that are kept beside their files, as those of records are: where the records of a file lie."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import stat
import zlib
from dataclasses import asdict, dataclass

from torch_distinput import _C

# Indexes of smaller files are not stored: reading such a file takes no longer than reading its index.
MIN_STORED = 256 << 10
_VERSION = 3


@dataclass(frozen=True)
class Stamp:
    """What changes when a file is written to."""

    mtime: int
    size: int

    @staticmethod
    def of(file: str | bytes) -> Stamp:
        """The stamp of a file as it is now. OSError also for a pipe: a reader would wait for it without end."""
        status = os.stat(file)
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise OSError(errno.ESPIPE, "tables need random access, but this is no regular file")
        return Stamp(status.st_mtime_ns, status.st_size)


@dataclass(frozen=True)
class Format:
    """What the bounds of blocks depend on: how records are told apart, and the size of the blocks."""

    kind: str  # in the names of stored indexes
    delimiter: str
    block_bytes: int


def load(path: str, format_: Format, stamp: Stamp) -> tuple[list[int], list[int]] | None:
    """The bounds of the blocks of a file and the number of records in each. None unless they are stored complete, of
    this format and `stamp`, and can be those of the file: what lies there may be damaged, of another file, or a
    stranger's. Where the records begin is left to the caller."""
    wanted = _head(format_, stamp)
    for content in _C.stored_beside(os.fsencode(path), format_.kind, _most_bytes(format_, stamp)):
        with contextlib.suppress(ValueError, LookupError, TypeError, RecursionError):
            checksum, text = content.split(b"\n", 1)
            if int(checksum, 16) != zlib.crc32(text):
                continue
            found = json.loads(text)
            bounds, counts = found["bounds"], found["counts"]
            if found["head"] == wanted and _fits(bounds, counts, stamp.size):
                return bounds, counts
    return None


def _most_bytes(format_: Format, stamp: Stamp) -> int:
    """The most bytes of a stored index: of its head, and of each block, none of which but the last two is smaller than
    the format's."""
    return 4096 + 64 * (stamp.size // format_.block_bytes + 3)


def _fits(bounds: list[int], counts: list[int], size: int) -> bool:
    """Whether blocks with these bounds cover a file to its end, and have room for as many records. Each must have
    one: a block that seems to be empty would never be read."""
    if not all(type(number) is int for number in (*bounds, *counts)) or len(bounds) != len(counts) + 1:
        return False
    if bounds[0] < 0 or bounds[-1] != size:
        return False
    # A record has a byte at least, and all but the last have a line end.
    return all(
        0 < count <= (after - before + 1) // 2
        for (before, after), count in zip(itertools.pairwise(bounds), counts, strict=True)
    )


def store(path: str, format_: Format, stamp: Stamp, bounds: list[int], counts: list[int]) -> None:
    """Stores an index where that is possible. One that cannot be stored is made again when it is next needed."""
    text = json.dumps({"head": _head(format_, stamp), "bounds": bounds, "counts": counts}).encode()
    _C.store_beside(os.fsencode(path), format_.kind, b"%08x\n%b" % (zlib.crc32(text), text))


def _head(format_: Format, stamp: Stamp) -> dict[str, int | str]:
    return {"version": _VERSION, **asdict(format_), **asdict(stamp)}
