# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`map(num_workers=2)`: a function of Python in processes, beside its calls alone in as many processes.

    python benchmarks/python/map_processes.py [--quick] [--json FILE]

Each figure is the median over repeats, in microseconds a row, of an epoch without its first rows; the series take
turns. `calls` are those of the function alone in two processes, `cpu` what all processes used together. A row of the
function takes 50 us by the clock (as in workers.py), or as many steps of a loop as 50 us of a processor.
"""

import argparse
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
import torch

import torch_distinput as tdi

PROCESSES = 2
WARM_UP = 1000  # rows
SCALAR = tdi.TensorSpec((), torch.int64)
Function = Callable[[torch.Tensor], torch.Tensor]


def by_the_clock(x: torch.Tensor) -> torch.Tensor:
    end = time.perf_counter() + 50e-6
    while time.perf_counter() < end:
        pass
    return x


def spin(steps: int) -> int:
    total = 0
    for step in range(steps):
        total += step * step % 7
    return total


def by_the_processor() -> Function:
    """A function of 50 us of this machine's processor."""
    steps = 500
    for _ in range(5):
        begin = time.process_time()
        for _ in range(2000):
            spin(steps)
        steps = round(steps * 2000 * 50e-6 / (time.process_time() - begin))

    def function(x: torch.Tensor) -> torch.Tensor:
        spin(steps)
        return x

    return function


def of_calls(function: Function, rows: int) -> tuple[float, float]:
    """Seconds and processor's seconds a row of the calls alone."""
    context = multiprocessing.get_context("fork")
    results, start = context.Queue(), context.Barrier(PROCESSES)

    def call() -> None:
        x = torch.tensor(1)
        start.wait()
        begin, cpu = time.perf_counter(), time.process_time()
        for _ in range(rows // PROCESSES):
            function(x)
        results.put((time.perf_counter() - begin, time.process_time() - cpu))

    processes = [context.Process(target=call) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    found = [results.get() for _ in processes]
    for process in processes:
        process.join()
    return max(wall for wall, _ in found) / rows, sum(cpu for _, cpu in found) / rows


def of_epoch(dataset: tdi.Dataset, rows: int) -> tuple[float, float]:
    """The same of an epoch, after its first rows."""
    iterator = iter(dataset)
    seen = 0
    while seen < WARM_UP:
        seen += next(iterator).numel()
    pids = tuple(process.pid for process in multiprocessing.active_children())
    begin, cpu = time.perf_counter(), machine.cpu_seconds(pids)
    for _ in iterator:
        pass
    wall, cpu = time.perf_counter() - begin, machine.cpu_seconds(pids) - cpu
    return wall / (rows - seen), cpu / (rows - seen)


def measure(function: Function, rows: int, repeats: int) -> dict[str, Any]:
    """The figures of one function."""
    source = tdi.Dataset.range(rows)
    stream = tdi.Dataset.from_generator(lambda: iter(range(rows)), SCALAR)
    elsewhere = {"num_workers": PROCESSES}
    datasets = {
        "num_workers=2": source.map(function, **elsewhere),
        "num_workers=2, batches of 32": source.map(function, **elsewhere).batch(32),
        "num_workers=2, a generator's rows": stream.map(function, **elsewhere),
        "num_parallel_calls=2": source.map(function, num_parallel_calls=PROCESSES),
        "this process": source.map(function),
    }
    series = {"calls": lambda: of_calls(function, rows)}
    series |= {name: lambda dataset=dataset: of_epoch(dataset, rows) for name, dataset in datasets.items()}
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in series}
    for _ in range(repeats):
        for name, run in series.items():
            seen[name].append(run())
    medians = {name: [statistics.median(figures) * 1e6 for figures in zip(*runs)] for name, runs in seen.items()}
    wall_of_calls, cpu_of_calls = medians["calls"]
    return {
        name: {
            "us_a_row": round(wall, 2),
            "of_calls": round(wall / wall_of_calls, 3),
            "cpu_us_a_row": round(cpu, 2),
            "cpu_of_calls": round(cpu / cpu_of_calls, 3),
        }
        for name, (wall, cpu) in medians.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer rows and repeats, for a look")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    repeats, rows = (3, 6000) if options.quick else (7, 20_000)
    torch.set_num_threads(1)
    neighbours, figures = machine.Neighbours(), {}
    for name, function in {"50 us by the clock": by_the_clock, "50 us of a processor": by_the_processor()}.items():
        figures[name] = measure(function, rows, repeats)
        print(name, json.dumps(figures[name], indent=1), flush=True)
    result = machine.describe(("torch", "torch_distinput")) | {
        "others_used_cores": round(neighbours.cores(), 2),
        "functions": figures,
    }
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
