# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What `index` does with each file: looks whether its index lies beside it, makes it, and stores it there."""

import os
import threading
from dataclasses import dataclass

from torch_distinput import _C
from torch_distinput.cli._index_kinds import Kind, Report
from torch_distinput.tables._stored_index import MIN_STORED


class Stopped(Exception):
    """The work was given up."""


@dataclass(frozen=True)
class Indexed:
    """A file and its index. `content`: the index; None for a file so small that it needs none. `made`: whether it was
    made now. `problem`: why it is not beside the file; "" where it is."""

    name: str
    kind: Kind
    size: int
    content: bytes | None = None
    records: int = 0
    made: bool = False
    problem: str = ""


def size_of(name: str) -> int:
    """Bytes. Errors name the file."""
    if _C.names_object(name):
        return _C.InputFile(name, "index").size()
    return os.path.getsize(name)


class Indexer:
    """Makes the indexes of files, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: dict[str, int] = {}
        self._stopped = False
        self._refused: dict[str, str] = {}  # the folders that cannot be written to, and why

    def stop(self) -> None:
        """Makes what runs raise Stopped."""
        self._stopped = True

    def bytes_read(self) -> int:
        """Of all files, those that are done in full."""
        with self._lock:
            return sum(self._read.values())

    def index(self, name: str, kind: Kind, size: int) -> Indexed:
        """Sees to it that the index of a file is stored. Errors name the file."""
        if self._stopped:
            raise Stopped
        try:
            return self._indexed(os.fsencode(name), Indexed(name, kind, size))
        finally:
            self._note(name, size)

    def _indexed(self, file: bytes, so_far: Indexed) -> Indexed:
        name, kind, size = so_far.name, so_far.kind, so_far.size
        if size < MIN_STORED:
            return so_far
        found = _stored(name, kind, size)
        if found is not None:
            return Indexed(name, kind, size, *found)
        content = kind.make(file, self._reporter(name))
        problem = self._store(name, kind, content)
        return Indexed(name, kind, size, content, kind.count(file, content) or 0, True, problem)

    def _reporter(self, name: str) -> Report:
        def report(done: int) -> None:
            if self._stopped:
                raise Stopped
            self._note(name, done)

        return report

    def _note(self, name: str, done: int) -> None:
        with self._lock:
            self._read[name] = done

    def _store(self, name: str, kind: Kind, content: bytes) -> str:
        """Stores an index beside its file, or else in the user's cache folder. Returns why it is not beside it."""
        if not _C.names_object(name):
            _C.store_beside(os.fsencode(name), kind.stored, content)
            return ""
        folder = name[: name.rfind("/") + 1]
        place = _C.stored_url(name, kind.stored)
        if place is None:
            problem = f"{_C.shown_url(name)} has a query, which may be a signature of that object alone"
        else:
            problem = self._refused.get(folder) or write_object(place, content)
            if problem:
                self._refused[folder] = problem
        if problem:
            _C.store_beside(os.fsencode(name), kind.stored, content)
        return problem


def _stored(name: str, kind: Kind, size: int) -> tuple[bytes, int] | None:
    """The index that lies where all find it, and its records; None where there is none or it does not fit."""
    file, found = os.fsencode(name), list[tuple[bytes, int]]()

    def accept(content: bytes) -> bool:
        records = kind.count(file, content)
        if records is not None:
            found.append((content, records))
        return records is not None

    most = 8 * size + 4096  # more than an offset for each byte
    place = _C.stored_url(name, kind.stored) if _C.names_object(name) else None
    if place is not None:
        accept(read_object(place, most) or b"")
    else:
        _C.load_stored(file, kind.stored, most, accept)
    return found[0] if found else None


def read_object(url: str, most: int) -> bytes | None:
    """The bytes of an object; None where there is none, it has more than `most` bytes or may not be read."""
    try:
        opened = _C.InputFile(url, "index")
        return opened.read_at(0, opened.size()) if opened.size() <= most else None
    except (_C.NotFoundError, _C.RemoteError):
        return None


def write_object(url: str, content: bytes) -> str:
    """Makes an object. Returns why it cannot be made."""
    try:
        _C.write_object(url, content)
    except (_C.NotFoundError, _C.RemoteError) as error:
        return str(error).removeprefix("write_object: ").rstrip(".")
    return ""
