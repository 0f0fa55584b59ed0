# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A file of this machine, or an object of a store, that holds a table."""

from __future__ import annotations

import bisect
import errno
import hashlib
import io
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch_distinput import _C

# What a store is asked for at least: less takes as long.
_LEAST_READ = 1 << 16


@dataclass(frozen=True)
class Stamp:
    """What changes when a file is written to. Of an object, `mtime` is a hash of its version."""

    mtime: int
    size: int


class TableFile:
    """What can be read of a file; of an object, of the version that it had when this was made. Errors name `op` and the
    file: NotFoundError, OSError, and RemoteError for objects. An object is safe from any thread."""

    def __init__(self, op: str, name: bytes):
        self._op, self.name = op, name
        self.is_remote = _C.names_object(name)
        self._object = _C.InputFile(name, op) if self.is_remote else None
        self._opened = self._object

    @property
    def path(self) -> str:
        """As the user named it."""
        return os.fsdecode(self.name)

    @property
    def shown(self) -> str:
        """As messages name it."""
        return _C.shown_url(self.name) if self.is_remote else self.path

    def stamp(self) -> Stamp:
        """The present stamp. Raises OSError for a pipe, too: a reader would wait for it without end."""
        if self._object is not None:
            version = self._object.version().removeprefix(self.path).encode()
            return Stamp(
                int.from_bytes(hashlib.blake2b(version, digest_size=8).digest(), "little"), self._object.size()
            )
        status = os.stat(self.name)
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise OSError(errno.ESPIPE, "tables need random access, but this is not a regular file")
        return Stamp(status.st_mtime_ns, status.st_size)

    def size(self) -> int:
        """Bytes."""
        return self._open().size()

    def read_at(self, offset: int, size: int) -> bytes:
        """`size` bytes from `offset` on; fewer only at the end of the file."""
        return self._open().read_at(offset, size)

    def will_read(self, ranges: Iterable[tuple[int, int]]) -> None:
        """These bytes (offset and size) will be read soon: a store is asked for them, side by side."""
        if self._object is not None:
            self._object.will_read(list(ranges))

    def for_pyarrow(self, ranges: Iterable[tuple[int, int]] = ()) -> Any:
        """What pyarrow opens. Of an object, these bytes (offset and size) are read now: pyarrow would wait for them on
        a thread of its own, which no signal and no end of an iterator reaches, and for which no statistics count."""
        if self._object is None:
            return self.path
        ranges = list(ranges)
        self.will_read(ranges)
        return Seekable(self._object, {begin: self._object.read_at(begin, size) for begin, size in ranges})

    def _open(self) -> _C.InputFile:
        if self._opened is None:
            self._opened = _C.InputFile(self.name, self._op)
        return self._opened


class KeptReads:
    """A file of which the first bytes read and those of the last `recent` reads are kept: they are needed again."""

    def __init__(self, file: TableFile, recent: int = 1):
        self._file, self.name, self.shown = file, file.name, file.shown
        self._recent = recent
        self._kept: list[tuple[int, bytes]] = []

    def size(self) -> int:
        """As `TableFile.size`."""
        return self._file.size()

    def read_at(self, offset: int, size: int) -> bytes:
        """As `TableFile.read_at`."""
        parts: list[bytes] = []
        end = offset + size
        while offset < end:
            part = self._part(offset, end)
            if not part:
                break
            parts.append(part)
            offset += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _part(self, offset: int, end: int) -> bytes:
        for begin, data in self._kept:
            if begin <= offset < begin + len(data):
                return data[offset - begin : end - begin]
        limit = min([begin for begin, _ in self._kept if begin > offset], default=self._file.size())
        part = self._file.read_at(offset, max(0, min(max(end, offset + _LEAST_READ), limit) - offset))
        if part:
            first, recent = self._kept[:1], self._kept[1:]
            self._kept = [*first, *[*recent, (offset, part)][-self._recent :]]
        return part[: end - offset]

    def will_read(self, ranges: Iterable[tuple[int, int]]) -> None:
        """As `TableFile.will_read`, but for what is kept."""
        self._file.will_read(part for begin, size in ranges for part in self._missing(begin, begin + size))

    def _missing(self, begin: int, end: int) -> list[tuple[int, int]]:
        for at, data in self._kept:
            if at <= begin < at + len(data):
                begin = at + len(data)
        return [(begin, end - begin)] if begin < end else []


class Seekable(io.RawIOBase):
    """Something with `size` and `read_at` as a file of Python. One thread at a time. `parts`: what was read of it, by
    offset, each for one read. pyarrow reads parts that lie near to each other together, with what lies between them."""

    def __init__(self, file: _C.InputFile | KeptReads, parts: dict[int, bytes] | None = None):
        self._file, self._place, self._size = file, 0, file.size()
        self._parts = parts or {}
        self._begins = sorted(self._parts)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        if place < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._place = place
        return place

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._place)
        end = self._place + (left if size is None or size < 0 else min(size, left))
        pieces: list[bytes] = []
        while self._place < end:
            piece = self._piece(end)
            if not piece:
                break
            pieces.append(piece)
            self._place += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _piece(self, end: int) -> bytes:
        """The next bytes, at most to `end`, out of one part or of none. A part goes when its end was read."""
        next_ = bisect.bisect_right(self._begins, self._place)
        begin = self._begins[next_ - 1] if next_ > 0 else 0
        part = self._parts.get(begin, b"")
        if self._place >= begin + len(part):
            limit = min([end, *self._begins[next_ : next_ + 1]])
            return self._file.read_at(self._place, limit - self._place)
        if end >= begin + len(part):
            del self._parts[begin], self._begins[next_ - 1]
        return part[self._place - begin : end - begin]
