# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The pools of worker processes over which a test runs: this library's, and torch's, which stands in for it.

A test with the mark `both_pools` runs over both; so do the processes that it starts, if they call `take_asked_pool`.
"""

import contextlib
import os

POOLS = ("own pool", "torch's pool")
_VARIABLE = "TDI_TEST_POOL"


def _refuse(loader):
    return "the test asks for it"


@contextlib.contextmanager
def running_over(pool):
    """Lets loaders of this process, and of those that it starts, use `pool`, one of `POOLS`."""
    if pool == POOLS[0]:
        yield
        return
    from torch_distinput.loader.paths import _choice as paths

    own, paths.why_torchs_pool = paths.why_torchs_pool, _refuse
    os.environ[_VARIABLE] = pool
    try:
        yield
    finally:
        paths.why_torchs_pool = own
        del os.environ[_VARIABLE]


def asked_pool():
    """Environment variables that tell another process about the pool."""
    return {name: value for name, value in os.environ.items() if name == _VARIABLE}


def take_asked_pool():
    """To be called in a process that a test has started."""
    if _VARIABLE in os.environ:
        from torch_distinput.loader.paths import _choice as paths

        paths.why_torchs_pool = _refuse
