# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The memory limit and the working consumer: `benchmarks/cpp/limit.cpp`, compiled at the first use."""

import ctypes
import functools
import os
import subprocess
import tempfile
import time
from pathlib import Path

import torch

SOURCE = Path(__file__).resolve().parents[1] / "cpp" / "limit.cpp"


class Cost(ctypes.Structure):
    """Seconds of wall time and of CPU time."""

    _fields_ = [("wall", ctypes.c_double), ("cpu", ctypes.c_double)]


@functools.cache
def library() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "liblimit.so"
        compiler = os.environ.get("CXX", "c++")
        flags = ["-std=c++20", "-O3", "-shared", "-fPIC", "-pthread"]
        subprocess.run([compiler, *flags, str(SOURCE), "-o", str(output)], check=True)
        loaded = ctypes.CDLL(str(output))
    number, address = ctypes.c_int64, ctypes.c_void_p
    loaded.limit_gather.restype = Cost
    loaded.limit_gather.argtypes = [number, address, address, address, number, number, number, number]
    loaded.limit_work.restype = ctypes.c_uint64
    loaded.limit_work.argtypes = [number]
    return loaded


def gather(tensors: tuple[torch.Tensor, ...], order: torch.Tensor, batch: int, threads: int, buffers: int) -> Cost:
    """Copies the rows `order` of contiguous `tensors` into warm memory, whole batches only."""
    count = len(tensors)
    sources = (ctypes.c_void_p * count)(*(tensor.data_ptr() for tensor in tensors))
    row_bytes = (ctypes.c_int64 * count)(*(tensor[0].nbytes for tensor in tensors))
    return library().limit_gather(count, sources, row_bytes, order.data_ptr(), len(order), batch, threads, buffers)


def rounds_for(seconds: float) -> int:
    """How many rounds of `work` take `seconds` on this machine when it is idle."""
    rounds, best = 1_000_000, float("inf")
    for _ in range(20):
        start = time.perf_counter()
        work(rounds)
        best = min(best, time.perf_counter() - start)
    return round(rounds * seconds / best)


def work(rounds: int) -> None:
    """A fixed amount of arithmetic without the GIL, as a training step in torch is."""
    library().limit_work(rounds)
