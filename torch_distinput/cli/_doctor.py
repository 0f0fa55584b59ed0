# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`doctor`: check this machine for what slows loading down or makes it fail."""

import argparse
import os
import platform
import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from torch_distinput import _C, _build
from torch_distinput.distribute._elastic import risk_of_restarts

_FEW_FILES = 4096
_OWN_FILES = 256  # that a training process has open itself
_SMALL_SHARED = 1 << 30
_SMALL_LOCKED = 1 << 26


@dataclass(frozen=True)
class Finding:
    """What was seen, and what to change; `advice` is empty where all is well."""

    name: str
    seen: str
    advice: str = ""

    def __str__(self) -> str:
        line = f"{'!!' if self.advice else 'ok'}  {self.name}: {self.seen}"
        return f"{line}\n      {self.advice}" if self.advice else line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the argument of the command."""
    parser.add_argument("--ranks", type=int, help="also say which limits a job of that many ranks meets here")


def run(arguments: argparse.Namespace) -> None:
    """Prints what was found."""
    for check in CHECKS:
        for finding in check():
            print(finding)
    if arguments.ranks is not None:
        for finding in store_limits(arguments.ranks):
            print(finding)


def versions() -> Iterator[Finding]:
    """Python, torch, and the torch that the library was built for."""
    built, here = _build.torch_version, torch.__version__
    same = built.split("+")[0].split(".")[:2] == here.split("+")[0].split(".")[:2]
    advice = "" if same else "Build the library again for this torch: `pip install --no-build-isolation .`"
    seen = f"torch_distinput {_build.version} for torch {built}, torch {here}, Python {platform.python_version()}"
    yield Finding("versions", seen, advice)


def devices() -> Iterator[Finding]:
    """Accelerators, NCCL, and the library for CUDA."""
    if not torch.cuda.is_available():
        yield Finding("CUDA", "no device, or a torch without CUDA; batches stay on the CPU")
        return
    names = sorted({torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())})
    yield Finding("CUDA", f"{torch.cuda.device_count()} devices ({', '.join(names)}), CUDA {torch.version.cuda}")
    nccl = torch.distributed.is_available() and torch.distributed.is_nccl_available()
    yield Finding(
        "NCCL", "available" if nccl else "missing", "" if nccl else "Install a torch that was built with NCCL."
    )
    library = Path(_C.__file__).parent / "lib" / "libtorch_distinput_cuda.so"
    yield Finding(
        "CUDA library",
        "built" if library.exists() else "not built",
        "" if library.exists() else "Build where `nvcc` is on PATH; until then `explain()` names what is missing.",
    )


def processors() -> Iterator[Finding]:
    """CPUs of this process, and those that a container allows."""
    runnable, all_of_them = len(os.sched_getaffinity(0)), os.cpu_count() or 1
    yield Finding("CPUs", f"{runnable} of {all_of_them} usable by this process")
    quota = _C.cpu_quota()
    if quota is not None and quota < runnable:
        yield Finding("cgroup", f"CPU time for {quota:.1f} CPUs; threads are made for {_C.available_cpus()}")


def numa() -> Iterator[Finding]:
    """The nodes of the CPUs of this process and of the devices; nothing where there is one node."""
    nodes = _C.cpus_of_nodes()
    if len(nodes) < 2:
        return
    own = [node for node, cpus in nodes.items() if os.sched_getaffinity(0) & set(cpus)]
    devices = {index: _C.node_of_pci_device(_pci_address(index)) for index in range(torch.cuda.device_count())}
    placed = "".join(f", cuda:{index} is at node {node}" for index, node in devices.items() if node is not None)
    advice = "" if len(own) == 1 else "Bind each rank to the node of its device (`numactl --cpunodebind`)."
    yield Finding("NUMA", f"{len(nodes)} nodes, this process runs on {', '.join(map(str, own))}{placed}", advice)
    where = "the node of the device" if _C.may_place_memory() else "where its threads run: it may not choose the node"
    yield Finding("NUMA", f"this process takes memory for batches from {where}")


def memory() -> Iterator[Finding]:
    """Memory of the container, page-locked memory and shared memory."""
    limit = _number_in("/sys/fs/cgroup/memory.max")
    if limit is not None:
        yield Finding("cgroup", f"memory {_size(limit)}")
    locked, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    small = locked != resource.RLIM_INFINITY and locked < _SMALL_LOCKED and torch.cuda.is_available()
    advice = "Raise it (`ulimit -l unlimited`), because copies to devices use page-locked memory." if small else ""
    yield Finding("page-locked memory", "unlimited" if locked == resource.RLIM_INFINITY else _size(locked), advice)
    shared = Path("/dev/shm")
    if shared.exists():
        space = os.statvfs(shared)
        size = space.f_blocks * space.f_frsize
        advice = ""
        if size < _SMALL_SHARED:
            advice = "Worker processes send batches through it: start the container with `--shm-size=8g` or more."
        yield Finding("shared memory", _size(size), advice)


def files() -> Iterator[Finding]:
    """The number of files that may be open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    infinite = hard == resource.RLIM_INFINITY
    advice = "" if soft >= _FEW_FILES else f"Raise it (`ulimit -n {'65536' if infinite else min(hard, 65536)}`)."
    yield Finding("open files", f"{soft} allowed, {'no limit' if infinite else hard} at most", advice)


def remote() -> Iterator[Finding]:
    """What reads from URLs."""
    try:
        yield Finding("libcurl", _C.curl_version())
    except RuntimeError:
        advice = "To read from URLs: `apt install libcurl4`, or `pip install 'torch_distinput[remote]'`."
        yield Finding("libcurl", "missing", advice)


def restarts() -> Iterator[Finding]:
    """Whether processes that torchrun restarts could form a group again; nothing if torchrun did not start this one."""
    if "TORCHELASTIC_MAX_RESTARTS" in os.environ:
        risk = risk_of_restarts()
        yield Finding("restarts", "would fail with gloo" if risk else "no known trouble", risk)


def store_limits(ranks: int) -> Iterator[Finding]:
    """Limits of this machine that a job of `ranks` ranks meets if it hosts the store of their group: each rank connects
    to it once (torch does), and each host of ranks twice more (this library does)."""
    backlog = _number_in("/proc/sys/net/core/somaxconn") or 0
    advice = f"Raise it (`sysctl net.core.somaxconn={ranks}`): connections beyond it are reset when all ranks start."
    yield Finding("connections that may wait (somaxconn)", str(backlog), advice if backlog < ranks else "")
    needed = ranks + 2 * ranks + _OWN_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = soft != resource.RLIM_INFINITY and soft < needed
    advice = f"Raise it for the process that hosts the store (`ulimit -n {needed}`): each connection is an open file."
    yield Finding(f"open files for {ranks} ranks", f"{soft} allowed, {needed} needed at most", advice if few else "")


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    versions,
    devices,
    processors,
    numa,
    memory,
    files,
    remote,
    restarts,
)


def _pci_address(index: int) -> str:
    device: Any = torch.cuda.get_device_properties(index)  # torch's stub leaves these attributes out
    return f"{device.pci_domain_id:04x}:{device.pci_bus_id:02x}:{device.pci_device_id:02x}.0"


def _number_in(path: str) -> int | None:
    try:
        text = Path(path).read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _size(value: int) -> str:
    return f"{value / (1 << 30):.1f} GiB" if value >= 1 << 30 else f"{value / (1 << 20):.0f} MiB"
