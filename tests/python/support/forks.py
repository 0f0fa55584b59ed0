# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A forked child that has what its parent has open, and does nothing; and processes that start as one."""

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def forked() -> Iterator[None]:
    """The child lives inside of the context."""
    child = os.fork()
    if child == 0:
        while True:
            signal.pause()
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@contextlib.contextmanager
def processes_forked() -> Iterator[None]:
    """Processes are forked inside of the context, also where that is not how they start by default."""
    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method("fork", force=True)
    try:
        yield
    finally:
        multiprocessing.set_start_method(before, force=True)
