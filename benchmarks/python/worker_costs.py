# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What a batch of two worker processes costs all processors, beside the least that it can.

    python benchmarks/python/worker_costs.py [--quick] [--json FILE]

Each figure is the median over repeats, in microseconds a batch of 256 rows that cost nothing; the series take turns.
`cpu` is the time of all processors, `consumer` that of the process that uses the batches. `calls` are those of
`__getitem__` alone, in this process. `exchange` is a bare loop: two processes get a first and a last row through a
pipe, make the calls and send what they return through another one; this process makes a tensor of it. Each of them has
two tasks, as a loader's workers have.

It takes ten seconds, so that it may have the processors before programs that run beside it: `chrt -r 1 python ...`
"""

import argparse
import itertools
import json
import multiprocessing
import os
import statistics
import struct
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import machine
import torch
from torch.utils import data
from workers import CLASSES, WARM_UP, WORKERS, Numbers

BATCH = 256
AHEAD = 2  # tasks of a worker
TASK = struct.Struct("qq")
ORDERS: dict[str, dict[str, Any]] = {"in order": {}, "shuffled": {"shuffle": True}}


def answer(dataset: data.Dataset, tasks: int, results: int) -> None:
    """One process of `exchange`."""
    while task := os.read(tasks, TASK.size):
        first, last = TASK.unpack(task)
        os.write(results, array("q", [dataset[row] for row in range(first, last + 1)]))


def exchange(dataset: data.Dataset) -> Iterator[torch.Tensor]:
    """Batches without end, as `answer` makes them."""
    context = multiprocessing.get_context("fork")
    tasks, results = ([os.pipe() for _ in range(WORKERS)] for _ in range(2))
    processes = [
        context.Process(target=answer, args=(dataset, tasks[i][0], results[i][1]), daemon=True) for i in range(WORKERS)
    ]
    for process in processes:
        process.start()

    def ask(batch: int) -> None:
        os.write(tasks[batch % WORKERS][1], TASK.pack(batch * BATCH, (batch + 1) * BATCH - 1))

    try:
        for batch in range(AHEAD * WORKERS):
            ask(batch)
        for batch in itertools.count():
            values = os.read(results[batch % WORKERS][0], 8 * BATCH)
            ask(batch + AHEAD * WORKERS)
            yield torch.frombuffer(bytearray(values), dtype=torch.int64)
    finally:
        for process in processes:
            process.kill()
            process.join()
        for pipe in (*tasks, *results):
            for end in pipe:
                os.close(end)


def of_calls(dataset: data.Dataset, batches: int) -> dict[str, float]:
    """The figures of the calls alone, a batch."""
    wall, cpu = time.perf_counter(), time.process_time()
    for batch in range(batches):
        [dataset[row] for row in range(batch * BATCH, (batch + 1) * BATCH)]
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"us": wall / batches * 1e6, "cpu": cpu / batches * 1e6, "consumer": 0.0}


def of_batches(iterator: Iterator[torch.Tensor], batches: int) -> dict[str, float]:
    """The figures of `batches` of `iterator`, a batch, without those of its begin and end."""
    for _ in range(WARM_UP):
        next(iterator)
    pids = tuple(process.pid for process in multiprocessing.active_children() if process.pid is not None)
    wall, own, cpu = time.perf_counter(), time.process_time(), machine.cpu_seconds(pids)
    for _ in itertools.islice(iterator, batches):
        pass
    wall, own, cpu = time.perf_counter() - wall, time.process_time() - own, machine.cpu_seconds(pids) - cpu
    return {"us": wall / batches * 1e6, "cpu": cpu / batches * 1e6, "consumer": own / batches * 1e6}


def measure(batches: int, repeats: int) -> dict[str, dict[str, float]]:
    """The figures of all series."""
    dataset = Numbers((batches + 4 * WARM_UP) * BATCH)
    series: dict[str, Callable[[], dict[str, float]]] = {
        "calls": lambda: of_calls(dataset, batches),
        "exchange": lambda: of_batches(exchange(dataset), batches),
    }
    for order, arguments in ORDERS.items():
        for name, cls in CLASSES.items():
            # torch's batches take so long that a tenth of them tells as much.
            part = batches // 10 if name == "torch" else batches
            loader = cls(dataset, BATCH, num_workers=WORKERS, **arguments)
            series[f"{name}, {order}"] = lambda loader=loader, part=part: of_batches(iter(loader), part)
    seen: dict[str, list[dict[str, float]]] = {name: [] for name in series}
    for _ in range(repeats):
        for name, run in series.items():
            seen[name].append(run())
    return {
        name: {key: round(statistics.median(one[key] for one in runs), 1) for key in runs[0]}
        for name, runs in seen.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer batches and repeats, for a look")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    neighbours = machine.Neighbours()
    figures = measure(*((500, 3) if options.quick else (2000, 7)))
    for name, one in figures.items():
        print(f"{name:30}", json.dumps(one))
    result = machine.describe(("torch", "torch_distinput")) | {
        "workers": WORKERS,
        "others": round(neighbours.cores(), 2),
        "us_a_batch": figures,
    }
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
