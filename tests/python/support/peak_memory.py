# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`peak_rise`: how much memory a call needs at its peak."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def _bytes(name: str) -> int:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) << 10


def peak_rise(call: Callable[[], Any]) -> int:
    """Calls `call` and returns by how many bytes this process grew meanwhile, at most. Skips the test where the kernel
    cannot begin a new peak."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError as error:
        pytest.skip(f"no peak of memory can be measured: {error}")
    before = _bytes("VmRSS")
    call()
    return max(_bytes("VmHWM") - before, 0)
