# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""How a reader reaches the readers of other hosts: over TCP, by a thread on both sides.

Each thread passes on what goes between a socket of its process, on which the ends speak as on one host, and the
network. There, a message is its first byte, the length of what follows, and that: a text, or the memory of a batch. An
answer is one byte.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator

import torch.distributed as dist

from torch_distinput.base._sealed_memory import sealed_from
from torch_distinput.loader.sharing._door import Door, first_text
from torch_distinput.loader.sharing._follower_end import LONGEST_TEXT, received
from torch_distinput.loader.sharing._host_peers import Peer
from torch_distinput.loader.sharing._network_address import NetworkAddress, own_hosts
from torch_distinput.loader.sharing._reader_end import BATCH, FAILED, REFUSED
from torch_distinput.loader.sharing._watched_process import Watched, WatchedProcess

_HEAD = struct.Struct("<cQ")
_DIGITS = 20  # of an iterator's number
_CONNECT_SECONDS = 5.0  # for each address of a host
_CHUNK = 1 << 20
_LOOK = 1.0  # seconds between two looks into the store


class NetworkDoor:
    """Lets in readers that know its token, which only the group's store tells."""

    def __init__(self, store: dist.Store):
        family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
        listener = socket.create_server(("", 0), family=family, dualstack_ipv6=family == socket.AF_INET6)
        self.address = NetworkAddress(own_hosts(store), listener.getsockname()[1], secrets.token_hex(16))
        self._door = Door(listener)

    def connection(self, number: int, reader: Watched, timeout: float, late: str) -> socket.socket | None:
        """As `Door.connection`."""
        token = self.address.token
        return self._door.connection(number, reader, lambda each: _number(each, token), timeout, late)

    def close(self) -> None:
        """As `Door.close`."""
        self._door.close()


def _number(connection: socket.socket, token: str) -> int | None:
    text = first_text(connection, len(token) + _DIGITS)
    known, digits = text[: len(token)], text[len(token) :]
    return int(digits) if hmac.compare_digest(known, token.encode()) and digits.isdigit() else None


class UnreachableKey:
    """A key of the store by which a reader tells a follower on another host that it cannot connect to it."""

    def __init__(self, store: dist.Store, number: int, rank: int):
        self._store, self._key, self._next_look = store, f"unreachable/{number}/{rank}", 0.0

    def set(self) -> None:
        """Tells it."""
        with contextlib.suppress(RuntimeError):  # the store is gone
            self._store.set(self._key, "1")

    def ended(self) -> bool:
        """Whether it was told."""
        if time.monotonic() < self._next_look:
            return False
        self._next_look = time.monotonic() + _LOOK
        return self._store.check([self._key])

    def register(self, poll: select.poll) -> None:
        """Does nothing: `ended` is asked."""


def reach(
    peers: Iterable[Peer], number: int, unreachable: Callable[[Peer], None]
) -> list[tuple[socket.socket, WatchedProcess]]:
    """Connections to the readers of other hosts for iterator `number`, and the process that serves them: this one.
    Calls `unreachable` with those of which no address answers. Returns when all others are connected, at most a few
    seconds later: should this process be killed then, their kernels tell them so."""
    links = [_begun(peer, number, unreachable) for peer in peers]
    for _, connected in links:
        connected.wait()
    return [(ours, WatchedProcess(os.getpid())) for ours, _ in links]


def _begun(peer: Peer, number: int, unreachable: Callable[[Peer], None]) -> tuple[socket.socket, threading.Event]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connected = threading.Event()
    work = (theirs, peer, number, unreachable, connected.set)
    threading.Thread(target=_send, args=work, name="tdi-share", daemon=True).start()
    return ours, connected


def arrive(remote: socket.socket) -> socket.socket:
    """What comes over `remote`, as from a reader on this host."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    threading.Thread(target=_receive, args=(theirs, remote), name="tdi-share", daemon=True).start()
    return ours


def _send(
    local: socket.socket, peer: Peer, number: int, unreachable: Callable[[Peer], None], connected: Callable[[], None]
) -> None:
    with _ended(local):
        try:
            remote = _connected(peer, number)
        finally:
            connected()
        if remote is None:
            return unreachable(peer)
        with _ended(remote), contextlib.suppress(OSError):  # the other host has left
            _watch_ends(remote)
            _pass_on(local, remote, lambda: _send_message(local, remote), lambda: _answers(remote, local, _CHUNK))


def _receive(local: socket.socket, remote: socket.socket) -> None:
    with _ended(local), _ended(remote), contextlib.suppress(OSError, EOFError):
        _watch_ends(remote)
        _pass_on(remote, local, lambda: _receive_message(remote, local), lambda: _answers(local, remote, 1))


@contextlib.contextmanager
def _ended(connection: socket.socket) -> Iterator[None]:
    """Ends a connection after use, also where a forked child of this process holds it."""
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()


def _pass_on(
    giver: socket.socket, taker: socket.socket, message: Callable[[], bool], answers: Callable[[], bool]
) -> None:
    """Passes on messages from `giver`, and answers of `taker`, until `taker` ends."""
    poll = select.poll()
    poll.register(giver, select.POLLIN)
    poll.register(taker, select.POLLIN)
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if taker.fileno() in ready and not answers():
            return
        if giver.fileno() in ready and not message():
            poll.unregister(giver)
            taker.shutdown(socket.SHUT_WR)


def _answers(taker: socket.socket, giver: socket.socket, most: int) -> bool:
    """Passes on some answers; returns False at their end."""
    answers = taker.recv(most)
    with contextlib.suppress(OSError):  # a reader that has left does not listen
        for _ in answers:
            giver.send(BATCH)
    return bool(answers)


def _send_message(local: socket.socket, remote: socket.socket) -> bool:
    text, descriptors = received(local)
    if not text:
        return False
    if not descriptors:
        remote.sendall(_HEAD.pack(text[:1], len(text) - 1) + text[1:])
        return True
    (fd,) = descriptors
    try:
        size, sent = os.fstat(fd).st_size, 0
        remote.sendall(_HEAD.pack(BATCH, size))
        while sent < size:
            sent += os.sendfile(remote.fileno(), fd, sent, size - sent)
    finally:
        os.close(fd)
    return True


def _receive_message(remote: socket.socket, local: socket.socket) -> bool:
    head = _received_whole(remote, _HEAD.size)
    if head is None:
        return False
    kind, size = _HEAD.unpack(head)
    if kind == BATCH:
        fd = sealed_from(size, lambda most: remote.recv(min(most, _CHUNK)))
        try:
            socket.send_fds(local, [BATCH], [fd])
        finally:
            os.close(fd)
        return True
    if kind not in (FAILED, REFUSED) or size >= LONGEST_TEXT:
        return False
    text = _received_whole(remote, size)
    if text is None:
        return False
    local.send(kind + text)
    return True


def _received_whole(remote: socket.socket, size: int) -> bytes | None:
    text = b""
    while len(text) < size:
        some = remote.recv(size - len(text))
        if not some:
            return None
        text += some
    return text


def _watch_ends(remote: socket.socket) -> None:
    """Lets the kernel find out that the other host is gone."""
    remote.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    remote.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 5)
    remote.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    remote.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 5)
    remote.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _connected(peer: Peer, number: int) -> socket.socket | None:
    address = peer.network
    for host in () if address is None else address.hosts:
        assert address is not None, "the loop has an address"
        with contextlib.suppress(OSError):
            remote = socket.create_connection((host, address.port), _CONNECT_SECONDS)
            remote.settimeout(None)
            remote.sendall(f"{address.token}{number:0{_DIGITS}}".encode())
            return remote
    return None
