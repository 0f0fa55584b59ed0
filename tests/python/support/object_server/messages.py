# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Requests as they come over a connection, and responses before they are sent. HTTP/1.1 only, and strictly."""

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import BinaryIO
from urllib.parse import parse_qsl, unquote

MAX_LINE = 1 << 16
MAX_HEADERS = 100
MAX_BODY = 1 << 30

_REQUEST_LINE = re.compile(rb"([A-Z]+) ([!-~]+) HTTP/1\.1\r\n")
_HEADER_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n]*?)[ \t]*\r\n")


class Problem(Exception):
    """What a dialect answers instead: it writes `code` and `text` in its own form."""

    def __init__(self, status: int, code: str, text: str, headers: dict[str, str] | None = None):
        super().__init__(text)
        self.status, self.code, self.text, self.headers = status, code, text, headers or {}


class NoRequest(Exception):
    """The connection ended where a request would begin."""


class BadRequest(Exception):
    """What came is no HTTP/1.1."""


@dataclass
class Request:
    method: str
    target: str  # as sent
    headers: list[tuple[str, str]]
    body: bytes = b""

    @cached_property
    def lower(self) -> dict[str, str]:
        """Values by lower-case name; those of one name joined."""
        values: dict[str, str] = {}
        for name, value in self.headers:
            name = name.lower()
            values[name] = f"{values[name]},{value}" if name in values else value
        return values

    def header(self, name: str) -> str:
        return self.lower.get(name, "")

    @property
    def raw_path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def path(self) -> str:
        return unquote(self.raw_path, errors="surrogateescape")

    @property
    def raw_query(self) -> str:
        return self.target.partition("?")[2]

    @cached_property
    def pairs(self) -> list[tuple[str, str]]:
        return parse_qsl(self.raw_query, keep_blank_values=True, errors="surrogateescape")

    @cached_property
    def query(self) -> dict[str, str]:
        return dict(self.pairs)

    @property
    def host(self) -> str:
        return self.header("host").rpartition(":")[0] or self.header("host")


@dataclass
class Response:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | memoryview = b""
    # All bytes of the object of which the body is a part.
    whole: bytes | None = None


def read_head(stream: BinaryIO) -> Request:
    line = stream.readline(MAX_LINE)
    if not line:
        raise NoRequest
    match = _REQUEST_LINE.fullmatch(line)
    if not match:
        raise BadRequest(f"the request line {line[:80]!r}")
    request = Request(match[1].decode(), match[2].decode(), _read_headers(stream))
    if sum(name.lower() == "host" for name, _ in request.headers) != 1:
        raise BadRequest("there must be one Host")
    return request


def _read_headers(stream: BinaryIO) -> list[tuple[str, str]]:
    headers = []
    while (line := stream.readline(MAX_LINE)) != b"\r\n":
        match = _HEADER_LINE.fullmatch(line)
        if not match or len(headers) == MAX_HEADERS:
            raise BadRequest(f"the header {line[:80]!r}")
        headers.append((match[1].decode(), match[2].decode("latin-1")))
    return headers


def read_body(stream: BinaryIO, request: Request) -> bytes:
    if request.header("transfer-encoding"):
        if request.header("transfer-encoding").lower() != "chunked" or request.header("content-length"):
            raise BadRequest("the body's framing")
        return _read_chunks(stream)
    size = request.header("content-length") or "0"
    if not size.isdecimal() or int(size) > MAX_BODY:
        raise BadRequest(f"Content-Length {size!r}")
    return _exactly(stream, int(size))


def _read_chunks(stream: BinaryIO) -> bytes:
    body = bytearray()
    while size := _chunk_size(stream.readline(MAX_LINE)):
        body += _exactly(stream, size)
        if len(body) > MAX_BODY or stream.read(2) != b"\r\n":
            raise BadRequest("a chunk")
    _read_headers(stream)
    return bytes(body)


def _chunk_size(line: bytes) -> int:
    match = re.fullmatch(rb"([0-9a-fA-F]{1,8})(;[^\r\n]*)?\r\n", line)
    if not match:
        raise BadRequest(f"the chunk {line[:80]!r}")
    return int(match[1], 16)


def _exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise BadRequest("the body ends early")
    return data
