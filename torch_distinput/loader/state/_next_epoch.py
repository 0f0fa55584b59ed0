# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What reads the begin of an epoch before its iterator is asked for."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any, Protocol


class ReadsEarly(Protocol):
    """A native iterator that can begin to read."""

    def close(self) -> None: ...


class NextEpoch:
    """The native iterator of the epoch after one whose last batch was taken. It has handed out nothing, so that to drop
    it loses nothing. `key`: of the pipeline, epoch and seed that it runs."""

    def __init__(self) -> None:
        self._key: Any = None
        self._native: ReadsEarly | None = None

    def begin(self, key: Any, open: Callable[[], ReadsEarly]) -> None:
        """Keeps the iterator that `open` makes and lets begin to read. An error is left to who asks for that epoch."""
        self.drop()
        with contextlib.suppress(Exception):
            self._native = open()
            self._key = (os.getpid(), key)

    def take(self, key: Any) -> Any:
        """The iterator, if it is that of `key` and of this process; another one is dropped."""
        if self._key != (os.getpid(), key):
            self.drop()
        native, self._key, self._native = self._native, None, None
        return native

    def drop(self) -> None:
        """Ends the reading."""
        native, self._key, self._native = self._native, None, None
        if native is not None:
            with contextlib.suppress(Exception):  # in a forked child
                native.close()
