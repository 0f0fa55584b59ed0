# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The processes that a test has started."""

import contextlib
from pathlib import Path


def children() -> set[int]:
    """Those of this process, whichever thread has started them."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # the thread has ended
            found |= {int(pid) for pid in (task / "children").read_text().split()}
    return found
