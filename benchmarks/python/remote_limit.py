# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The limit of reading over a network: `benchmarks/cpp/receive.cpp`, compiled at the first use."""

import ctypes
import functools
import os
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from limit import Cost

SOURCE = Path(__file__).resolve().parents[1] / "cpp" / "receive.cpp"


@functools.cache
def library() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "libreceive.so"
        compiler = os.environ.get("CXX", "c++")
        subprocess.run(
            [compiler, "-std=c++20", "-O3", "-shared", "-fPIC", str(SOURCE), "-o", output, "-ldl"], check=True
        )
        loaded = ctypes.CDLL(str(output))
    number = ctypes.c_int64
    loaded.receive_ranges.restype = Cost
    loaded.receive_ranges.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, number, number, number, ctypes.c_int]
    return loaded


def receive(url: str, begin: int, size: int, count: int, connections: int) -> Cost:
    """Receives `count` ranges of `size` bytes from byte `begin` on, from a server of this machine."""
    parts = urlsplit(url)
    cost = library().receive_ranges(
        parts.port, parts.path.encode(), parts.scheme == "https", begin, size, count, connections
    )
    if cost.wall < 0:
        raise RuntimeError(f"no ranges came from {url}")
    return cost
