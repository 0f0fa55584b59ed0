# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Where followers of a loader let readers in."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections.abc import Callable

from torch_distinput import _C
from torch_distinput.loader.sharing._watched_process import Watched

Said = Callable[[socket.socket], int | None]

_MOST_WAITING = 64  # iterators that a reader has begun to read and a follower has not
_FIRST_SECONDS = 5.0  # until a connection has said what it is for
_LONGEST_WAIT = 1.0  # seconds without a look at the time


class Door:
    """Lets in readers of this loader's iterators, which say the numbers of these. `listener`: a socket that listens.
    One thread at a time."""

    def __init__(self, listener: socket.socket):
        self._process, self._listener = os.getpid(), listener
        self._arrived: dict[int, socket.socket] = {}
        listener.listen(_MOST_WAITING)
        listener.setblocking(False)

    def connection(self, number: int, reader: Watched, said: Said, timeout: float, late: str) -> socket.socket | None:
        """The connection from `reader` for its iterator `number`; None where none will come, because the reader has
        ended or reads a later one. `said`: the number that a connection says; None: it is not the reader's. Raises
        DistributedDatasetError with the text `late` after `timeout` seconds."""
        end = time.monotonic() + timeout
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        reader.register(poll)
        while True:
            ended = reader.ended()  # before the last look
            self._let_in(said)
            for earlier in [other for other in self._arrived if other < number]:
                self._arrived.pop(earlier).close()
            if number in self._arrived:
                return self._arrived.pop(number)
            if ended or self._arrived:
                return None
            if time.monotonic() >= end:
                raise _C.DistributedDatasetError(late)
            poll.poll(1000 * min(max(end - time.monotonic(), 0), _LONGEST_WAIT))

    def _let_in(self, said: Said) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                connection = self._listener.accept()[0]
                number = said(connection)
                if number is None:
                    connection.close()
                else:
                    self._arrived[number] = connection

    def close(self) -> None:
        """Lets nobody in any more, also where a forked child holds the socket."""
        if self._process != os.getpid() or self._listener.fileno() < 0:
            return
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._arrived.values():
            connection.close()

    def __del__(self) -> None:
        self.close()


def first_text(connection: socket.socket, size: int) -> bytes:
    """The `size` bytes that a reader sends as soon as it has connected; fewer where it does not."""
    text = b""
    with contextlib.suppress(OSError):
        connection.settimeout(_FIRST_SECONDS)
        while len(text) < size and (some := connection.recv(size - len(text))):
            text += some
        connection.setblocking(True)
    return text
