#!/usr/bin/env python3
# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Checks who includes whom in csrc/: `tools/check_includes.py [root of the source tree]`.

Prints `file:line: include: rule` for each violation and fails if there is one. ARCHITECTURE.md
describes the rooms; this file is where their borders are enforced.
"""

import re
import sys
from pathlib import Path

# What each room may include besides itself: folders or single headers below csrc/.
ROOMS = {
    "include": (),
    "core": ("include", "runtime/counters.h"),
    "runtime": ("include/torch_distinput/api.h",),
    "files": ("runtime",),
    "kernels": ("include", "core", "runtime"),
    "sources": ("include", "core", "runtime", "files", "kernels"),
    "ops": ("include", "core", "runtime", "kernels", "device/page_locked.h", "files/index_set.h", "sources/sources.h"),
    "device": ("include", "core", "runtime", "kernels/images.h"),
    "comm": ("include", "runtime/process_owned.h", "runtime/worker_thread.h"),
    "distribute": (
        "include", "core", "runtime", "device/collectives.h", "device/device_count.h", "device/stager.h",
        "comm/communicator.h", "comm/meeting.h", "comm/patience.h", "comm/rounds.h", "comm/store_communicator.h",
        "comm/wait_for_all.h",
        # What it composes: rows of elements, nodes, cursors and their identity.
        "kernels/images.h", "kernels/rows.h", "ops/epoch_count.h", "ops/fork_count.h", "ops/identity.h",
        "ops/last_normalization.h", "ops/open.h", "ops/ops.h",
    ),
    "python": ("include", "device/device_count.h", "device/stager.h", "runtime/worker_thread.h"),
}

# Libraries that only some rooms may see: pattern, rooms, rule.
CUDA_ROOM = "device/cuda"
EVERY_ROOM = frozenset(ROOMS) | {CUDA_ROOM}
LIBRARIES = (
    (r"torch/(torch|extension|all)\.h$|ATen/ATen\.h$", frozenset(), "too slow to compile; include single headers"),
    (r"(ATen|c10|torch)/", EVERY_ROOM - {"runtime", "files"}, "runtime and files do not know torch"),
    (r"(oneapi/)?tbb/", EVERY_ROOM - {"include", "core"}, "neither public headers nor core know oneTBB"),
    (r"torch/csrc/distributed/", frozenset({"comm", "python"}), "only comm and the bindings see c10d"),
    (r"pybind11/|Python\.h$|torch/csrc/.*(pybind|python)", frozenset({"python"}), "only python sees pybind11 and CPython"),
    (r"cu(da|blas|rand|sparse|b/)|nccl|thrust/|(c10|ATen)/cuda/", frozenset({CUDA_ROOM}), "CUDA lives in device/cuda"),
)

INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}


def target_of(quote: str, path: str, file: Path, csrc: Path) -> str | None:
    """The included file relative to csrc/, or None if it is not one of ours."""
    for folder in (*([file.parent] if quote == '"' else []), csrc, csrc / "include"):
        candidate = (folder / path).resolve()
        if candidate.is_relative_to(csrc) and candidate.is_file():
            return candidate.relative_to(csrc).as_posix()
    return path if path.split("/")[0] in ROOMS else None


def violated_rule(path: str, target: str | None, room: str, is_cuda: bool) -> str | None:
    if target is not None:
        if any(target == allowed or target.startswith(f"{allowed}/") for allowed in (room, *ROOMS[room])):
            return None
        return f"{room} may include only {', '.join((room, *ROOMS[room]))}"
    for pattern, rooms, rule in LIBRARIES:
        if re.match(pattern, path) and (CUDA_ROOM if is_cuda else room) not in rooms:
            return rule
    return None


def violations(root: Path) -> tuple[int, list[str]]:
    """The number of files read, and one line per violation."""
    csrc = (root / "csrc").resolve()
    files = sorted(f for f in csrc.rglob("*") if f.suffix in SUFFIXES)
    found = []
    for file in files:
        name = file.relative_to(csrc).as_posix()
        room = name.split("/")[0]
        if room not in ROOMS:
            found.append(f"csrc/{name}:1: {room} is not a room; the rooms are {', '.join(ROOMS)}")
            continue
        for number, line in enumerate(file.read_text().splitlines(), start=1):
            include = INCLUDE.match(line)
            if include is None:
                continue
            quote, path = include.groups()
            rule = violated_rule(path, target_of(quote, path, file, csrc), room, name.startswith(f"{CUDA_ROOM}/"))
            if rule is not None:
                found.append(f"csrc/{name}:{number}: {include[0].strip()}: {rule}")
    return len(files), found


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    count, found = violations(root)
    print("\n".join([*found, f"include rules: {count} files, {len(found)} violations"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
