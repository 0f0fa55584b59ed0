# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A folder of an object server that the library reads in one dialect."""

import itertools
import os
from collections.abc import Mapping

from object_server import S3_KEY, S3_SECRET, ObjectServer

import torch_distinput as tdi
from torch_distinput import _C

HEAD = 4096  # bytes that the library asks for to learn the version
_NUMBERS = itertools.count()


class RemoteStore:
    """Objects under a bucket of their own: the library remembers the versions of objects by URL."""

    def __init__(self, server: ObjectServer, dialect: str):
        self.server, self._dialect = server, dialect
        self._bucket = f"data-{os.getpid()}-{next(_NUMBERS)}"
        # How another process sets what this one has set.
        self.options: tuple[str, dict[str, str]] | None = None
        if dialect == "s3":
            options = {"endpoint_url": server.url("s3"), "key": S3_KEY, "secret": S3_SECRET, "region": "us-east-1"}
            self.options = (f"s3://{self._bucket}", options)
            _C.set_storage_options(*self.options)
        # Its statistics count what this process repeats from here on, whoever reads.
        self._reader = iter(tdi.FixedLengthRecordDataset(self.put("probe", b"probe"), 5))
        next(self._reader)
        server.remove(self.object("probe"))
        server.forget_requests()

    def url(self, name: str = "") -> str:
        """Of an object, or of all."""
        if self._dialect == "s3":
            return f"s3://{self._bucket}/{name}".rstrip("/")
        return self.server.url(self._dialect, f"{self._bucket}/{name}").rstrip("/")

    def object(self, name: str) -> str:
        """The server's name of an object."""
        return f"{self._bucket}/{name}"

    def put(self, name: str, data: bytes) -> str:
        """Makes or replaces an object, and returns its URL."""
        self.server.put(self.object(name), data)
        return self.url(name)

    def put_all(self, objects: Mapping[str, bytes]) -> list[str]:
        self.server.put_all({self.object(name): data for name, data in objects.items()})
        return [self.url(name) for name in objects]

    def sent(self, name: str) -> list[tuple[int, int]]:
        """Begin and end of each range of an object that was sent, but for the first bytes, with which the library
        learns the version. Some are there once more than they were read, where a busy machine was late."""
        entries = self.server.requests(object=self.object(name), operation="read")
        ranges = [entry.range for entry in entries if entry.range is not None and entry.sent > 0]
        return [(first, last + 1) for first, last in ranges if first > 0 or last >= HEAD]

    def reads(self, name: str) -> list[tuple[int, int]]:
        """Those of `sent`, less as many that came again as this process repeated: what was surely read."""
        repeated = self._repeated()
        reads: list[tuple[int, int]] = []
        for range_ in self.sent(name):
            if repeated > 0 and range_ in reads:
                repeated -= 1
            else:
                reads.append(range_)
        return reads

    def _repeated(self) -> int:
        """Requests of this process that were made again since the store was made."""
        network = self._reader.stats().network
        assert network is not None
        return network.hedges + network.retries


def twice(ranges: list[tuple[int, int]]) -> int:
    """How many bytes of these ranges are in more than one of them."""
    reached = again = 0
    for begin, end in sorted(ranges):
        again += max(0, min(end, reached) - begin)
        reached = max(reached, end)
    return again
