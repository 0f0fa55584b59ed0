# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The start of spawned worker processes: `torch_distinput.DataLoader` and torch's over a list of paths.

    python benchmarks/python/starts.py [--quick] [--repeats N] [--json FILE]

The dataset has 1.28 million paths, as the list of ImageNet's files, and 16 workers. `first` is the time in seconds from
`iter` to the first batch, `all` that to the first batch of each worker, in a fresh process for each figure; `import`
that of `import torch_distinput` in a new interpreter. The series take turns, and figures are medians of the repeats.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import machine
from torch.utils import data

import torch_distinput as tdi

CLASSES = {"torch": data.DataLoader, "torch_distinput": tdi.DataLoader}


class Paths(data.Dataset):
    """Row i is the length of path i."""

    def __init__(self, size: int) -> None:
        self.paths = [
            f"/datasets/imagenet/train/n{row // 1300:08d}/n{row // 1300:08d}_{row}.JPEG" for row in range(size)
        ]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, row: int) -> int:
        return len(self.paths[row])


def run(name: str, method: str, workers: int, size: int) -> dict[str, float]:
    """The figures of one loader in this process."""
    loader = CLASSES[name](Paths(size), 32, num_workers=workers, multiprocessing_context=method)
    begin = time.perf_counter()
    iterator = iter(loader)
    next(iterator)
    first = time.perf_counter() - begin
    for _ in range(workers - 1):
        next(iterator)
    return {"first": round(first, 2), "all": round(time.perf_counter() - begin, 2)}


def in_new_process(*arguments: object) -> Any:
    """What this program prints when it is called with `arguments`."""
    command = [sys.executable, __file__, "--run", *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def seconds_of_import() -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch_distinput"], check=True)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer workers and paths, for a look")
    parser.add_argument("--repeats", type=int, default=3, help="of each figure")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        name, method, workers, size = options.run
        print(json.dumps(run(name, method, int(workers), int(size))))
        return
    workers, size = (4, 128_000) if options.quick else (16, 1_280_000)
    neighbours = machine.Neighbours()
    seen: dict[str, list[float]] = {}
    for _ in range(options.repeats):
        seen.setdefault("import", []).append(seconds_of_import())
        for method in ("spawn", "forkserver"):
            for name in CLASSES:
                for figure, seconds in in_new_process(name, method, workers, size).items():
                    seen.setdefault(f"{name}, {method}, {figure}", []).append(seconds)
    result = machine.describe(("torch", "torch_distinput")) | {
        "workers": workers,
        "paths": size,
        "repeats": options.repeats,
        "others": round(neighbours.cores(), 2),
        "seconds": {name: round(statistics.median(values), 2) for name, values in seen.items()},
    }
    print(json.dumps(result["seconds"], indent=1))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
