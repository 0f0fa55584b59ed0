# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What a server was asked, and what it sent."""

import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Entry:
    """One request, whose response may still be on its way."""

    time: float  # of the system's monotonic clock, which all processes of the machine share
    dialect: str
    operation: str  # "read", "stat", "list", "write", "resolve", "token", or "unknown"
    method: str
    object: str
    range: tuple[int, int] | None  # the first and the last byte asked for, as far as the object has them
    connection: int
    headers: list[str]  # lower-case names: values may be secret
    status: int = 0  # 0: none was sent
    sent: int = 0  # bytes of the body
    faults: list[str] = field(default_factory=list)


class RequestLog:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[Entry] = []
        self._running = self._most_running = 0
        self._open = self._most_open = self._connections = 0
        self._number = 0

    def clear(self) -> None:
        """Forgets what has been, so that all is counted from now on."""
        with self._lock:
            self._entries = []
            self._most_running = self._running
            self._most_open = self._connections = self._open

    def connect(self) -> int:
        """A number for a new connection."""
        with self._lock:
            self._number += 1
            self._connections += 1
            self._open += 1
            self._most_open = max(self._most_open, self._open)
            return self._number

    def disconnect(self) -> None:
        with self._lock:
            self._open -= 1

    def begin(self, **fields: Any) -> Entry:
        entry = Entry(time.monotonic(), **fields)
        with self._lock:
            self._entries.append(entry)
            self._running += 1
            self._most_running = max(self._most_running, self._running)
        return entry

    def end(self) -> None:
        with self._lock:
            self._running -= 1

    def entries(self) -> list[dict]:
        with self._lock:
            return [asdict(entry) for entry in self._entries]

    def counters(self) -> dict[str, int]:
        with self._lock:
            return {
                "requests": len(self._entries),
                "sent": sum(entry.sent for entry in self._entries),
                "connections": self._connections,
                "most_requests": self._most_running,
                "most_connections": self._most_open,
            }
