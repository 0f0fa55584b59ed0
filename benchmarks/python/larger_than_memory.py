# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""An epoch of Parquet that is larger than the memory that the process may have: is each row group read once?

    python benchmarks/python/larger_than_memory.py --json benchmarks/results/larger_than_memory.json

The file has 20 GB of rows of 10 kB in row groups of 500 kB, so that it has as many blocks as 335 GB in groups of 8 MiB:
a shuffle of blocks keeps four for each of 1,024 lanes. A process that may have 4 GiB of data in memory (RLIMIT_DATA,
which counts what it allocates) goes through one epoch of each order, counts the row groups that it reads, and checks
that each row came once. The kernel's cache of the file, which that limit does not count, is emptied each second, as on
a machine without room for it; `cached_MiB_at_most` is what it had then. `from_disk`: bytes that the kernel has read
from the disk for the process, over those of the file.
"""

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import machine
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

ROW_BYTES, GROUP_ROWS, BATCH = 10_000, 50, 256
LIMIT = 4 << 30
ORDERS = {"in order": {}, "shuffle(blocks=1)": {"blocks": 1}, "shuffle(8000)": {"buffer_size": 8_000}}


def write(path: Path, size: int) -> int:
    """Rows of their numbers and random bytes, `size` bytes in all; returns how many."""
    type_ = pa.binary(ROW_BYTES)
    rows = size // ROW_BYTES
    options = {"compression": "none", "use_dictionary": False}
    with parquet.ParquetWriter(path, pa.schema([("i", pa.int64()), ("x", type_)]), **options) as writer:
        for begin in range(0, rows, GROUP_ROWS):
            count = min(GROUP_ROWS, rows - begin)
            data = pa.py_buffer(np.random.default_rng(begin).bytes(count * ROW_BYTES))
            x = pa.Array.from_buffers(type_, count, [None, data])
            writer.write_table(pa.table({"i": np.arange(begin, begin + count), "x": x}), row_group_size=count)
    return rows


class NotCached:
    """Keeps a file out of the kernel's cache while it is read."""

    def __init__(self, path: Path):
        self._path, self._over = path, threading.Event()
        self.most = 0  # bytes that the cache had of it
        self._forget()

    def _forget(self) -> None:
        with open(self._path, "rb") as file:
            os.fdatasync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def _cached(self) -> int:
        command = ["fincore", "--bytes", "--noheadings", "--output", "RES", str(self._path)]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout or 0)

    def _watch(self) -> None:
        while not self._over.wait(1.0):
            self.most = max(self.most, self._cached())
            self._forget()

    @contextmanager
    def watched(self) -> Iterator[None]:
        thread = threading.Thread(target=self._watch)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()


def _number_in(file: str, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+)", Path(file).read_text(), re.MULTILINE)
    assert found is not None
    return int(found.group(1))


def _allocated() -> int:
    """Bytes that this process has allocated in memory now, without files."""
    return _number_in("/proc/self/status", "RssAnon") << 10


def epoch(path: str, rows: int, order: str) -> dict:
    """Goes through the epoch within the limit."""
    import torch

    import torch_distinput as tdi
    from torch_distinput.tables import _parquet

    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
    reads: Counter[int] = Counter()
    original = _parquet.ParquetFiles.read_block

    def read_block(self, file, index, block):
        reads[block] += 1
        return original(self, file, index, block)

    _parquet.ParquetFiles.read_block = read_block
    dataset = tdi.ParquetDataset(path)
    if ORDERS[order]:
        dataset = dataset.shuffle(seed=1, **ORDERS[order])
    before = _number_in("/proc/self/io", "read_bytes")
    seen, most, start = np.zeros(rows, np.int64), 0, time.perf_counter()
    for number, batch in enumerate(dataset.batch(BATCH)):
        seen[batch["i"].numpy()] += 1
        if number % 16 == 0:
            most = max(most, _allocated())
    seconds = time.perf_counter() - start
    if not (seen == 1).all():
        raise SystemExit(f"larger_than_memory.py: {order}: not every row came once")
    return {
        "row_groups": len(reads),
        "reads_a_row_group": round(sum(reads.values()) / -(-rows // GROUP_ROWS), 4),
        "from_disk": round((_number_in("/proc/self/io", "read_bytes") - before) / os.path.getsize(path), 4),
        "allocated_MiB_at_most": most >> 20,
        "GB_per_s": round(rows * ROW_BYTES / seconds / 1e9, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--gigabytes", type=float, default=20.0)
    parser.add_argument("--epoch", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.epoch:
        path, rows, order = arguments.epoch
        print(json.dumps(epoch(path, int(rows), order)))
        return
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        rows = write(path, int(arguments.gigabytes * 1e9))
        for order in ORDERS:
            command = [sys.executable, __file__, "--epoch", str(path), str(rows), order]
            cache = NotCached(path)
            with cache.watched():
                result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found[order] = json.loads(result.stdout.splitlines()[-1]) | {"cached_MiB_at_most": cache.most >> 20}
            print(order, found[order], flush=True)
        size = path.stat().st_size
    if arguments.json:
        content = {
            **machine.describe(("torch", "numpy", "pyarrow")),
            "file_bytes": size,
            "limit_bytes": LIMIT,
            "rows": rows,
            "orders": found,
        }
        arguments.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
