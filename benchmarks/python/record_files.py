# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Records from files in the page cache: this library, bare reads with checksums, tf.data and a reader in Python.

    python benchmarks/python/record_files.py --tensorflow PYTHON --json benchmarks/results/record_files.json

PYTHON is an interpreter that can import tensorflow; the two libraries disturb each other in one process. All sides read
the same kinds of files, 256 MiB each, in processes of their own, in turn and then again in the opposite order.
`bench_files` (build with -DTDI_BUILD_BENCHMARKS=ON) measures the limit and the C++ API.
"""

import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

FILE_BYTES = 256 << 20
# Name of the work: the file that `bench_files` writes for it, records in a batch.
WORKS = {
    "tf_record_1kB": ("tf1000", 256),
    "tf_record_100kB": ("tf100000", 32),
    "text_lines": ("lines", 256),
}
BENCH_FILES = Path(__file__).parents[2] / "build/release/bench_files"
IN_CPP = {
    "limit": {"tf_record_1kB": "bare_reads/1000/1", "tf_record_100kB": "bare_reads/100000/1"},
    "limit 2 threads": {"tf_record_1kB": "bare_reads/1000/2", "tf_record_100kB": "bare_reads/100000/2"},
    "torch_distinput C++": {
        "tf_record_1kB": "tf_record_batches/1000/-1",
        "tf_record_100kB": "tf_record_batches/100000/-1",
        "text_lines": "text_line_batches/-1",
    },
    "torch_distinput C++, consumer's thread": {
        "tf_record_1kB": "tf_record_batches/1000/0",
        "tf_record_100kB": "tf_record_batches/100000/0",
        "text_lines": "text_line_batches/0",
    },
    "std::getline": {"text_lines": "getline_into_strings"},
    "index": {
        "tf_record_1kB": "build_index/1000",
        "tf_record_100kB": "build_index/100000",
        "text_lines": "build_index/0",
    },
}


def ours(folder: Path) -> dict[str, Callable[[], Iterator]]:
    """Batches as lists of bytes, from this library."""
    import torch

    import torch_distinput as tdi

    torch.set_num_threads(1)
    readers = {"text_lines": tdi.TextLineDataset}
    return {
        name: lambda name=name, file=file, batch=batch: iter(
            readers.get(name, tdi.TFRecordDataset)(str(folder / file)).batch(batch)
        )
        for name, (file, batch) in WORKS.items()
    }


def tf_data(folder: Path) -> dict[str, Callable[[], Iterator]]:
    """Batches as string tensors, from tf.data, with the read buffer that its guide recommends."""
    import tensorflow as tf

    readers = {"text_lines": tf.data.TextLineDataset}
    return {
        name: lambda name=name, file=file, batch=batch: iter(
            readers.get(name, tf.data.TFRecordDataset)(str(folder / file), buffer_size=1 << 20)
            .batch(batch)
            .prefetch(tf.data.AUTOTUNE)
        )
        for name, (file, batch) in WORKS.items()
    }


def by_hand(folder: Path) -> dict[str, Callable[[], Iterator]]:
    """Batches as lists of bytes from a loop in Python. It checks no checksums, which favours it."""

    def tf_records(path: Path, batch: int) -> Iterator[list[bytes]]:
        rows = []
        with path.open("rb", buffering=1 << 20) as file:
            while header := file.read(12):
                rows.append(file.read(struct.unpack_from("<Q", header)[0]))
                file.read(4)
                if len(rows) == batch:
                    yield rows
                    rows = []
        if rows:
            yield rows

    def lines(path: Path, batch: int) -> Iterator[list[bytes]]:
        rows = []
        with path.open("rb", buffering=1 << 20) as file:
            for line in file:
                rows.append(line.rstrip(b"\r\n"))
                if len(rows) == batch:
                    yield rows
                    rows = []
        if rows:
            yield rows

    return {
        name: lambda name=name, file=file, batch=batch: (lines if name == "text_lines" else tf_records)(
            folder / file, batch
        )
        for name, (file, batch) in WORKS.items()
    }


SIDES = {"torch_distinput Python": ours, "tf.data": tf_data, "Python reader": by_hand}


def measure(works: dict[str, Callable[[], Iterator]]) -> dict[str, float]:
    """Gigabytes of records a second: the median of three passes, after a warm-up."""
    found = {}
    for name, make in works.items():
        times = []
        for _ in range(4):
            start = time.perf_counter()
            for _ in make():
                pass
            times.append(time.perf_counter() - start)
        found[name] = FILE_BYTES / statistics.median(times[1:]) / 1e9
    return found


def run_side(python: str, side: str, folder: Path) -> dict[str, float]:
    """One process of one side."""
    command = [python, __file__, "--side", side, "--folder", str(folder)]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(result.stdout.splitlines()[-1])


def run_cpp(folder: Path) -> dict[str, dict[str, float]]:
    """The limit and the C++ API, in one process, which writes the files if they do not exist yet."""
    names = [name for works in IN_CPP.values() for name in works.values()]
    command = [BENCH_FILES, f"--benchmark_filter=^({'|'.join(names)})/real_time$", "--benchmark_format=json"]
    result = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
        env=os.environ | {"TDI_BENCH_FOLDER": str(folder)},
    )
    speeds = {
        run["name"].removesuffix("/real_time"): run["bytes_per_second"] / 1e9
        for run in json.loads(result.stdout)["benchmarks"]
    }
    return {side: {work: speeds[name] for work, name in works.items()} for side, works in IN_CPP.items()}


def main() -> None:
    """Runs all sides in turn and in the opposite order, and prints medians and shares of the limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--tensorflow", help="a Python that can import tensorflow; without it tf.data is left out")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    if arguments.side:
        print(json.dumps(measure(SIDES[arguments.side](arguments.folder))))
        return
    import machine

    pythons = dict.fromkeys(SIDES, sys.executable) | {"tf.data": arguments.tensorflow}
    sides = [name for name in SIDES if pythons[name]]
    neighbours = machine.Neighbours()
    runs: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for turn in (sides, sides[::-1], sides):
            for name, found in run_cpp(Path(folder)).items():
                runs.setdefault(name, []).append(found)
            for name in turn:
                runs.setdefault(name, []).append(run_side(pythons[name], name, Path(folder)))
    others = round(neighbours.cores(), 2)
    results = {
        name: {
            work: {
                "GB_per_s": round(statistics.median(run[work] for run in found), 3),
                "of_limit": round(
                    statistics.median(run[work] / limit[work] for run, limit in zip(found, runs["limit"], strict=True)),
                    3,
                )
                if work in runs["limit"][0]
                else None,
            }
            for work in found[0]
        }
        for name, found in runs.items()
    }
    for name, works in results.items():
        cells = [
            f"{work} {figure['GB_per_s']:6.2f} GB/s" + (f" {figure['of_limit']:5.2f}" if figure["of_limit"] else "")
            for work, figure in works.items()
        ]
        print(f"{name:40}", "  ".join(cells))
    print(f"others used {others} cores")
    if arguments.json:
        content = {**machine.describe(("torch",)), "others_used_cores": others, "results": results}
        arguments.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
