# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Sends a response, with the faults of its delivery."""

import fcntl
import select
import socket
import struct
import termios
import time

from .faults import Fault
from .messages import Response
from .request_log import Entry, RequestLog

PIECE = 1 << 18
REASONS = {200: "OK", 206: "Partial Content"}  # others say their number: nobody may read it
BODILESS = (204, 304)


class Gone(Exception):
    """The connection can take no further request."""


def deliver(
    connection: socket.socket, response: Response, fault: Fault, *, head_only: bool, entry: Entry, log: RequestLog
) -> None:
    """Sends `response`. `entry` says at each moment at least what its client can have seen; the request is no longer
    running when at most a piece of its body is left to send. Raises Gone if the connection is of no further use."""
    delivery = _Delivery(connection, fault, entry, log)
    try:
        delivery.send(response, b"" if head_only or response.status in BODILESS else response.body)
    finally:
        delivery.end()


class _Delivery:
    def __init__(self, connection: socket.socket, fault: Fault, entry: Entry, log: RequestLog):
        self._connection, self._fault, self._entry, self._log = connection, fault, entry, log
        self._running = True

    def end(self) -> None:
        if self._running:
            self._running = False
            self._log.end()

    def send(self, response: Response, body: bytes | memoryview) -> None:
        fault = self._fault
        wait(self._connection, fault.first_byte_delay)
        if fault.drop:
            raise Gone
        if fault.garbage is not None:
            self._connection.sendall(fault.garbage.encode("latin-1"))
            raise Gone
        self._entry.status = response.status
        self._connection.sendall(self._head(response))
        self._send_body(memoryview(body))
        if fault.close or fault.length_error > 0:
            self.end()
            raise Gone

    def _head(self, response: Response) -> bytes:
        headers = {"Content-Length": str(len(response.body) + self._fault.length_error), **response.headers}
        for name in self._fault.without:
            headers.pop(name, None)
        lines = [f"HTTP/1.1 {response.status} {REASONS.get(response.status, response.status)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def _send_body(self, body: memoryview) -> None:
        fault = self._fault
        ends = [each for each in (fault.reset_after, fault.half_close_after) if each is not None and each <= len(body)]
        end = min([*ends, len(body)])
        if fault.stall_after is not None and fault.stall_after <= end:
            self._send_part(body[: fault.stall_after], last=False)
            wait(self._connection, fault.stall)
            self._send_part(body[fault.stall_after : end], last=True)
        else:
            self._send_part(body[:end], last=True)
        if not ends:
            return
        self.end()
        if end == fault.reset_after:
            reset(self._connection)
        else:
            half_close(self._connection)
        raise Gone

    def _send_part(self, part: memoryview, *, last: bool) -> None:
        trickle = self._fault.trickle
        size = PIECE if trickle is None else max(1, int(trickle / 20))
        for begin in range(0, len(part), size):
            piece = part[begin : begin + size]
            if last and begin + size >= len(part):
                self.end()
            self._send_piece(piece)
            if trickle is not None and begin + size < len(part):
                wait(self._connection, len(piece) / trickle)

    def _send_piece(self, piece: memoryview) -> None:
        # Counted before it is sent: a client that has the bytes finds them in the log.
        before = self._entry.sent
        self._entry.sent += len(piece)
        sent = 0
        try:
            while sent < len(piece):
                sent += self._connection.send(piece[sent:])
        except OSError:
            self._entry.sent = before + sent
            raise


def wait(connection: socket.socket, seconds: float) -> None:
    """Waits, unless the client goes away: Gone."""
    end = time.monotonic() + seconds
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLRDHUP)
    while (left := end - time.monotonic()) > 0:
        # Rounded up, as poll counts milliseconds.
        if poll.poll(left * 1000 + 1):
            raise Gone


def reset(connection: socket.socket) -> None:
    """Ends the connection by a reset, once the client's system has what was sent."""
    end = time.monotonic() + 2
    while _unacknowledged(connection) and time.monotonic() < end:
        time.sleep(0.001)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _unacknowledged(connection: socket.socket) -> int:
    (size,) = struct.unpack("i", fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, b"\0\0\0\0"))
    return size


def half_close(connection: socket.socket) -> None:
    """Sends no more, and waits until the client goes away."""
    connection.shutdown(socket.SHUT_WR)
    try:
        wait(connection, 3600)
    except Gone:
        return
