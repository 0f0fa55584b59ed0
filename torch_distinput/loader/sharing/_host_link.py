# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""How a reader reaches the followers on its host: by addresses without names in the file system."""

from __future__ import annotations

import contextlib
import socket

from torch_distinput.loader.sharing._door import Door, first_text
from torch_distinput.loader.sharing._host_peers import Peer
from torch_distinput.loader.sharing._watched_process import WatchedProcess, is_of

_DIGITS = 20  # of an iterator's number


class HostDoor:
    """Lets in the reader of this host. The kernel chooses the address, and takes it back with this process."""

    def __init__(self) -> None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind("")
        self.address: bytes = listener.getsockname()
        self._door = Door(listener)

    def connection(self, number: int, reader: WatchedProcess, timeout: float, late: str) -> socket.socket | None:
        """As `Door.connection`."""
        return self._door.connection(number, reader, lambda each: _number(each, reader.number), timeout, late)

    def close(self) -> None:
        """As `Door.close`."""
        self._door.close()


def _number(connection: socket.socket, reader: int) -> int | None:
    text = first_text(connection, _DIGITS) if is_of(connection, reader) else b""
    return int(text) if text.isdigit() else None


def reach(peer: Peer, number: int) -> tuple[socket.socket, WatchedProcess] | None:
    """A connection to a follower for iterator `number`, and its process; None where it has closed its loader, or has
    too many iterators that it does not read."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.setblocking(False)
    with contextlib.suppress(OSError):
        connection.connect(peer.address)
        if is_of(connection, peer.process):
            connection.send(f"{number:0{_DIGITS}}".encode())
            return connection, WatchedProcess(peer.process)
    connection.close()
    return None
