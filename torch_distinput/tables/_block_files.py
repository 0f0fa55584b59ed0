# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What the readers of tables in files have in common: an index of each file, made once and again after a change."""

import contextlib
import errno
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from torch_distinput import _C
from torch_distinput.tables._table_file import KeptReads, Stamp, TableFile

Index = TypeVar("Index")
Result = TypeVar("Result")

# Indexes are made by threads side by side, because pyarrow and numpy release the GIL and storage has latency.
_THREADS = 8
# How many bytes of blocks are asked for before they are read.
_AHEAD_BYTES = 64 << 20
# By how many seconds other hosts may begin later, and how fast they read a large file at most.
_LATE = 1.0
_BYTES_PER_SECOND = 500e6


def in_order(file: TableFile, blocks: list[list[tuple[int, int]]]) -> Iterator[int]:
    """The numbers of all blocks, for each of which `blocks` has the bytes that will be read of it (offset and size):
    a store is asked for them ahead."""
    sizes = [sum(size for _, size in ranges) for ranges in blocks]
    asked = ahead = 0
    for block in range(len(blocks)):
        wanted: list[tuple[int, int]] = []
        while asked < len(blocks) and (asked <= block + 1 or ahead < _AHEAD_BYTES):
            wanted += blocks[asked]
            ahead += sizes[asked]
            asked += 1
        file.will_read(wanted)
        yield block
        ahead -= sizes[block]


class BlockFiles(ABC, Generic[Index]):
    """Reads tables block by block. `count_rows`, `schema` and `read` are called from any thread; files are
    names as bytes. Errors are InvalidArgumentError, NotFoundError or OSError (RemoteError for objects), and name op and
    file."""

    threads_of_stores = _THREADS  # make the indexes of objects

    def __init__(self, op: str):
        self._op = op
        self._lock = threading.Lock()
        # What was found, and the object that it is of. Files are not kept open.
        self._known: dict[bytes, tuple[Stamp, Index, TableFile | None]] = {}
        # The files whose indexes other hosts make, and until when they have time for it.
        self._of_others: set[bytes] = set()
        self._others_until = 0.0

    def __reduce__(self) -> Any:
        raise TypeError(f"{self._op}: a reader of files cannot be pickled.")

    @abstractmethod
    def make_index(self, file: TableFile, stamp: Stamp) -> Index:
        """What is known about a file before its rows are read; `stamp` identifies the file's version."""

    @abstractmethod
    def rows(self, index: Index) -> list[int]:
        """The rows in each block of a file."""

    @abstractmethod
    def schema_of(self, file: TableFile, index: Index) -> Any:
        """The Arrow schema of a file."""

    @abstractmethod
    def read_block(self, file: TableFile, index: Index, block: int) -> Any:
        """One block as an Arrow table of one chunk."""

    @abstractmethod
    def ranges(self, index: Index, block: int) -> list[tuple[int, int]]:
        """The bytes of a file (offset and size) that `read_block` reads."""

    def count_rows(self, files: list[bytes]) -> list[list[int]]:
        with self._lock:
            new = [file for file in dict.fromkeys(files) if file not in self._known]
        indexes = self._indexes(new) if len(new) > 1 else {}
        return [self.rows(indexes[file] if file in indexes else self.index(file)) for file in files]

    def _indexes(self, files: list[bytes]) -> dict[bytes, Index]:
        order, own = _C.deal_files(len(files))
        begin = time.monotonic()
        made = self.side_by_side(self.index, [files[number] for number in order[:own]])
        # The other hosts have about as many files as this one had, and may have begun later.
        self._others_until = 2 * time.monotonic() - begin + _LATE
        self._of_others = {files[number] for number in order[own:]}
        made |= self.side_by_side(self.index, [files[number] for number in order[own:]])
        _C.forget_manifests()
        return made

    def side_by_side(self, work: Callable[[bytes], Result], files: list[bytes]) -> dict[bytes, Result]:
        """What `work` returns for each file; raises for the first one by name for which it raises."""
        if not files:
            return {}
        most = self.threads_of_stores if all(map(_C.names_object, files)) else _THREADS
        with ThreadPoolExecutor(min(most, len(files))) as threads:
            made = {file: threads.submit(work, file) for file in files}
            try:
                return {file: made[file].result() for file in sorted(files)}
            finally:
                for future in made.values():
                    future.cancel()

    def patience(self, file: bytes, size: int) -> float:
        """For how many seconds from now on another host is given time to store the index of a file."""
        if file not in self._of_others:
            return 0.0
        return self._others_until + size / _BYTES_PER_SECOND - time.monotonic()

    def lacks_index(self, files: list[bytes]) -> bool:
        """Whether all bytes of an object must be read before its rows can be counted."""
        return False

    def schema(self, file: bytes) -> Any:
        with self.errors(file):
            index, opened = self._current(file)
            return self.schema_of(opened, index)

    def read(self, file: bytes, block: int) -> Any:
        with self.errors(file):
            index, opened = self._current(file)
            return self.read_block(opened, index, block)

    def will_read(self, file: bytes, blocks: list[int], most: int) -> list[int]:
        """Asks the store of `file` for the first of these blocks, as many as have at most `most` bytes, but one at
        least, without waiting. Returns the bytes of each."""
        with self._lock:
            known = self._known.get(file)
        _, index, opened = known or (None, None, None)
        if index is None or opened is None:
            return []
        wanted: list[tuple[int, int]] = []
        sizes: list[int] = []
        for block in blocks:
            ranges = self.ranges(index, block)
            size = sum(size for _, size in ranges)
            if sizes and sum(sizes) + size > most:
                break
            wanted += ranges
            sizes.append(size)
        opened.will_read(wanted)
        return sizes

    def index(self, file: bytes) -> Index:
        """The index of a file as it is now."""
        with self.errors(file):
            return self._current(file)[0]

    def known_index(self, file: TableFile, stamp: Stamp) -> tuple[Index, TableFile] | None:
        """The index that was made of this version of a file, and the file that it was made of."""
        with self._lock:
            known = self._known.get(file.name)
        return (known[1], known[2] or file) if known is not None and known[0] == stamp else None

    def _current(self, file: bytes) -> tuple[Index, TableFile]:
        """The index of a file as it is now, and the version that it is of."""
        opened = TableFile(self._op, file)
        stamp = opened.stamp()
        if (known := self.known_index(opened, stamp)) is not None:
            return known
        index = self.make_index(opened, stamp)
        with self._lock:
            self._known[file] = (stamp, index, opened if opened.is_remote else None)
        return index, opened

    def fault(self, file: TableFile | KeptReads, text: str) -> _C.InvalidArgumentError:
        """The error of a file."""
        return _C.InvalidArgumentError(f"{self._op}: {file.shown}: {text}")

    @contextlib.contextmanager
    def errors(self, file: bytes) -> Iterator[None]:
        import pyarrow

        shown = _C.shown_url(file) if _C.names_object(file) else os.fsdecode(file)
        fault = f"{self._op}: {shown}: "
        try:
            yield
        except (_C.InvalidArgumentError, _C.NotFoundError, _C.RemoteError):
            raise
        except FileNotFoundError:
            raise _C.NotFoundError(f"{fault}there is no such file.") from None
        except UnicodeError as error:
            raise _C.InvalidArgumentError(f"{fault}a text in it is not UTF-8: {error}.") from None
        except OSError as error:
            if error.errno == errno.ESPIPE:
                raise OSError(error.errno, f"{fault}{error.strerror}.") from None
            if error.errno:  # an error of the system; damage has no number
                raise
            raise _C.InvalidArgumentError(f"{fault}{error}") from None
        except pyarrow.ArrowException as error:
            raise _C.InvalidArgumentError(f"{fault}{error}") from None
