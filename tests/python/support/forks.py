# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A forked child that has what its parent has open, and does nothing."""

import contextlib
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
