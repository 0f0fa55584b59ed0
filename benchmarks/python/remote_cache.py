# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""How fast is an epoch from the cache on disk beside the same files on the same disk, and what does filling it cost?

    python benchmarks/python/remote_cache.py --json benchmarks/results/remote_cache.json

The server is nginx on loopback. `from_disk` and `from_memory` read from the cache what was read before: the kernel has
dropped files and cache from memory before each epoch, or has all of them there. `first_epoch` reads from the server,
with and without a cache. Sides run in turn; ratios are medians of the rounds' ratios: of bytes a second, and, which
varies less on a machine with other work, of bytes a second of processor time.
"""

import argparse
import itertools
import json
import os
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import machine
import numpy as np
import remote_servers
import torch
from remote import Sample, in_turn, medians, ratio, timed

import torch_distinput as tdi
from torch_distinput import _C

ROWS, ROW = 5_120, 100_000
TOKENS, WINDOW = 1 << 27, 2048
BATCH = 64


def _bytes_of(dataset: tdi.Dataset) -> int:
    return sum(batch.nbytes if isinstance(batch, torch.Tensor) else batch[0].nbytes for batch in dataset)


def in_order(name: str) -> int:
    """Rows of 100 kB in order, 64 a batch."""
    return _bytes_of(tdi.NumpyDataset(name).batch(BATCH))


def shuffled(name: str) -> int:
    """The same in random order."""
    return _bytes_of(tdi.NumpyDataset(name).shuffle(seed=1).batch(BATCH))


def tokens(name: str) -> int:
    """Windows of 2,048 tokens of two bytes in random order."""
    data = tdi.TokenDataset(name, np.uint16, WINDOW, output_dtype=torch.int32)
    return _bytes_of(data.shuffle(seed=1).batch(BATCH))


SHAPES: dict[str, tuple[str, Callable[[str], int]]] = {
    "rows of 100 kB in order": ("rows.npy", in_order),
    "rows of 100 kB shuffled": ("rows.npy", shuffled),
    "windows of 4 kB shuffled": ("tokens.bin", tokens),
}


def _drop(paths: Iterable[Path]) -> None:
    """Makes the kernel forget what it has of these files."""
    for path in paths:
        with open(path, "rb") as file:
            os.fdatasync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _beside_files(servers: remote_servers.Servers, rounds: int, before: Callable[[], None]) -> dict:
    result = {}
    for name, (file, read) in SHAPES.items():

        def epoch(source: str, read: Callable[[str], int] = read) -> Sample:
            before()
            return timed(lambda: read(source))

        sides = {"cache": f"{servers.plain}/{file}", "files": str(servers.data / file)}
        samples = in_turn({side: partial(epoch, source) for side, source in sides.items()}, rounds)
        result[name] = {
            "series": medians(samples),
            "of_files": ratio(samples, "GB_per_s", "cache", "files"),
            "of_files_by_cpu": ratio(samples, "cpu_s_per_GB", "files", "cache"),
        }
    return result


def from_memory(servers: remote_servers.Servers, cache: Path, rounds: int) -> dict:
    """Beside the same files, all in memory."""
    return _beside_files(servers, rounds, before=lambda: None)


def from_disk(servers: remote_servers.Servers, cache: Path, rounds: int) -> dict:
    """Beside the same files, nothing in memory."""

    def drop() -> None:
        _drop(path for path in servers.data.iterdir() if path.is_file())
        _drop(path for path in cache.rglob("*") if path.is_file())

    return _beside_files(servers, rounds, before=drop)


def first_epoch(servers: remote_servers.Servers, cache: Path, rounds: int) -> dict:
    """Beside the same epoch without a cache."""
    result = {}
    for name, (file, read) in SHAPES.items():
        url = f"{servers.plain}/{file}"

        def without(url: str = url, read: Callable[[str], int] = read) -> Sample:
            _C.set_object_cache(servers.plain, "")
            return timed(lambda: read(url))

        def filling(url: str = url, read: Callable[[str], int] = read) -> Sample:
            # Earlier ones stay: the thread of a cache may still write what came last.
            _C.set_object_cache(servers.plain, str(cache / "empty" / str(next(_NUMBERS))))
            return timed(lambda: read(url))

        samples = in_turn({"filling": filling, "without": without}, rounds)
        result[name] = {"series": medians(samples), "of_none": ratio(samples, "GB_per_s", "filling", "without")}
    return result


_NUMBERS = itertools.count()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, remote_servers.serve(Path(folder), 1.0) as servers:
        random = np.random.default_rng(7)
        np.save(servers.data / "rows.npy", random.integers(0, 256, (ROWS, ROW), np.uint8))
        random.integers(0, 1 << 16, TOKENS, np.uint16).tofile(servers.data / "tokens.bin")
        cache = Path(folder) / "cache"
        measured = {}
        _C.set_object_cache(servers.plain, str(cache))
        for measure in (from_memory, from_disk, first_epoch):
            neighbours = machine.Neighbours()
            measured[measure.__name__] = measure(servers, cache, arguments.rounds)
            measured[measure.__name__]["system_cores"] = round(neighbours.cores(), 2)
            print(measure.__name__, json.dumps(measured[measure.__name__], indent=1), flush=True)
    if arguments.json:
        content = {**machine.describe(("torch", "numpy")), "block_bytes": 256 << 10, "measures": measured}
        arguments.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
