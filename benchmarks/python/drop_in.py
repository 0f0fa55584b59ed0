# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`torch_distinput.DataLoader` in place of torch's: the same arguments, datasets and consumers.

    python benchmarks/python/drop_in.py [--quick] [--json FILE]

benchmarks/README.md defines every figure.
"""

import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import limit
import machine
import numpy as np
import torch
from loaders import BatchedTensors, identity
from torch.utils import data
from torch.utils.data import TensorDataset
from works import rows_128

import torch_distinput as tdi

BATCH = 256
UDF_SECONDS = 50e-6
AHEAD = 64 << 20  # bytes that may be read ahead: the default of a pipeline of this library


@dataclass(frozen=True)
class Effort:
    repeats: int
    scale: int  # fewer batches for a quick look


@dataclass(frozen=True)
class Case:
    """Loaders of one kind of data. A series is a function that opens an iterator, or a figure measured by itself."""

    name: str
    title: str
    batches: int
    warm_up: int
    series: dict[str, Callable[[], Iterator]]


class PythonRows(data.Dataset):
    """Rows that take time to make: arithmetic in Python, as in tokenizers and augmentations."""

    def __init__(self, size: int, seconds: float) -> None:
        self.size, self.seconds = size, seconds

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> torch.Tensor:
        end = time.perf_counter() + self.seconds
        while time.perf_counter() < end:
            pass
        return torch.tensor(index)


class Numbers(data.Dataset):
    """The trivial dataset as users of torch write it."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> int:
        return index


def both(arguments: Callable[[], tuple], **keywords) -> dict[str, Callable[[], Iterator]]:
    """The same call of torch's class and of this library's."""
    return {
        "torch": lambda: iter(data.DataLoader(*arguments(), **keywords)),
        "torch_distinput": lambda: iter(tdi.DataLoader(*arguments(), **keywords)),
    }


def tensor_dataset() -> Case:
    work = rows_128()
    batched = BatchedTensors(*work.tensors)
    series = both(lambda: (TensorDataset(*work.tensors), BATCH, True)) | {
        "torch_distinput ahead": lambda: iter(
            tdi.DataLoader(TensorDataset(*work.tensors), BATCH, True, prefetch_bytes=AHEAD)
        ),
        "torch batched": lambda: iter(data.DataLoader(batched, BATCH, True, collate_fn=identity)),
    }
    return Case("tensor_dataset", "TensorDataset, 128 x float32 + int64, batch 256, shuffled", 2000, 64, series)


def memory_map(folder: str) -> Case:
    rows, row = 3000, 3 * 224 * 224
    path = Path(folder) / "rows.npy"
    table = np.lib.format.open_memmap(path, "w+", np.uint8, (rows, row))
    table[:] = np.arange(rows)[:, None] % 251
    del table
    array = np.load(path, mmap_mode="r")
    tensor = torch.from_numpy(np.load(path, mmap_mode="c"))

    def bare() -> Iterator:
        """The limit: one thread copies rows in a precomputed order into warm memory."""
        while True:
            order = torch.randperm(rows)
            cost = limit.gather((tensor,), order, 64, 1, 1)
            yield from [cost.wall / (rows // 64)] * (rows // 64)

    series = (
        {"limit": bare}
        | both(lambda: (array, 64, True))
        | {
            "torch_distinput ahead": lambda: iter(tdi.DataLoader(array, 64, True, prefetch_bytes=AHEAD)),
        }
    )
    return Case("memory_map", "numpy memory map, rows of 150 kB, batch 64, shuffled", 40, 6, series)


def getitems() -> Case:
    dataset = BatchedTensors(*rows_128().tensors)

    def direct() -> Iterator:
        """The dataset's function alone, with precomputed lists of indices."""
        order = torch.randperm(len(dataset))
        lists = [indices.tolist() for indices in order[: 2200 * BATCH].split(BATCH)]
        return (dataset.__getitems__(indices) for indices in lists)

    series = {"direct": direct} | both(lambda: (dataset, BATCH, True), collate_fn=identity)
    return Case("getitems", "a dataset with __getitems__, batch 256, shuffled", 2000, 64, series)


def python_rows() -> Case:
    dataset = PythonRows(100_000, UDF_SECONDS)
    zero, two = both(lambda: (dataset, 32, True)), both(lambda: (dataset, 32, True), num_workers=2)
    series = {f"{name}, {workers} workers": opened[name] for workers, opened in ((0, zero), (2, two)) for name in zero}
    return Case("python_rows", "50 us of Python a row, batch 32, shuffled", 200, 20, series)


def numbers() -> Case:
    class Batched(Numbers):
        def __getitems__(self, indices: list[int]) -> torch.Tensor:
            return torch.tensor(indices)

    size = 4_000_000
    series = both(lambda: (range(size), BATCH)) | {
        "torch batched": lambda: iter(data.DataLoader(Batched(size), BATCH, collate_fn=identity)),
        "torch_distinput pipeline": lambda: iter(tdi.DataLoader(tdi.Dataset.range(size).batch(BATCH), None)),
        "torch_distinput class of Python": lambda: iter(tdi.DataLoader(Numbers(size), BATCH)),
    }
    return Case("numbers", "range, batch 256", 3000, 64, series)


def microseconds(case: Case, name: str, batches: int) -> float:
    """Wall time between batches, after the warm-up, with a consumer that does nothing."""
    gc.collect()
    iterator = case.series[name]()
    for _ in islice(iterator, case.warm_up):
        pass
    start, told = time.perf_counter(), 0.0
    for batch in islice(iterator, batches):
        told += batch if isinstance(batch, float) else 0.0
    wall = time.perf_counter() - start
    return (told or wall) / batches * 1e6


def run_case(case: Case, effort: Effort) -> dict:
    neighbours = machine.Neighbours()
    samples: dict[str, list[float]] = {name: [] for name in case.series}
    for repeat in range(effort.repeats):
        # The order is reversed in every second repeat: what runs before A in one repeat runs after it in the next.
        for name in list(case.series)[:: 1 if repeat % 2 == 0 else -1]:
            samples[name].append(microseconds(case, name, max(20, case.batches // effort.scale)))
    gc.collect()
    series = {
        name: {"us_per_batch": statistics.median(each), "spread": (max(each) - min(each)) / statistics.median(each),
               "samples_us": each}
        for name, each in samples.items()
    }  # fmt: skip
    return {"name": case.name, "title": case.title, "others_cores": round(neighbours.cores(), 2), "series": series}


def times(case: dict, slower: str, faster: str = "torch_distinput") -> float:
    """The median over the repeats of `slower` / `faster`."""
    pairs = zip(case["series"][slower]["samples_us"], case["series"][faster]["samples_us"], strict=True)
    return statistics.median(slow / fast for slow, fast in pairs)


def milliseconds(call: Callable[[], object], repeats: int) -> float:
    call()
    samples = []
    for _ in range(repeats):
        gc.collect()
        start = time.perf_counter()
        call()
        samples.append((time.perf_counter() - start) * 1e3)
    return statistics.median(samples)


def first_batches(repeats: int) -> dict[str, float]:
    """From the dataset to the first batch of 10^7 shuffled rows."""
    dataset = TensorDataset(torch.arange(10_000_000))

    def first(cls: type, **keywords) -> Callable[[], object]:
        return lambda: next(iter(cls(dataset, BATCH, shuffle=True, **keywords)))

    generator = torch.Generator().manual_seed(1)
    return {
        "torch": milliseconds(first(data.DataLoader), 2),
        "torch_distinput": milliseconds(first(tdi.DataLoader), repeats),
        "torch_distinput, generator given": milliseconds(first(tdi.DataLoader, generator=generator), repeats),
    }


def resumes(repeats: int) -> dict[str, float]:
    """From a state at half of an epoch to the next batch, with everything constructed again."""
    rows = rows_128().tensors
    datasets = {"native": TensorDataset(*rows), "Python": Numbers(1_000_000)}
    found = {}
    for name, dataset in datasets.items():
        loader = tdi.DataLoader(dataset, BATCH, shuffle=True)
        for _ in islice(loader, len(loader) // 2):
            pass
        state = loader.state_dict()

        def resume(dataset=dataset, state=state) -> object:
            other = tdi.DataLoader(dataset, BATCH, shuffle=True)
            other.load_state_dict(state)
            return next(iter(other))

        found[name] = milliseconds(resume, repeats)
    return found


def goals(cases: dict[str, dict], first: dict[str, float], resume: dict[str, float]) -> list[dict]:
    """The goals and the measured values."""
    found = []

    def goal(what: str, value: float, *, least: float | None = None, most: float | None = None) -> None:
        reached = value >= least if least is not None else value <= most
        wanted = f">= {least:g}" if least is not None else f"<= {most:g}"
        found.append({"goal": what, "wanted": wanted, "measured": round(value, 3), "reached": reached})

    goal("tensor_dataset: times as fast as torch", times(cases["tensor_dataset"], "torch"), least=20)
    goal("tensor_dataset: times as fast as torch batched", times(cases["tensor_dataset"], "torch batched"), least=2.5)
    ahead = times(cases["tensor_dataset"], "torch batched", "torch_distinput ahead")
    goal("tensor_dataset, ahead: times as fast as torch batched", ahead, least=2.5)
    goal("memory_map: of the limit", times(cases["memory_map"], "limit"), least=0.9)
    ahead = times(cases["memory_map"], "limit", "torch_distinput ahead")
    goal("memory_map, ahead: of the limit", ahead, least=0.9)
    goal("getitems: of calling it directly", times(cases["getitems"], "torch_distinput", "direct"), most=1.1)
    python = cases["python_rows"]["series"]
    best = {cls: min(python[f"{cls}, {workers} workers"]["us_per_batch"] for workers in (0, 2))
            for cls in ("torch", "torch_distinput")}  # fmt: skip
    goal("python_rows: of the better of torch's", best["torch"] / best["torch_distinput"], least=0.95)
    goal("numbers: us per batch", cases["numbers"]["series"]["torch_distinput"]["us_per_batch"], most=12)
    goal("numbers as a pipeline: us per batch",
         cases["numbers"]["series"]["torch_distinput pipeline"]["us_per_batch"], most=12)  # fmt: skip
    goal("first batch of 10^7 rows: ms", first["torch_distinput"], most=50)
    goal("first batch of 10^7 rows, generator given: ms", first["torch_distinput, generator given"], most=50)
    goal("resume at half of an epoch: ms", resume["native"], most=10)
    return found


def print_case(case: dict) -> None:
    print(f"\n{case['title']}   (others used {case['others_cores']:.2f} cores)")
    for name, series in case["series"].items():
        print(f"  {name:32} {series['us_per_batch']:9.1f} us/batch   spread {series['spread']:.0%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="3 short repeats; figures to look at, not to quote")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    args = parser.parse_args()
    effort = Effort(3, 8) if args.quick else Effort(5, 1)

    torch.set_num_threads(1)
    result = machine.describe(("torch", "numpy", "torch_distinput"))
    result["settings"] = {"intra_op_threads": torch.get_num_threads(), "repeats": effort.repeats}
    result["cases"] = []
    with tempfile.TemporaryDirectory() as folder:
        for make in (tensor_dataset, lambda: memory_map(folder), getitems, python_rows, numbers):
            result["cases"].append(run_case(make(), effort))
            print_case(result["cases"][-1])
    result["first_batch_ms"] = first_batches(effort.repeats)
    result["resume_ms"] = resumes(effort.repeats)
    named = {case["name"]: case for case in result["cases"]}
    result["goals"] = goals(named, result["first_batch_ms"], result["resume_ms"])
    print()
    for each in result["goals"]:
        print(f"{'reached' if each['reached'] else 'MISSED':8} {each['goal']}: {each['measured']} ({each['wanted']})")
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
