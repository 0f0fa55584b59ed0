# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The objects that a server holds, in memory."""

import base64
import bisect
import hashlib
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class StoredObject:
    """One version of an object."""

    name: str
    data: bytes
    generation: int
    modified: float  # seconds since 1970

    @cached_property
    def _digest(self) -> bytes:
        return hashlib.md5(self.data, usedforsecurity=False).digest()

    @property
    def md5(self) -> str:
        return base64.b64encode(self._digest).decode()

    @property
    def etag(self) -> str:
        return f'"{self._digest.hex()}"'


class Objects:
    """Versions by name, the newest of each. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._objects: dict[str, StoredObject] = {}
        self._names: list[str] | None = None
        self._generation = int(time.time() * 1e6)
        self.page_limit = 10_000  # no page of a list has more names

    def put(self, name: str, data: bytes) -> StoredObject:
        return self.put_all({name: data})[name]

    def put_all(self, data: Mapping[str, bytes]) -> dict[str, StoredObject]:
        with self._lock:
            stored = {name: self._next(name, bytes_) for name, bytes_ in data.items()}
            self._objects.update(stored)
            self._names = None
        return stored

    def _next(self, name: str, data: bytes) -> StoredObject:
        self._generation += 1
        return StoredObject(name, data, self._generation, time.time())

    def get(self, name: str) -> StoredObject | None:
        return self._objects.get(name)

    def remove(self, name: str) -> None:
        with self._lock:
            del self._objects[name]
            self._names = None

    def page(self, prefix: str, after: str, limit: int) -> tuple[list[StoredObject], bool]:
        """The first `limit` objects, by name, whose names begin with `prefix` and come after `after`; and whether there
        are more."""
        with self._lock:
            if self._names is None:
                self._names = sorted(self._objects, key=str.encode)
            names = self._names
            keys = _ByBytes(names)
            first = max(bisect.bisect_left(keys, prefix.encode()), bisect.bisect_right(keys, after.encode()))
            found = []
            for name in names[first : first + limit + 1]:
                if not name.startswith(prefix):
                    break
                found.append(self._objects[name])
        return found[:limit], len(found) > limit


class _ByBytes:
    """Names as UTF-8, by which stores sort them, encoded when they are looked at."""

    def __init__(self, names: list[str]):
        self._names = names

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, place: int) -> bytes:
        return self._names[place].encode()
