# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""torch's handler of SIGCHLD, which raises in the main thread, wherever that is, if a worker has died.

Here it adds what is known about the worker, and is held back while a pool is being made or ended, so that no part of
that is left out.
"""

import re
import signal
import threading
import weakref
from typing import Any, Protocol

from torch.utils.data import _utils


class Watched(Protocol):
    """A pool of workers."""

    def explain_death(self, process: int, error: RuntimeError) -> bool:
        """Adds to `error` what is known about `process`. Returns whether `error` is wanted; True for any process that
        is not of this pool."""
        ...


class _Held:
    """A block in which the handler raises nothing; an error that was due is raised at its end."""

    def __init__(self) -> None:
        self._depth = 0
        self._due: RuntimeError | None = None

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._depth += 1

    def __exit__(self, *error: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._depth -= 1
        due = self._due
        if self._depth == 0 and due is not None:
            self._due = None
            raise due

    def hold(self, error: RuntimeError) -> bool:
        """Whether `error` must wait for the end of a block."""
        if self._depth:
            self._due = error
        return self._depth > 0

    def drop(self) -> None:
        """Forgets an error that was due."""
        self._due = None


held = _Held()
_pools: weakref.WeakSet[Any] = weakref.WeakSet()
_installed = False


def watch(pool: Watched) -> None:
    """Lets the handler, which the main thread installs, ask `pool` about processes."""
    global _installed
    _pools.add(pool)
    if _installed or threading.current_thread() is not threading.main_thread():
        return
    _utils.signal_handling._set_SIGCHLD_handler()
    inner = signal.getsignal(signal.SIGCHLD)
    if not callable(inner):
        return
    _installed = True

    def handler(number: int, frame: Any) -> None:
        try:
            inner(number, frame)
        except RuntimeError as error:
            if _is_wanted(error) and not held.hold(error):
                raise

    signal.signal(signal.SIGCHLD, handler)


def _is_wanted(error: RuntimeError) -> bool:
    found = re.search(r"\(pid (\d+)\)", str(error))
    return found is None or all(pool.explain_death(int(found[1]), error) for pool in list(_pools))
