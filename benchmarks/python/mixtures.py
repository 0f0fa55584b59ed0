# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What a mixture costs a step, and how long it takes until one of a hundred large datasets is ready.

    python benchmarks/python/mixtures.py --json benchmarks/results/mixtures.json

Steps are batches of rows in memory, made in the consumer's thread on one thread: of one dataset with all rows, and of
mixtures of eight datasets that have the same rows, by equal and by uneven weights. `scheduled` changes its weights at
ten steps. Sides run in turn, in the opposite order, and so on; ratios are medians of the rounds' ratios.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import machine
import torch

import torch_distinput as tdi

DATASETS, BATCH, BYTES = 8, 512, 64 << 20
ROW_BYTES = (64, 1024, 4096)
READY = {"datasets": 100, "rows": 1_000_000_000}
UNEVEN = [2.0**-i for i in range(DATASETS)]


def sides(rows: int, row_bytes: int) -> dict[str, tdi.Dataset]:
    data = torch.zeros(rows, row_bytes, dtype=torch.uint8)
    parts = [tdi.Dataset.from_tensor_slices(part).repeat() for part in data.chunk(DATASETS)]
    steps = rows // BATCH
    schedule = [(steps * i // 10, UNEVEN[::-1] if i % 2 else UNEVEN) for i in range(10)]
    mixtures = {
        "one dataset": tdi.Dataset.from_tensor_slices(data).repeat(),
        "equal weights": tdi.Dataset.sample_from_datasets(parts, seed=1),
        "uneven weights": tdi.Dataset.sample_from_datasets(parts, UNEVEN, seed=1),
        "scheduled": tdi.Dataset.sample_from_datasets(parts, schedule, seed=1, elements_per_step=BATCH),
    }
    here = tdi.Options(num_threads=1, prefetch=0)
    return {name: rows.batch(BATCH).take(steps).with_options(here) for name, rows in mixtures.items()}


def step_microseconds(batches: tdi.Dataset) -> float:
    start, steps = time.perf_counter(), 0
    for _ in batches:
        steps += 1
    return (time.perf_counter() - start) / steps * 1e6


def steps_of(row_bytes: int, rounds: int) -> dict:
    measured = sides(BYTES // row_bytes, row_bytes)
    for batches in measured.values():
        step_microseconds(batches)
    samples: dict[str, list[float]] = {name: [] for name in measured}
    for number in range(rounds):
        for name in list(measured)[:: 1 if number % 2 == 0 else -1]:
            samples[name].append(step_microseconds(measured[name]))
    one = samples["one dataset"]
    return {
        name: {
            "us_per_step": round(statistics.median(found), 2),
            "of_one_dataset": round(statistics.median(a / b for a, b in zip(found, one, strict=True)), 3),
        }
        for name, found in samples.items()
    }


def ready_ms() -> float:
    """Until the last element of a mixture of many large datasets is there."""
    start = time.perf_counter()
    datasets = [tdi.Dataset.range(READY["rows"]).shuffle(seed=i) for i in range(READY["datasets"])]
    mixed = tdi.Dataset.sample_from_datasets(datasets, [1 + i % 7 for i in range(len(datasets))], seed=1)
    next(iter(mixed.skip(len(mixed) - 1)))
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    others = machine.Neighbours()
    steps = {str(size): steps_of(size, arguments.rounds) for size in ROW_BYTES}
    ready = round(statistics.median(ready_ms() for _ in range(arguments.rounds)), 2)
    result = {
        **machine.describe(("torch",)),
        "others_used_cores": round(others.cores(), 2),
        "steps_by_row_bytes": steps,
        "ready": {**READY, "ms": ready},
    }
    print(json.dumps(result, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
