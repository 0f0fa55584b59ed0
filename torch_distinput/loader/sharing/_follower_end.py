# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The end of an iterator that takes what a reader on its host has read."""

from __future__ import annotations

import array
import contextlib
import os
import select
import socket
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from torch_distinput import _C
from torch_distinput.base._sealed_memory import read_sealed
from torch_distinput.loader.sharing._reader_end import AHEAD, BATCH, FAILED, REFUSED, SLAB, ReaderEnd
from torch_distinput.loader.sharing._slabs import SlabViews
from torch_distinput.loader.sharing._watched_process import WatchedProcess

LONGEST_TEXT = 65536  # bytes of a message
_LONGEST_WAIT = 1.0  # seconds without a look at the time
_LONGEST_COPY = 0.001  # seconds without a look at copies


class Given(NamedTuple):
    """What a reader has handed over: a batch, or the error that it raised because the batch cannot be shared."""

    value: Any
    error: str = ""

    def batch(self) -> Any:
        """The batch. Raises TypeError where it cannot be shared."""
        if self.error:
            raise TypeError(self.error)
        return self.value


class FollowerEnd:
    """`connection`: from the reader; None where there is none. `reader`: its process. `timeout`: seconds that it may
    keep this process waiting; `late` is the error then. `onward`: gets all that is taken. `failure`: why the reader
    hands over nothing more, where it told. One thread at a time."""

    def __init__(
        self,
        connection: socket.socket | None,
        reader: WatchedProcess,
        timeout: float,
        late: str,
        onward: ReaderEnd | None = None,
    ):
        self._process, self._connection, self._reader = os.getpid(), connection, reader
        self._timeout, self._late, self._onward = timeout, late, onward
        self._slabs = SlabViews(AHEAD)
        self.failure: str | None = None

    def take(self, release: Callable[[], None] = lambda: None) -> Given | None:
        """The next batch; None from the first one on that the reader does not hand over: it has left, ended or failed.
        `release` lets go of batches that have been copied. Raises DistributedDatasetError after `timeout`, and may be
        called again then."""
        if self._connection is None:
            return None
        self._wait(self._connection, release)
        text, descriptors = received(self._connection)
        if text[:1] == BATCH and len(descriptors) == 1:
            if self._onward is not None and self._onward.wait_for_room():
                self._onward.give(os.dup(descriptors[0]))
            value = read_sealed(descriptors[0])
            self._answer(self._connection, 1)
            return Given(value)
        if text[:1] == SLAB and len(descriptors) == 1:
            return Given(self._slabs.read(descriptors[0]))
        for descriptor in descriptors:
            os.close(descriptor)
        self.close()
        error = text[1:].decode(errors="replace")
        if text[:1] == FAILED:
            self.failure = error
        if text[:1] != REFUSED:
            return None
        if self._onward is not None:
            self._onward.refuse(error)
        return Given(None, error)

    def close(self) -> None:
        """Tells the reader that no more batches are taken."""
        connection, self._connection = self._connection, None
        if connection is None or self._process != os.getpid():
            return
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)  # a forked child may hold it
        connection.close()

    @staticmethod
    def _answer(connection: socket.socket, batches: int) -> None:
        with contextlib.suppress(OSError):  # a reader that has left
            for _ in range(batches):
                connection.send(BATCH)

    def _wait(self, connection: socket.socket, release: Callable[[], None]) -> None:
        """Waits until there is a message, or nobody to send one. The reader may wait for slabs meanwhile, which nothing
        tells of but a look."""
        end = time.monotonic() + self._timeout
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        self._reader.register(poll)
        while True:
            release()
            self._answer(connection, self._slabs.answers())
            longest = _LONGEST_COPY if self._slabs.unanswered else _LONGEST_WAIT
            if poll.poll(1000 * min(max(end - time.monotonic(), 0), longest)):
                return
            if time.monotonic() >= end:
                raise _C.DistributedDatasetError(self._late)


def received(connection: socket.socket) -> tuple[bytes, list[int]]:
    """A message and its descriptors; an empty one where none will come."""
    try:
        try:
            text, ancillary = _message(connection)
        except ConnectionResetError:  # told once, before what has arrived: the reader left answers unread
            text, ancillary = _message(connection)
    except OSError:  # the reader's process has ended
        return b"", []
    found = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return text, list(found)


def _message(connection: socket.socket) -> tuple[bytes, list[tuple[int, int, bytes]]]:
    size = socket.CMSG_SPACE(array.array("i").itemsize)
    text, ancillary, _, _ = connection.recvmsg(LONGEST_TEXT, size, socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC)
    return text, ancillary
