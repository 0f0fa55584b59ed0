# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Worker processes: `torch_distinput.DataLoader` and torch's over datasets whose rows Python makes.

    python benchmarks/python/workers.py [--quick] [--json FILE]

Each figure is the median over repeats, in microseconds a batch, of one epoch without its first batches. `calls` is the
work itself, in as many processes as there are workers: the calls of `__getitem__`, or for images the copies of rows
to a batch. `first` is the time from `iter` to the first batch, `next epoch` the same right after an epoch of the same
loader, whose workers are persistent.
"""

import argparse
import io
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
import numpy as np
import torch
from torch.utils import data

import torch_distinput as tdi

WORKERS = 2
WARM_UP = 8  # batches
CLASSES = {"torch": data.DataLoader, "torch_distinput": tdi.DataLoader}


class Numbers(data.Dataset):
    """Rows that cost nothing."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, row: int) -> Any:
        return row


class Busy(Numbers):
    """Rows of 50 microseconds of Python."""

    def __getitem__(self, row: int) -> Any:
        end = time.perf_counter() + 50e-6
        while time.perf_counter() < end:
            pass
        return row


class Images(Numbers):
    """Rows of a memory map of 256 images of 150 kB."""

    def __init__(self, size: int, folder: str) -> None:
        super().__init__(size)
        self.path = Path(folder) / "images.npy"
        if not self.path.exists():
            np.save(self.path, np.random.default_rng(1).integers(0, 256, (256, 150_000), np.uint8))
        self.rows = np.load(self.path, mmap_mode="r")

    def __getitem__(self, row: int) -> Any:
        return self.rows[row % 256]


class Fields(Numbers):
    """A dict of 64 small fields."""

    def __getitem__(self, row: int) -> Any:
        return {f"field{i}": np.float32(row) for i in range(64)}


class Strings(Numbers):
    """A string and its length."""

    def __getitem__(self, row: int) -> Any:
        return f"the text of row {row}" * 4, row


class Ragged(Numbers):
    """Tensors of different lengths, which a collate_fn leaves as they are."""

    def __getitem__(self, row: int) -> Any:
        return torch.zeros(10 + row % 7), row


class Jpegs(Numbers):
    """Shaped as ImageFolder with Pillow: decode, crop to 224, flip, and make a float tensor."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        from PIL import Image

        pixels = np.random.default_rng(2).integers(0, 256, (12, 16, 3), np.uint8)
        file = io.BytesIO()
        Image.fromarray(pixels).resize((500, 375), Image.Resampling.BICUBIC).save(file, "JPEG", quality=90)
        self.bytes = file.getvalue()

    def __getitem__(self, row: int) -> Any:
        from PIL import Image

        left, top = row % 276, row % 151
        with Image.open(io.BytesIO(self.bytes)) as image:
            cut = image.convert("RGB").crop((left, top, left + 224, top + 224))
        if row % 2:
            cut = cut.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return torch.from_numpy(np.array(cut)).permute(2, 0, 1).float().div(255), row % 1000


def as_they_are(samples: list[Any]) -> list[Any]:
    return samples


def us_per_batch(loader: data.DataLoader) -> float:
    """Microseconds a batch of one epoch."""
    iterator = iter(loader)
    for _ in range(WARM_UP):
        next(iterator)
    begin, count = time.perf_counter(), 0
    for _ in iterator:
        count += 1
    return (time.perf_counter() - begin) / count * 1e6


def us_to_first(loader: data.DataLoader) -> float:
    """Microseconds from `iter` to the first batch."""
    begin = time.perf_counter()
    iterator = iter(loader)
    next(iterator)
    seconds = time.perf_counter() - begin
    for _ in iterator:
        pass
    return seconds * 1e6


def us_to_next_epoch(loader: data.DataLoader) -> float:
    """The same for the epoch that follows another one of the same loader."""
    us_to_first(loader)
    return us_to_first(loader)


def call_rows(dataset: data.Dataset, begin: int, end: int, batch: int, results: Any) -> None:
    """One process of `calls`: sends its seconds."""
    copied = isinstance(dataset, Images)
    target = np.empty((batch, 150_000), np.uint8) if copied else None
    started = time.perf_counter()
    for row in range(begin, end):
        value = dataset[row]
        if target is not None:
            target[row % batch] = value
    results.put(time.perf_counter() - started)


def us_of_calls(dataset: Any, batch: int) -> float:
    """Microseconds a batch of the work itself in `WORKERS` processes."""
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    part = len(dataset) // WORKERS
    processes = [
        context.Process(target=call_rows, args=(dataset, i * part, (i + 1) * part, batch, results))
        for i in range(WORKERS)
    ]
    for process in processes:
        process.start()
    seconds = max(results.get() for _ in processes)
    for process in processes:
        process.join()
    return seconds / (len(dataset) / batch) * 1e6


def cases(scale: int, folder: str) -> dict[str, tuple[Any, dict[str, Any]]]:
    """For each case a dataset and the arguments of the loaders."""
    found: dict[str, tuple[Any, dict[str, Any]]] = {
        "range, 256 rows": (Numbers(256 * 2000 // scale), {"batch_size": 256}),
        "50 us of Python, 32 rows": (Busy(32 * 600 // scale), {"batch_size": 32}),
        "images of 150 kB, 64 rows": (Images(64 * 300 // scale, folder), {"batch_size": 64}),
        "64 fields, 32 rows": (Fields(32 * 600 // scale), {"batch_size": 32}),
        "strings, 256 rows": (Strings(256 * 600 // scale), {"batch_size": 256}),
        "ragged tuples, 32 rows": (Ragged(32 * 600 // scale), {"batch_size": 32, "collate_fn": as_they_are}),
    }
    try:
        found["JPEG with Pillow, 32 rows"] = (Jpegs(32 * max(60 // scale, 20)), {"batch_size": 32})
    except ImportError:
        print("Pillow is not installed: no JPEGs", file=sys.stderr)
    return found


def measure(dataset: Any, arguments: dict[str, Any], repeats: int) -> dict[str, float]:
    """The figures of one case; the series take turns."""
    series: dict[str, Callable[[], float]] = {"calls": lambda: us_of_calls(dataset, arguments["batch_size"])}
    for name, cls in CLASSES.items():
        for workers in (0, WORKERS):
            loader = cls(dataset, num_workers=workers, **arguments)
            series[f"{name}, {workers} workers"] = lambda loader=loader: us_per_batch(loader)
    return medians(series, repeats)


def starts(repeats: int) -> dict[str, float]:
    """How long the first batch of an epoch takes."""
    series: dict[str, Callable[[], float]] = {}
    for name, cls in CLASSES.items():
        loader = cls(Numbers(1000), 10, num_workers=WORKERS)
        persistent = cls(Numbers(1000), 10, num_workers=WORKERS, persistent_workers=True)
        series[f"{name}, first"] = lambda loader=loader: us_to_first(loader)
        series[f"{name}, next epoch"] = lambda loader=persistent: us_to_next_epoch(loader)
    return medians(series, repeats)


def medians(series: dict[str, Callable[[], float]], repeats: int) -> dict[str, float]:
    seen: dict[str, list[float]] = {name: [] for name in series}
    for _ in range(repeats):
        for name, run in series.items():
            seen[name].append(run())
    return {name: round(statistics.median(values), 1) for name, values in seen.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer batches and repeats, for a look")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    repeats, scale = (1, 10) if options.quick else (7, 1)
    torch.set_num_threads(1)
    neighbours, figures = machine.Neighbours(), {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (dataset, arguments) in cases(scale, folder).items():
            figures[name] = measure(dataset, arguments, repeats)
            print(name, json.dumps(figures[name]), flush=True)
    figures["the first batch of an epoch"] = starts(3 * repeats)
    print("the first batch of an epoch", json.dumps(figures["the first batch of an epoch"]))
    result = machine.describe(("torch", "numpy", "torch_distinput")) | {
        "workers": WORKERS,
        "others": round(neighbours.cores(), 2),
        "us_per_batch": figures,
    }
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
