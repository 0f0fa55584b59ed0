#!/usr/bin/env python3
# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Checks which files of csrc/ include which: `tools/check_includes.py [root of the source tree]`.

Three rules, each violation printed as `file:line: include: rule`; the script fails if there is one:
a room includes only the rooms of its line in ROOMS; a library is seen only by the rooms of its line in LIBRARIES;
no chain of includes leads from a header or its source back to itself. ARCHITECTURE.md describes the rooms.
"""

import re
import sys
from pathlib import Path

from rules import cycles, report

BASICS = ("include", "base", "runtime", "core", "kernels", "execution")

# A room is a folder of csrc/ without its subfolders. Each line says what a room may include besides itself, from the
# bottom to the top: a line names only rooms of lines above it.
ROOMS = {
    "include": (),
    "base": ("include/torch_distinput/api.h", "include/torch_distinput/stats.h"),
    "runtime": ("base", "include/torch_distinput/api.h"),
    "workers": ("base", "runtime", "include/torch_distinput/api.h"),
    "core": ("include", "base"),
    "kernels": ("include", "base", "runtime", "core"),
    "kernels/preprocessing": ("include", "base", "runtime"),
    "kernels/images": ("include", "base", "runtime", "kernels"),
    "remote": ("base", "runtime", "include/torch_distinput/api.h", "include/torch_distinput/storage.h"),
    "io": (
        "base",
        "runtime",
        "remote",
        "include/torch_distinput/api.h",
        "include/torch_distinput/indexing_progress.h",
        "include/torch_distinput/storage.h",
    ),
    "execution": ("include", "base", "runtime", "core", "kernels", "remote/ahead_claim.h"),
    "sources": BASICS,
    "sources/records": (*BASICS, "remote", "io", "sources"),
    "sources/columns": (*BASICS, "sources", "sources/records", "remote/ahead_claim.h"),
    "sources/arrays": (*BASICS, "remote", "io", "sources", "sources/records"),
    "sources/tokens": (*BASICS, "remote", "io", "sources", "sources/records", "sources/arrays"),
    "sources/images": (*BASICS, "remote", "io", "sources", "sources/records"),
    "ops": ("include",),
    "ops/functional": (*BASICS, "ops"),
    "ops/preprocessing": (*BASICS, "io", "kernels/preprocessing", "sources/records"),
    "ops/batching": (*BASICS, "ops"),
    "ops/ordering": (*BASICS, "ops"),
    "ops/combining": (*BASICS, "ops"),
    "ops/buffering": (*BASICS, "io", "ops"),
    "ops/tokens": (*BASICS, "io", "sources/records", "ops"),
    "ops/images": (*BASICS, "kernels/images", "ops"),
    "ops/records": (*BASICS, "io", "ops"),
    "device/cuda": (),
    "device": ("include", "device/cuda"),
    "device/transfer": ("include", "base", "runtime", "core", "kernels", "device"),
    "device/collectives": ("device",),
    "comm": ("include", "base", "runtime"),
    "distribute/splitting": ("include", "base", "core", "kernels"),
    "distribute/sharding": (*BASICS, "ops", "distribute/splitting"),
    "distribute/steps": (*BASICS, "ops", "device/transfer", "distribute/splitting", "distribute/sharding"),
    "distribute/checkpoint": (*BASICS, "distribute/splitting", "distribute/sharding", "distribute/steps"),
    "distribute/coordination": (
        *BASICS,
        "comm",
        "distribute/splitting",
        "distribute/sharding",
        "distribute/steps",
        "distribute/checkpoint",
    ),
    "distribute/values": ("include", "core", "device", "device/collectives"),
    "api": (
        *BASICS,
        "remote",
        "io",
        "sources",
        "sources/records",
        "sources/columns",
        "sources/arrays",
        "sources/tokens",
        "sources/images",
        "ops",
        "device/transfer",
        "comm",
        "distribute/splitting",
        "distribute/sharding",
        "distribute/steps",
        "distribute/checkpoint",
        "distribute/coordination",
        "distribute/values",
    ),
    "bindings/interpreter": ("include", "base"),
    "bindings/leaves": ("include", "bindings/interpreter"),
    "bindings/workers": ("bindings/interpreter",),
    "bindings": (
        "include",
        "base",
        "device",
        "remote",
        "io",
        "workers",
        "bindings/interpreter",
        "bindings/leaves",
        "bindings/workers",
    ),
}

# Exceptions from the table: (file, header): why.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("bindings/bind_device.cpp", "device/transfer/device_stager.h"): "shows the tests what lies in the staging memory",
    ("bindings/bind_workers.cpp", "device/transfer/host_reads.h"): "devices copy from the memory of workers' batches",
    ("bindings/bind_workers.cpp", "device/transfer/device_node.h"): "workers write into memory near the device",
    ("bindings/bind_multi_worker.cpp", "comm/tensor_text.h"): "values of Python travel in the same checked format",
    ("bindings/bind_multi_worker.cpp", "comm/restarts.h"): "one rule on torchrun's restarts",
    ("bindings/bind_replica_run.cpp", "api/replica_run.h"): "replicas of Python and of C++ meet in the same way",
}

# Libraries that only some rooms may include: pattern, rooms, rule. The name of a room includes its subfolders.
EVERYWHERE = (
    "include",
    "base",
    "runtime",
    "workers",
    "core",
    "kernels",
    "remote",
    "io",
    "execution",
    "sources",
    "ops",
    "device",
    "comm",
    "distribute",
    "api",
    "bindings",
)
LIBRARIES = (
    (r"torch/(torch|extension|all)\.h$|ATen/ATen\.h$", (), "too slow to compile; include single headers"),
    (
        r"(ATen|c10|torch)/",
        tuple(r for r in EVERYWHERE if r not in ("base", "runtime", "workers", "remote", "io")),
        "base, runtime, workers, remote and io do not know torch",
    ),
    (r"(oneapi/)?tbb/", ("runtime", "kernels"), "only runtime and kernels know oneTBB"),
    (r"torch/csrc/distributed/", ("comm", "bindings"), "only comm and the bindings see c10d"),
    (r"pybind11/|Python\.h$|torch/csrc/.*(pybind|python)", ("bindings",), "only the bindings see pybind11 and CPython"),
    (r"cu(da|blas|rand|sparse|b/)|nccl|thrust/|(c10|ATen)/cuda/", ("device/cuda",), "CUDA lives in device/cuda"),
)

INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}


def room_of(name: str) -> str:
    folder = name.rpartition("/")[0]
    return "include" if name.startswith("include/") else folder


def target_of(quote: str, path: str, file: Path, csrc: Path) -> str | None:
    """The included file relative to csrc/, or None if it is not one of ours."""
    for folder in (*([file.parent] if quote == '"' else []), csrc, csrc / "include"):
        candidate = (folder / path).resolve()
        if candidate.is_relative_to(csrc) and candidate.is_file():
            return candidate.relative_to(csrc).as_posix()
    return path if path.rpartition("/")[0] in ROOMS else None


def violated_rule(name: str, path: str, target: str | None) -> str | None:
    room = room_of(name)
    if target is not None:
        allowed = (room, *ROOMS[room])
        if room_of(target) in allowed or target in allowed or (name, target) in EXCEPTIONS:
            return None
        return f"{room} may include only {', '.join(allowed)}"
    for pattern, rooms, rule in LIBRARIES:
        if re.match(pattern, path) and not any(room == r or room.startswith(f"{r}/") for r in rooms):
            return rule
    return None


def violations(root: Path) -> tuple[int, list[str]]:
    """The number of files read, and one line per violation."""
    csrc = (root / "csrc").resolve()
    files = sorted(f for f in csrc.rglob("*") if f.suffix in SUFFIXES)
    found = []
    edges: dict[str, set[str]] = {}  # between pairs of header and source, named without suffix
    for file in files:
        name = file.relative_to(csrc).as_posix()
        if room_of(name) not in ROOMS:
            found.append(f"csrc/{name}:1: {room_of(name)} is not a room; the rooms are {', '.join(ROOMS)}")
            continue
        for number, line in enumerate(file.read_text().splitlines(), start=1):
            include = INCLUDE.match(line)
            if include is None:
                continue
            quote, path = include.groups()
            target = target_of(quote, path, file, csrc)
            rule = violated_rule(name, path, target)
            if rule is not None:
                found.append(f"csrc/{name}:{number}: {include[0].strip()}: {rule}")
            if target is not None and target.rpartition(".")[0] != name.rpartition(".")[0]:
                edges.setdefault(name.rpartition(".")[0], set()).add(target.rpartition(".")[0])
    for group in cycles(edges):
        found.append(
            f"csrc/{group[0]}.h:1: includes itself by way of {', '.join(group[1:])}; no cycles of headers and sources"
        )
    return len(files), found


if __name__ == "__main__":
    sys.exit(report("include rules", violations))
