# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Whom a server knows, and how long."""

import threading
import time
from dataclasses import dataclass

from .messages import Problem


@dataclass
class Grant:
    """A secret of a kind: "s3" (an access key's), "azure" (an account's, base64), "sas" (a query), "bearer", or
    "refresh" (a client's id and secret, of a token that others are given for)."""

    kind: str
    name: str  # the access key, the account, the query or the token
    secret: str = ""
    session_token: str = ""
    requests: int | None = None  # it expires after so many
    expires: float | None = None  # seconds since 1970


class Credentials:
    """Thread-safe. `clock_offset` is what the server's clock is ahead of this machine's, in seconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._grants: dict[tuple[str, str], Grant] = {}
        self.clock_offset = 0.0
        self.anonymous = False

    def now(self) -> float:
        return time.time() + self.clock_offset

    def allow(self, grant: Grant) -> None:
        with self._lock:
            self._grants[grant.kind, grant.name] = grant

    def expire(self, kind: str, name: str) -> None:
        with self._lock:
            self._grants[kind, name].requests = 0

    def known(self, kind: str, name: str) -> Grant | None:
        return self._grants.get((kind, name))

    def use(self, grant: Grant, expired: Problem) -> None:
        """Counts a request. Raises `expired` if the grant is."""
        with self._lock:
            if grant.requests == 0 or (grant.expires is not None and grant.expires < self.now()):
                raise expired
            if grant.requests is not None:
                grant.requests -= 1
