# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A network between a client and a server: a TCP relay in a process of its own, with latency, bandwidth and breaks.

Every chunk is sent on when it is due by a clock: after those before it have passed at the line's rate, and the latency
and the jitter then. The relay answers connects itself, at once, so a connect takes no round trip.
"""

import contextlib
import fcntl
import json
import os
import random
import select
import socket
import struct
import sys
import termios
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from rig_process import RigProcess, obey

LIFE = 300.0  # seconds
CHUNK = 1 << 17
BURST = 0.005  # seconds for which a line's rate may be made up for
MIN_WINDOW, MAX_WINDOW = 1 << 18, 1 << 26  # bytes on their way in one direction of a connection


class Relay:
    """A relay to the server at `url`, in a process of its own. Close it, or use it in a `with`."""

    def __init__(self, url: str, *, life: float = LIFE):
        parts = urlsplit(url)
        self._process = RigProcess("relay", {"host": parts.hostname, "port": parts.port}, life)
        try:
            self.url = f"{parts.scheme}://127.0.0.1:{self._process.ask('port')}"
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Relay":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._process.close()

    def shape(
        self,
        *,
        latency: float = 0.0,
        jitter: float = 0.0,
        bandwidth: float | None = None,
        total_bandwidth: float | None = None,
        seed: int = 0,
    ) -> None:
        """What holds for all that is received from now on. `latency` in each direction, to which a chunk adds up to
        `jitter`, by `seed` (seconds); `bandwidth` of each connection and of all together, in each direction (bytes a
        second)."""
        self._process.ask("shape", **{name: value for name, value in locals().items() if name != "self"})

    def cut(self, how: str, *, after: int, direction: str = "down", connections: list[int] | None = None) -> None:
        """New connections break when `after` bytes have gone "down" to the client, or "up". `how`: "reset", "close",
        "half_close" (ends this direction alone) or "black_hole" (nothing goes this way any more). `connections`: only
        these, counted from 0 from now on."""
        self._process.ask("cut", how=how, after=after, direction=direction, connections=connections)

    def heal(self) -> None:
        """New connections break no more."""
        self._process.ask("heal")

    def pause(self) -> None:
        """Nothing goes either way, on all connections, until `resume`; then all that was held goes."""
        self._process.ask("pause", paused=True)

    def resume(self) -> None:
        self._process.ask("pause", paused=False)

    def reset_all(self) -> None:
        """Resets all connections."""
        self._process.ask("reset_all")

    def counters(self) -> dict[str, int]:
        """`connections` so far, those `open` now, those that were `broken` by a cut, and bytes that went "up" and
        "down"."""
        return self._process.ask("counters")


# Its process


@dataclass(frozen=True)
class _Shape:
    latency: float = 0.0
    jitter: float = 0.0
    bandwidth: float | None = None
    total_bandwidth: float | None = None
    seed: int = 0

    def window(self) -> int:
        if self.bandwidth is None:
            return MAX_WINDOW
        return min(max(MIN_WINDOW, int(2 * self.bandwidth * (self.latency + self.jitter + BURST))), MAX_WINDOW)


@dataclass(frozen=True)
class _Cut:
    how: str
    after: int
    direction: str
    connections: list[int] | None
    begin: int  # the number of the connection that is counted as 0

    def is_about(self, connection: int, direction: str) -> bool:
        chosen = self.connections is None or connection - self.begin in self.connections
        return chosen and self.direction == direction


class _Line:
    """A rate of bytes, as the time at which the next one may pass."""

    def __init__(self) -> None:
        self._free = 0.0

    def pass_at(self, now: float, size: int, rate: float | None) -> float:
        if rate is None:
            return now
        self._free = max(self._free, now - BURST) + size / rate
        return max(self._free, now)


@dataclass
class _Flow:
    """One direction of a connection. The queue's chunks are due at a time; an empty one is the end of the stream."""

    direction: str
    source: socket.socket
    destination: socket.socket
    cut: _Cut | None
    line: _Line = field(default_factory=_Line)
    queue: deque[tuple[float, memoryview]] = field(default_factory=deque)
    held: int = 0  # bytes in the queue
    sent: int = 0
    last_due: float = 0.0
    reading: bool = True  # until the end of the stream
    ended: bool = False  # the destination knows of the end
    full: bool = False  # the destination takes no more now
    dark: bool = False  # a black hole


class _Reset(Exception):
    """The connection must end by a reset."""


class _Closed(Exception):
    """The connection must end."""


class _Loop:
    """All connections, on one thread; others call in by `call`."""

    def __init__(self, host: str, port: int):
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self._epoll = select.epoll()
        self._waker, self._woken = os.pipe()[::-1]
        self._calls: deque[Callable[[], None]] = deque()
        self._flows: dict[int, tuple[_Flow, _Flow]] = {}  # by descriptor: that from the socket, that to it
        self._masks: dict[int, int] = {}
        self._shape, self._random = _Shape(), random.Random(0)
        self._cuts: list[_Cut] = []
        self._lines = {"up": _Line(), "down": _Line()}
        self._paused = False
        self._counts = {"connections": 0, "open": 0, "broken": 0, "up": 0, "down": 0}

    # Commands

    def shape(self, **values: Any) -> None:
        self._call(lambda: self._set_shape(_Shape(**values)))

    def _set_shape(self, shape: _Shape) -> None:
        self._shape, self._random = shape, random.Random(shape.seed)
        self._watch_all()

    def _watch_all(self) -> None:
        for up, _ in self._flows.values():
            self._watch(up.source)

    def cut(self, **values: Any) -> None:
        self._call(lambda: self._cuts.append(_Cut(**values, begin=self._counts["connections"])))

    def heal(self) -> None:
        self._call(self._cuts.clear)

    def pause(self, paused: bool) -> None:
        self._call(lambda: self._set_paused(paused))

    def _set_paused(self, paused: bool) -> None:
        self._paused = paused
        self._watch_all()

    def reset_all(self) -> None:
        self._call(self._drop_all)

    def _drop_all(self) -> None:
        while self._flows:
            flow, _ = next(iter(self._flows.values()))
            self._drop(flow, reset=True)

    def counters(self) -> dict[str, int]:
        return dict(self._counts)

    def _call(self, function: Callable[[], Any]) -> None:
        """Calls `function` on the loop's thread, and waits for it."""
        done = threading.Event()
        self._calls.append(lambda: (function(), done.set()))
        os.write(self._waker, b"1")
        if not done.wait(10):
            raise TimeoutError("the relay's loop does not answer")

    # The loop

    def run(self) -> None:
        self._epoll.register(self._listener, select.EPOLLIN)
        self._epoll.register(self._woken, select.EPOLLIN)
        while True:
            for descriptor, events in self._epoll.poll(self._timeout()):
                if descriptor == self._woken:
                    os.read(self._woken, 1)
                    self._calls.popleft()()
                elif descriptor == self._listener.fileno():
                    self._accept()
                elif descriptor in self._flows:
                    self._guarded(self._flows[descriptor], events)
            self._send_due()

    def _timeout(self) -> float:
        if self._paused:
            return 60.0
        due = [flow.queue[0][0] for flow, _ in self._flows.values() if flow.queue and not flow.full and not flow.dark]
        return max(0.0, min(due, default=60.0 + time.monotonic()) - time.monotonic())

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        try:
            server = socket.create_connection(self._target, timeout=5)
        except OSError:
            client.close()
            return
        for end in (client, server):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        number = self._counts["connections"]
        up, down = self._flow("up", client, server, number), self._flow("down", server, client, number)
        self._flows[client.fileno()], self._flows[server.fileno()] = (up, down), (down, up)
        self._counts["connections"] += 1
        self._counts["open"] += 1
        for end in (client, server):
            self._masks[end.fileno()] = 0
            self._epoll.register(end, 0)
            self._watch(end)

    def _flow(self, direction: str, source: socket.socket, destination: socket.socket, number: int) -> _Flow:
        cuts = [cut for cut in self._cuts if cut.is_about(number, direction)]
        return _Flow(direction, source, destination, cuts[0] if cuts else None)

    def _watch(self, end: socket.socket) -> None:
        """Waits for what its two flows need of a socket."""
        descriptor = end.fileno()
        outward, inward = self._flows[descriptor]
        reads = outward.reading and outward.held < self._shape.window() and not self._paused
        mask = (select.EPOLLIN if reads else 0) | (select.EPOLLOUT if inward.full else 0)
        if mask != self._masks.get(descriptor, mask):
            self._masks[descriptor] = mask
            self._epoll.modify(descriptor, mask)

    def _guarded(self, flows: tuple[_Flow, _Flow], events: int) -> None:
        outward, inward = flows
        try:
            if events & select.EPOLLOUT:
                inward.full = False
                self._send(inward)
            if events & select.EPOLLERR:
                raise _Reset
            if events & select.EPOLLHUP and not outward.reading:
                self._forget(outward.source.fileno())
            elif events & (select.EPOLLIN | select.EPOLLHUP):
                self._receive(outward)
        except (_Reset, ConnectionError):
            self._drop(outward, reset=True)
        except _Closed:
            self._drop(outward, reset=False)
        else:
            self._watch_both(outward)

    def _forget(self, descriptor: int) -> None:
        """Nothing more comes or goes there, and epoll would say so for ever."""
        if self._masks.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def _watch_both(self, flow: _Flow) -> None:
        self._watch(flow.source)
        self._watch(flow.destination)

    def _receive(self, flow: _Flow) -> None:
        try:
            data = flow.source.recv(CHUNK)
        except BlockingIOError:
            return
        now, shape = time.monotonic(), self._shape
        own = flow.line.pass_at(now, len(data), shape.bandwidth)
        all_ = self._lines[flow.direction].pass_at(now, len(data), shape.total_bandwidth)
        due = max(own, all_) + shape.latency + self._random.uniform(0, shape.jitter)
        flow.last_due = max(flow.last_due, due)
        flow.queue.append((flow.last_due, memoryview(data)))
        flow.held += len(data)
        flow.reading = bool(data)

    def _send_due(self) -> None:
        if self._paused:
            return
        now = time.monotonic()
        for flow, back in list(self._flows.values()):
            if flow.queue and flow.queue[0][0] <= now and not flow.full and not flow.dark:
                # A flow that was dropped meanwhile has an empty queue.
                self._guarded((back, flow), select.EPOLLOUT)

    def _send(self, flow: _Flow) -> None:
        now = time.monotonic()
        while flow.queue and flow.queue[0][0] <= now and not flow.full and not flow.dark:
            _, data = flow.queue.popleft()
            flow.held -= len(data)
            if not data:
                self._end(flow)
                return
            self._send_chunk(flow, data)

    def _send_chunk(self, flow: _Flow, data: memoryview) -> None:
        left = data if flow.cut is None else data[: max(0, flow.cut.after - flow.sent)]
        with contextlib.suppress(BlockingIOError):
            while left:
                sent = flow.destination.send(left)
                flow.sent += sent
                self._counts[flow.direction] += sent
                left, data = left[sent:], data[sent:]
        if flow.cut is not None and flow.sent >= flow.cut.after and data:
            self._break(flow, flow.cut.how)
        elif data:
            flow.full = True
            flow.queue.appendleft((0.0, data))
            flow.held += len(data)

    def _break(self, flow: _Flow, how: str) -> None:
        self._counts["broken"] += 1
        if how == "black_hole":
            flow.dark, flow.reading = True, False
            return
        _drain(flow.destination)
        if how == "half_close":
            flow.dark, flow.reading = True, False
            try:
                flow.destination.shutdown(socket.SHUT_WR)
            except OSError:  # the other side has left
                raise _Closed from None
            return
        raise _Reset if how == "reset" else _Closed

    def _end(self, flow: _Flow) -> None:
        flow.ended = True
        with contextlib.suppress(OSError):
            flow.destination.shutdown(socket.SHUT_WR)
        _, back = self._flows[flow.source.fileno()]
        if back.ended or back.dark:
            raise _Closed

    def _drop(self, flow: _Flow, *, reset: bool) -> None:
        self._counts["open"] -= 1
        for end in (flow.source, flow.destination):
            descriptor = end.fileno()
            for each in self._flows.pop(descriptor):
                each.queue.clear()
            self._forget(descriptor)
            if reset:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.close()


def _drain(end: socket.socket) -> None:
    """Waits until the other side's system has what was sent: a reset would throw it away."""
    limit = time.monotonic() + 0.2
    while _unacknowledged(end) and time.monotonic() < limit:
        time.sleep(0.0005)


def _unacknowledged(end: socket.socket) -> int:
    (size,) = struct.unpack("i", fcntl.ioctl(end.fileno(), termios.TIOCOUTQ, b"\0\0\0\0"))
    return size


def main() -> None:
    settings = json.loads(sys.argv[1])
    loop = _Loop(settings["host"], settings["port"])
    threading.Thread(target=loop.run, daemon=True).start()
    commands = {name: getattr(loop, name) for name in ("shape", "cut", "heal", "pause", "reset_all", "counters")}
    obey({"port": lambda: loop.port, **commands}.__getitem__, settings["life"])


if __name__ == "__main__":
    main()
