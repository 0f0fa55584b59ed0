# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Records that become tensors, from files in the page cache: this library, bare reads with checksums, and tf.data.

    python benchmarks/python/records.py --tensorflow PYTHON --json benchmarks/results/records.json

PYTHON is an interpreter that can import tensorflow; without it tf.data is left out. `--mib 16` is a quick look. The
limit is benchmarks/cpp/record_limit.cpp, one thread, compiled at the first use (needs a C++ compiler: `$CXX`, else
`c++`). All times are of whole passes, in processes of their own, in turn and in the opposite order.
"""

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Name of a work: bytes of a record, records in a batch.
RAW = {"raw_1kB": (1000, 256), "raw_100kB": (100_000, 32)}
EXAMPLE_BATCH = 256
FEATURES = [(f"{kind}{i}", kind) for i in range(10) for kind in ("float", "int")]
MEMBER_BYTES = 80_000


def write_files(folder: Path, size: int) -> dict[str, int]:
    """Writes the files of all works, about `size` bytes each, and returns their numbers of records."""
    import torch_distinput as tdi

    counts = {}
    for name, (record, _) in RAW.items():
        counts[name] = size // record
        with tdi.TFRecordWriter(folder / name) as writer:
            for i in range(counts[name]):
                writer.write(i.to_bytes(8, "little") * (record // 8))
    counts["example_20"] = size // 500
    with tdi.TFRecordWriter(folder / "example_20") as writer:
        for i in range(counts["example_20"]):
            writer.write_example({key: float(i) if kind == "float" else i for key, kind in FEATURES})
    counts["tar_index"] = size // MEMBER_BYTES
    (folder / "member").write_bytes(bytes(MEMBER_BYTES))
    with tarfile.open(folder / "tar_index", "w") as archive:
        for i in range(counts["tar_index"]):
            archive.add(folder / "member", f"{i:08}.jpg")
    return counts


def ours(folder: Path, counts: dict[str, int]) -> dict[str, Callable[[], int]]:
    """Passes of this library; each returns how many records it delivered."""
    import torch

    import torch_distinput as tdi

    torch.set_num_threads(1)

    def rows(batches) -> int:
        return sum(len(next(iter(batch.values())) if isinstance(batch, dict) else batch) for batch in batches)

    def index() -> int:
        (folder / ".tar_index.groups.tdi-index").unlink(missing_ok=True)
        return len(tdi.TarDataset(folder / "tar_index"))

    types = {"float": torch.float32, "int": torch.int64}
    features = {key: tdi.FixedLenFeature([], types[kind]) for key, kind in FEATURES}
    works: dict[str, Callable[[], int]] = {
        name: lambda name=name, record=record, batch=batch: rows(
            tdi.TFRecordDataset(folder / name).decode_raw(torch.uint8, (record,)).batch(batch)
        )
        for name, (record, batch) in RAW.items()
    }
    examples = tdi.TFRecordDataset(folder / "example_20")
    works["example_20"] = lambda: rows(examples.batch(EXAMPLE_BATCH).parse_example(features))
    return works | {"tar_index": index}


def tf_data(folder: Path, counts: dict[str, int]) -> dict[str, Callable[[], int]]:
    """The same from tf.data, with the read buffer that its guide recommends; it has no index of archives."""
    import tensorflow as tf

    def rows(batches) -> int:
        return sum(len(next(iter(batch.values())) if isinstance(batch, dict) else batch) for batch in batches)

    def files(name: str):
        return tf.data.TFRecordDataset(str(folder / name), buffer_size=1 << 20)

    types = {"float": tf.float32, "int": tf.int64}
    features = {key: tf.io.FixedLenFeature([], types[kind]) for key, kind in FEATURES}
    works: dict[str, Callable[[], int]] = {
        name: lambda name=name, batch=batch: rows(
            files(name)
            .batch(batch)
            .map(lambda r: tf.io.decode_raw(r, tf.uint8), tf.data.AUTOTUNE)
            .prefetch(tf.data.AUTOTUNE)
        )
        for name, (_, batch) in RAW.items()
    }
    works["example_20"] = lambda: rows(
        files("example_20")
        .batch(EXAMPLE_BATCH)
        .map(lambda r: tf.io.parse_example(r, features), tf.data.AUTOTUNE)
        .prefetch(tf.data.AUTOTUNE)
    )
    return works


def limit(folder: Path, counts: dict[str, int]) -> dict[str, Callable[[], int]]:
    """Bare reads with checksums."""
    library = folder / "librecord_limit.so"
    sources = [ROOT / "benchmarks/cpp/record_limit.cpp", ROOT / "csrc/io/crc32c.cpp"]
    flags = ["-std=c++20", "-O3", "-shared", "-fPIC", f"-I{ROOT / 'csrc'}", "-o", str(library)]
    subprocess.run([os.environ.get("CXX", "c++"), *flags, *map(str, sources)], check=True)
    read = ctypes.CDLL(str(library)).limit_records
    read.restype, read.argtypes = ctypes.c_int64, [ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64]

    def work(name: str, record: int) -> int:
        if read(os.fsencode(folder / name), counts[name], record) != 0:
            raise RuntimeError(f"{name}: wrong checksums")
        return counts[name]

    return {name: lambda name=name, record=record: work(name, record) for name, (record, _) in RAW.items()}


SIDES = {"limit": limit, "torch_distinput": ours, "tf.data": tf_data}


def measure(side: str, folder: Path) -> dict[str, float]:
    """Seconds of a pass: the median of five, after a warm-up."""
    counts = json.loads((folder / "counts.json").read_text())
    found = {}
    for name, run in SIDES[side](folder, counts).items():
        times = []
        for _ in range(6):
            start = time.perf_counter()
            delivered = run()
            times.append(time.perf_counter() - start)
            if delivered != counts[name]:
                raise RuntimeError(f"{side}: {name}: {delivered} of {counts[name]} records")
        found[name] = statistics.median(times[1:])
    return found


def run_side(python: str, side: str, folder: Path) -> dict[str, float]:
    command = [python, __file__, "--side", side, "--folder", str(folder)]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(result.stdout.splitlines()[-1])


def main() -> None:
    """Runs all sides in turn and in the opposite order, and prints medians and their relations."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--tensorflow", help="a Python that can import tensorflow")
    parser.add_argument("--mib", type=int, default=256, help="size of each file")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    if arguments.side:
        print(json.dumps(measure(arguments.side, arguments.folder)))
        return
    import machine

    pythons = dict.fromkeys(SIDES, sys.executable) | {"tf.data": arguments.tensorflow}
    sides = [name for name in SIDES if pythons[name]]
    neighbours = machine.Neighbours()
    runs: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        counts = write_files(folder, arguments.mib << 20)
        (folder / "counts.json").write_text(json.dumps(counts))
        sizes = {work: (folder / work).stat().st_size for work in counts}
        for turn in (sides, sides[::-1], sides):
            for side in turn:
                runs.setdefault(side, []).append(run_side(pythons[side], side, folder))
    others = round(neighbours.cores(), 2)
    results: dict[str, dict] = {}
    for work, count in counts.items():
        for side, found in runs.items():
            if work not in found[0]:
                continue
            seconds = statistics.median(run[work] for run in found)
            figures = {"us_per_record": seconds / count * 1e6, "GB_per_s": sizes[work] / seconds / 1e9}
            for other in ("limit", "tf.data"):
                if side == "torch_distinput" and work in runs.get(other, [{}])[0]:
                    pairs = zip(runs[side], runs[other], strict=True)
                    figures[f"of_{other}"] = statistics.median(run[work] / base[work] for run, base in pairs)
            results.setdefault(work, {})[side] = {key: round(value, 3) for key, value in figures.items()}
            print(f"{work:12} {side:16}", "  ".join(f"{key} {value:.3f}" for key, value in figures.items()))
    print(f"others used {others} cores")
    if arguments.json:
        content = {
            **machine.describe(("torch",)),
            "others_used_cores": others,
            "mib": arguments.mib,
            "results": results,
        }
        arguments.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
