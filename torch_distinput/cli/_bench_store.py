# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`bench-store`: measure what a job of many ranks costs the store of its group."""

from __future__ import annotations

import argparse
import json
import os
import resource
import uuid
from pathlib import Path

import torch.distributed as dist

from torch_distinput import _C

_RANKS_OF_A_HOST = 8
_REST_SECONDS = 3.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("--ranks", type=int, required=True, help="ranks of the job, which are threads of this process")
    parser.add_argument("--nodes", type=int, help="hosts that the ranks are on (one for each 8 ranks)")
    parser.add_argument(
        "--store",
        metavar="HOST:PORT",
        help="a TCPStore to measure, such as torchrun's at MASTER_ADDR:MASTER_PORT; without it, one in this process",
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures to a file, too")


def run(arguments: argparse.Namespace) -> None:
    """Prints the figures. ValueError for numbers out of range, ConnectionError where the store cannot be reached."""
    ranks = arguments.ranks
    nodes = arguments.nodes or -(-ranks // _RANKS_OF_A_HOST)
    if ranks < 1:
        raise ValueError(f"`--ranks` must be at least 1, but is {ranks}.")
    if not 1 <= nodes <= ranks:
        raise ValueError(f"`--nodes` must be in [1, {ranks}], the number of ranks, but is {nodes}.")
    try:
        figures = measure(_store(arguments.store), ranks, nodes)
    except (_C.DistributedDatasetError, dist.DistError) as error:
        raise ConnectionError(str(error).splitlines()[0]) from error
    print(describe(figures))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=2) + "\n")


def measure(store: dist.Store, ranks: int, nodes: int) -> dict[str, float]:
    """The figures of one job, over keys of its own. ValueError where so many files cannot be open."""
    _allow_files(4 * ranks + 1024)
    before = _resident()
    costs = _C.measure_store(store, ranks, nodes, f"bench/{uuid.uuid4().hex}", _REST_SECONDS)
    return {
        "ranks": ranks,
        "nodes": nodes,
        "start_seconds": costs.start_seconds,
        "start_requests": costs.start_requests,
        "start_bytes": costs.start_bytes,
        "rest_requests_per_second": costs.rest_requests_per_second,
        "connections": costs.connections,
        "round_messages": costs.round_messages,
        "round_bytes": costs.round_bytes,
        "round_seconds": costs.round_seconds,
        "bytes_per_rank": max(_peak() - before, 0) // ranks,
    }


def describe(figures: dict[str, float]) -> str:
    """The figures in words."""
    return "\n".join(
        [
            f"{figures['ranks']} ranks on {figures['nodes']} hosts, {figures['connections']} connections to the store",
            f"start: {figures['start_seconds']:.2f} s, {figures['start_requests']} requests, "
            f"{figures['start_bytes'] / 1e6:.2f} MB",
            f"a round: {1e3 * figures['round_seconds']:.1f} ms, {figures['round_messages']} requests, "
            f"{figures['round_bytes'] / 1e6:.2f} MB",
            f"at rest: {figures['rest_requests_per_second']:.0f} requests a second",
            f"memory: {figures['bytes_per_rank'] / 1e3:.0f} kB a rank, threads included",
        ]
    )


def _store(address: str | None) -> dist.TCPStore:
    if address is None:
        return dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"`--store` must be HOST:PORT, but is {address!r}.")
    return dist.TCPStore(host, int(port), is_master=False)


def _allow_files(wanted: int) -> None:
    """Raises the soft limit of open files: of the connections between processes, this one holds both ends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise ValueError(f"{wanted} files must be open at once, but the hard limit is {hard} (`ulimit -Hn`).")
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
