# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What the readers of tables in files have in common: an index of each file, made once and again after a change."""

import contextlib
import errno
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from torch_distinput import _C
from torch_distinput.tables._stored_index import Stamp

Index = TypeVar("Index")

# Indexes are made by threads side by side, because pyarrow and numpy release the GIL and storage has latency.
_THREADS = 8
# By how many seconds other hosts may begin later, and how fast they read a large file at most.
_LATE = 1.0
_BYTES_PER_SECOND = 500e6


class BlockFiles(ABC, Generic[Index]):
    """Reads tables block by block. `count_rows`, `schema` and `read` are called from any thread; files are
    names as bytes. Errors are InvalidArgumentError, NotFoundError or OSError, and name op and file."""

    def __init__(self, op: str):
        self._op = op
        self._lock = threading.Lock()
        self._known: dict[bytes, tuple[Stamp, Index]] = {}
        # The files whose indexes other hosts make, and until when they have time for it.
        self._of_others: set[str] = set()
        self._others_until = 0.0

    def __reduce__(self) -> Any:
        raise TypeError(f"{self._op}: a reader of files cannot be pickled.")

    @abstractmethod
    def make_index(self, path: str, stamp: Stamp) -> Index:
        """What is known about a file before its rows are read; `stamp` identifies the file's version."""

    @abstractmethod
    def rows(self, index: Index) -> list[int]:
        """The rows in each block of a file."""

    @abstractmethod
    def schema_of(self, path: str, index: Index) -> Any:
        """The Arrow schema of a file."""

    @abstractmethod
    def read_block(self, path: str, index: Index, block: int) -> Any:
        """One block as an Arrow table of one chunk."""

    def count_rows(self, files: list[bytes]) -> list[list[int]]:
        with self._lock:
            new = [file for file in dict.fromkeys(files) if file not in self._known]
        indexes = self._indexes(new) if len(new) > 1 else {}
        return [self.rows(indexes[file] if file in indexes else self.index(file)) for file in files]

    def _indexes(self, files: list[bytes]) -> dict[bytes, Index]:
        order, own = _C.deal_files(len(files))
        begin = time.monotonic()
        made = self._index_side_by_side([files[number] for number in order[:own]])
        # The other hosts have about as many files as this one had, and may have begun later.
        self._others_until = 2 * time.monotonic() - begin + _LATE
        self._of_others = {os.fsdecode(files[number]) for number in order[own:]}
        return made | self._index_side_by_side([files[number] for number in order[own:]])

    def _index_side_by_side(self, files: list[bytes]) -> dict[bytes, Index]:
        if not files:
            return {}
        with ThreadPoolExecutor(min(_THREADS, len(files))) as threads:
            made = {file: threads.submit(self.index, file) for file in files}
            try:
                return {file: made[file].result() for file in sorted(files)}
            finally:
                for future in made.values():
                    future.cancel()

    def patience(self, path: str, size: int) -> float:
        """For how many seconds from now on another host is given time to store the index of a file."""
        if path not in self._of_others:
            return 0.0
        return self._others_until + size / _BYTES_PER_SECOND - time.monotonic()

    def schema(self, file: bytes) -> Any:
        index = self.index(file)
        with self._errors(file):
            return self.schema_of(os.fsdecode(file), index)

    def read(self, file: bytes, block: int) -> Any:
        index = self.index(file)
        with self._errors(file):
            return self.read_block(os.fsdecode(file), index, block)

    def index(self, file: bytes) -> Index:
        """The index of a file as it is now."""
        with self._errors(file):
            stamp = Stamp.of(file)
            with self._lock:
                known = self._known.get(file)
            if known is not None and known[0] == stamp:
                return known[1]
            index = self.make_index(os.fsdecode(file), stamp)
            with self._lock:
                self._known[file] = (stamp, index)
            return index

    def fault(self, path: str, text: str) -> _C.InvalidArgumentError:
        """The error of a file."""
        return _C.InvalidArgumentError(f"{self._op}: {path}: {text}")

    @contextlib.contextmanager
    def _errors(self, file: bytes) -> Iterator[None]:
        import pyarrow

        path = os.fsdecode(file)
        try:
            yield
        except (_C.InvalidArgumentError, _C.NotFoundError):
            raise
        except FileNotFoundError:
            raise _C.NotFoundError(f"{self._op}: {path}: there is no such file.") from None
        except UnicodeError as error:
            raise self.fault(path, f"a text in it is not UTF-8: {error}.") from None
        except OSError as error:
            if error.errno == errno.ESPIPE:
                raise OSError(error.errno, f"{self._op}: {path}: {error.strerror}.") from None
            if error.errno:  # an error of the system; damage has no number
                raise
            raise self.fault(path, f"{error}") from None
        except pyarrow.ArrowException as error:
            raise self.fault(path, f"{error}") from None
