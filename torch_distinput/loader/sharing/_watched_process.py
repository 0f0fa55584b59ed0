# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Whether another process of this host lives, and whether it is the one behind a connection."""

import contextlib
import os
import select
import socket
import struct
from typing import Protocol

_CREDENTIALS = struct.Struct("3i")  # process, user, group


class Watched(Protocol):
    """What may end, and then has nothing more to say."""

    def ended(self) -> bool:
        """Whether it is known to have ended."""

    def register(self, poll: "select.poll") -> None:
        """Lets `poll` return when it ends, where the kernel can tell."""


class WatchedProcess:
    """A process by its number. Its sockets alone do not tell when it ends: a child that it forked may hold them."""

    def __init__(self, number: int):
        self.number = number
        self._fd, self._found = -1, True
        try:
            self._fd = os.pidfd_open(number)
        except ProcessLookupError:
            self._found = False
        except OSError:  # a kernel that does not have it: the sockets tell
            pass

    def ended(self) -> bool:
        """Whether it is known to have ended."""
        if not self._found:
            return True
        if self._fd < 0:
            return False
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(0))

    def register(self, poll: "select.poll") -> None:
        """Lets `poll` return when the process ends."""
        if self._fd >= 0:
            poll.register(self._fd, select.POLLIN)

    def close(self) -> None:
        """Ends the watch."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)

    def __del__(self) -> None:
        self.close()


def is_of(connection: socket.socket, process: int) -> bool:
    """Whether the other end is the process of that number, of this user: the kernel tells."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    number, user, _ = _CREDENTIALS.unpack(credentials)
    return (number, user) == (process, os.getuid())
