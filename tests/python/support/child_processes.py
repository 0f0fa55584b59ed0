# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The processes that a test has started."""

import multiprocessing


def children() -> set[int]:
    """Those of this process, whichever thread has started them, and whether it or a server has forked them."""
    return {process.pid for process in multiprocessing.active_children() if process.pid is not None}
