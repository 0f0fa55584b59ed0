# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The machine that a benchmark ran on, and how much of it the benchmark and others used. Linux only."""

import os
import platform
import resource
import shlex
import sys
import time
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def describe(packages: tuple[str, ...]) -> dict:
    """Date, command, machine and versions, as they go into a file of results."""
    cpuinfo = dict(line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if ":" in line)
    model = {key.strip(): value.strip() for key, value in cpuinfo.items()}.get("model name", platform.machine())
    pages = Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
    words = [os.path.relpath(word) if os.path.isabs(word) else word for word in sys.argv]
    if "--tensorflow" in words:  # the path of an interpreter on this machine
        words[words.index("--tensorflow") + 1] = "PYTHON"
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": shlex.join(["python", *words]),
        "machine": {
            "cpu": model,
            "cpus": len(os.sched_getaffinity(0)),
            "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * PAGE / 2**30, 1),
            "huge_pages": pages[pages.index("[") + 1 : pages.index("]")],
            "system": f"{platform.system()} {platform.release()}",
            **({"priority": "real-time"} if os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR) else {}),
        },
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
    }


def cpu_seconds(workers: tuple[int, ...] = ()) -> float:
    """CPU time of this process, of its ended children and of the living children `workers`."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    living = sum(map(process_seconds, workers))
    return time.process_time() + ended.ru_utime + ended.ru_stime + living


def process_seconds(pid: int) -> float:
    """CPU time of process `pid`; 0 when it has ended, which may happen during this call."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
    except (FileNotFoundError, ProcessLookupError):
        return 0.0


class Neighbours:
    """How many cores other programs used, on average, since this object was made. Ask after all workers have ended."""

    def __init__(self) -> None:
        self.start = (time.perf_counter(), self.busy(), cpu_seconds())

    @staticmethod
    def busy() -> float:
        fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return (sum(fields) - fields[3] - fields[4]) / TICKS

    def cores(self) -> float:
        wall, busy, own = (
            now - then for now, then in zip((time.perf_counter(), self.busy(), cpu_seconds()), self.start, strict=True)
        )
        return max(0.0, busy - own) / wall


def reset_peak_memory() -> int:
    """Resets the peak; returns the bytes resident now."""
    Path("/proc/self/clear_refs").write_text("5")
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def peak_memory() -> int:
    """The peak of resident bytes since `reset_peak_memory`."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024
