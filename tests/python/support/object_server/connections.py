# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Listens for one dialect, with a thread for each connection."""

import contextlib
import socket
import ssl
import threading
from email.utils import formatdate
from typing import BinaryIO

from .delivery import Gone, deliver
from .dialect import Call, Dialect
from .faults import Fault, Faults
from .messages import BadRequest, NoRequest, Problem, Request, Response, read_body, read_head
from .ranges import asked_range
from .request_log import Entry, RequestLog

IDLE_LIMIT = 120.0  # seconds


class Listener:
    """Serves from `start` until `close`."""

    def __init__(self, dialect: Dialect, faults: Faults, log: RequestLog, tls: ssl.SSLContext | None):
        self._dialect, self._faults, self._log, self._tls = dialect, faults, log, tls
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port = self._socket.getsockname()[1]
        self._lock = threading.Lock()
        self._open: set[socket.socket] | None = set()  # None: closed

    def start(self) -> None:
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Ends all connections too; their threads then end by themselves."""
        with self._lock:
            ends, self._open = [self._socket, *(self._open or ())], None
        for end in ends:
            # Of the class: TLS must not be told, as its thread may be using it.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(end, socket.SHUT_RDWR)

    def _accept(self) -> None:
        with self._socket, contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _keep(self, connection: socket.socket) -> None:
        with self._lock:
            if self._open is None:
                raise Gone
            self._open.add(connection)

    def _forget(self, connection: socket.socket) -> None:
        with self._lock:
            if self._open is not None:
                self._open.discard(connection)

    def _serve(self, connection: socket.socket) -> None:
        number = self._log.connect()
        try:
            self._keep(connection)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(IDLE_LIMIT)
            if self._tls is not None:
                connection = self._with_tls(connection)
            _Conversation(connection, number, self._dialect, self._faults, self._log).run()
        except (NoRequest, Gone, OSError):
            pass  # the client has gone, or the fault said so
        finally:
            self._forget(connection)
            self._log.disconnect()
            connection.close()

    def _with_tls(self, connection: socket.socket) -> socket.socket:
        self._forget(connection)
        connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        self._keep(connection)
        connection.do_handshake()
        return connection


class _Conversation:
    def __init__(self, connection: socket.socket, number: int, dialect: Dialect, faults: Faults, log: RequestLog):
        self._connection, self._number = connection, number
        self._dialect, self._faults, self._log = dialect, faults, log

    def run(self) -> None:
        with self._connection.makefile("rb", 1 << 16) as stream:
            try:
                while True:
                    self._exchange(stream)
            except BadRequest as error:
                body = str(error).encode()
                head = f"HTTP/1.1 400 Bad Request\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                self._connection.sendall(head.encode() + body)

    def _exchange(self, stream: BinaryIO) -> None:
        request = read_head(stream)
        if request.header("expect").lower() == "100-continue":
            self._connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.body = read_body(stream, request)
        call = self._located(request)
        entry = self._begin(request, call)
        fault = self._faults.of(entry, self._dialect.objects)
        response = self._response(request, call, fault)
        response.headers["Date"] = formatdate(self._dialect.credentials.now(), usegmt=True)
        fault.alter(response)
        head_only = request.method == "HEAD"
        deliver(self._connection, response, fault, head_only=head_only, entry=entry, log=self._log)
        if request.header("connection").lower() == "close":
            raise Gone

    def _located(self, request: Request) -> Call:
        try:
            return self._dialect.locate(request)
        except (Problem, ValueError):
            return Call("unknown")

    def _begin(self, request: Request, call: Call) -> Entry:
        return self._log.begin(
            dialect=self._dialect.name,
            operation=call.operation,
            method=request.method,
            object=call.object,
            range=self._range(request, call),
            connection=self._number,
            headers=[name.lower() for name, _ in request.headers],
        )

    def _range(self, request: Request, call: Call) -> tuple[int, int] | None:
        stored = self._dialect.objects.get(call.object)
        with contextlib.suppress(Problem):
            return asked_range(self._dialect.range_header(request), len(stored.data)) if stored else None
        return None

    def _response(self, request: Request, call: Call, fault: Fault) -> Response:
        try:
            fault.refuse()
            scheme = self._dialect.addresses[self._dialect.name].partition(":")[0]
            elsewhere = fault.redirected(f"{scheme}://{request.header('host')}{request.target}")
            return elsewhere or self._dialect.answer(request, call)
        except Problem as problem:
            return self._dialect.error(request, problem)
        except ValueError as error:  # a number or a cursor that is none
            return self._dialect.error(request, Problem(400, "InvalidArgument", str(error)))
