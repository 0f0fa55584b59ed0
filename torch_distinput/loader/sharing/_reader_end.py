# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The end of an iterator that reads, and hands what it reads to followers on its host.

A follower gets each batch as the descriptor of its memory, and answers when it takes it, or, of a slab, when it needs
it no more. So at most `AHEAD` batches of an iterator are held for followers, whatever they do. What was given waits in
the kernel, also for a follower that has not begun yet, and after the reader has left.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from typing import Any

from torch_distinput.base._sealed_memory import write_sealed
from torch_distinput.loader.sharing._slabs import SlabRing
from torch_distinput.loader.sharing._watched_process import WatchedProcess

AHEAD = 4  # batches that the slowest follower has not taken
# What messages begin with: a batch in memory of its own, or in a slab; that none follows, with why; an error in place
# of a batch, as a text.
BATCH, SLAB, FAILED, REFUSED = b"b", b"s", b"f", b"r"
_LONGEST_FAILURE = 2000  # bytes
_LONGEST_WAIT = 1.0  # seconds without a look at the followers


class ReaderEnd:
    """`followers`: their connections and processes. `timeout`: seconds that they may keep the reader waiting; then they
    are left to read by themselves. `slabs`: batches lie in these; None: each in memory of its own. One thread at a
    time."""

    def __init__(
        self, followers: list[tuple[socket.socket, WatchedProcess]], timeout: float, slabs: SlabRing | None = None
    ):
        self._process, self._timeout, self._slabs = os.getpid(), timeout, slabs
        self._followers = [_Follower(*each) for each in followers]

    def wait_for_room(self) -> bool:
        """Waits for followers that are `AHEAD` batches behind. Returns whether there is any follower left."""
        end = time.monotonic() + self._timeout
        while True:
            for follower in self._followers:
                follower.look()
            if self._slabs is not None and any(follower.gone for follower in self._followers):
                self._slabs.renew()  # its device may still copy from them
            self._followers = [follower for follower in self._followers if not follower.gone]
            behind = [follower for follower in self._followers if follower.untaken >= AHEAD]
            left = end - time.monotonic()
            if not behind:
                return bool(self._followers)
            if left <= 0:
                for follower in behind:
                    follower.leave()
            poll = select.poll()
            for follower in behind:
                follower.register(poll)
            poll.poll(1000 * min(max(left, 0), _LONGEST_WAIT))

    def write(self, value: Any, names: tuple[str, ...] = ()) -> int:
        """A descriptor of memory that holds `value`, for `give`. `names` and errors as for `write_sealed`."""
        return write_sealed(value, names) if self._slabs is None else self._slabs.write(value, names)

    def give(self, fd: int) -> None:
        """Hands the batch behind `fd` to all followers, and closes `fd`."""
        try:
            self._send(BATCH if self._slabs is None else SLAB, [fd])
        finally:
            os.close(fd)

    def refuse(self, text: str) -> None:
        """Lets followers raise TypeError with `text` in place of the next batch."""
        self._send(REFUSED + text.encode(), [])

    def fail(self, why: str) -> None:
        """Tells followers that the next batch, and all after it, could not be read."""
        self._send(FAILED + why.encode()[:_LONGEST_FAILURE], [])

    def close(self) -> None:
        """Ends the sharing; what was given can still be taken."""
        if self._process == os.getpid():
            for follower in self._followers:
                follower.leave()

    def _send(self, message: bytes, descriptors: list[int]) -> None:
        for follower in self._followers:
            follower.send(message, descriptors)


class _Follower:
    """A process that takes batches. `untaken`: how many of those that it was given it has not taken. `gone`: whether it
    takes no more."""

    def __init__(self, connection: socket.socket, watched: WatchedProcess):
        self.untaken, self.gone = 0, False
        self._connection, self._watched = connection, watched
        connection.setblocking(False)

    def send(self, message: bytes, descriptors: list[int]) -> None:
        if self.gone:
            return
        try:
            socket.send_fds(self._connection, [message], descriptors)
            self.untaken += 1
        except OSError:  # it has left, or it does not answer
            self.leave()

    def look(self) -> None:
        """Counts what it has taken, and notes that it has left."""
        try:
            while not self.gone and self._connection.recv(1):
                self.untaken -= 1
            self.leave()
        except BlockingIOError:
            if self._watched.ended():
                self.leave()
        except OSError:
            self.leave()

    def register(self, poll: select.poll) -> None:
        if not self.gone:
            self._watched.register(poll)
            poll.register(self._connection, select.POLLIN)

    def leave(self) -> None:
        """Ends the connection, also where a forked child of this process holds it."""
        self.gone = True
        self._watched.close()
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()
