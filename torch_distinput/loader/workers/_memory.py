# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What the kernel says about the memory of this process's control group and of single processes."""

import time
from collections.abc import Iterable
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_LOOK_AGAIN = 2.0  # seconds: the kernel looks through all pages of a process


def out_of_memory_kills() -> int | None:
    """How many processes of this control group the kernel has killed because memory ran out; None if it does not
    say."""
    for folder in _folders():
        for name in ("memory.events", "memory.oom_control"):
            for line in _lines(folder / name):
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return None


def limit_and_use() -> tuple[int, int] | None:
    """The bytes that this control group may use, and those that it uses; None without a limit."""
    for folder in _folders():
        for limit, use in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            found = [*_lines(folder / limit), *_lines(folder / use)]
            if len(found) == 2 and all(text.isdigit() for text in found) and int(found[0]) < 2**60:
                return int(found[0]), int(found[1])
    return None


def proportional_size(processes: Iterable[int]) -> int:
    """The bytes of memory of `processes`, where a page of several processes counts in parts (PSS)."""
    lines = (line for process in processes for line in _lines(Path(f"/proc/{process}/smaps_rollup")))
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


class MemoryOfWorkers:
    """The `proportional_size` of processes that come and go, looked at now and then; the last one, when all have
    ended."""

    def __init__(self) -> None:
        self._last, self._next_look = 0, 0.0

    def bytes(self, processes: Iterable[int]) -> int:
        """The bytes of `processes`, or those of a moment ago."""
        now = time.monotonic()
        if now >= self._next_look:
            self._last = proportional_size(processes) or self._last
            self._next_look = now + _LOOK_AGAIN
        return self._last


def _folders() -> list[Path]:
    """Where the files of this process's control group may be: in a container, its path may lie outside of the mount."""
    found = []
    for line in _lines(Path("/proc/self/cgroup")):
        _, kinds, path = line.split(":", 2)
        if kinds in ("", "memory"):
            found += [Path(f"{_ROOT}/{kinds}/{path}"), _ROOT / kinds]
    return found


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
