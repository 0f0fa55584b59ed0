# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Shuffled batches of rows in memory: torch_distinput, torch's DataLoader and the memory limit.

    python benchmarks/python/in_memory_rows.py [--quick] [--work NAME] [--json FILE]

benchmarks/README.md defines every figure.
"""

import argparse
import gc
import json
import math
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import limit
import machine
import torch
from loaders import LOADERS, leaves, ours, workers_of
from report import goals, print_goals, print_work
from works import WORKS, Work

import torch_distinput as tdi

CONSUMER_SECONDS = 1e-3
# Threads, and how many warm batches of memory each has.
LIMITS = {"limit": (1, 1), "limit 2 threads": (2, 1), "limit 4 buffers": (1, 4)}


@dataclass(frozen=True)
class Effort:
    repeats: int
    seconds: float  # timed part of one idle measurement
    working_batches: int


@dataclass
class Series:
    """One value for each repeat, in order."""

    us: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    first_ms: list[float] = field(default_factory=list)
    exposed_us: list[float] = field(default_factory=list)
    noise_us: list[float] = field(default_factory=list)
    in_next_us: list[float] = field(default_factory=list)
    working_cpu_us: list[float] = field(default_factory=list)


# --- the idle consumer -----------------------------------------------------------------------------------


def limit_pass(work: Work, name: str, seed: int) -> limit.Cost:
    order = torch.randperm(work.rows, generator=torch.Generator().manual_seed(seed))
    return limit.gather(work.tensors, order, work.batch, *LIMITS[name])


def loader_pass(work: Work, name: str, seed: int, batches: int) -> tuple[float, float, float]:
    """Seconds to the first batch, then wall and CPU seconds of `batches` batches after the warm-up."""
    gc.collect()
    start = time.perf_counter()
    iterator = LOADERS[name](work, seed)
    batch = next(iterator)
    first = time.perf_counter() - start
    for batch in islice(iterator, work.warm_up - 1):
        pass
    workers = workers_of(iterator)
    cpu, start = machine.cpu_seconds(workers), time.perf_counter()
    for batch in islice(iterator, batches):
        pass
    wall = time.perf_counter() - start
    del batch
    return first, wall, machine.cpu_seconds(workers) - cpu


def plan_passes(work: Work, name: str, seconds: float) -> tuple[int, int]:
    """Batches of one pass, and how many passes fill `seconds`."""
    whole = work.rows // work.batch
    if name in LIMITS:
        batches, batch_seconds = whole, limit_pass(work, name, 0).wall / whole
    else:
        batch_seconds = loader_pass(work, name, 0, 20)[1] / 20
        batches = max(20, min(whole - work.warm_up, round(seconds / batch_seconds)))
    return batches, max(1, math.ceil(seconds / (batches * batch_seconds)))


def measure_idle(work: Work, name: str, seed: int, batches: int, passes: int, series: Series) -> None:
    wall = cpu = 0.0
    for turn in range(passes):
        if name in LIMITS:
            cost = limit_pass(work, name, seed + turn)
            pass_wall, pass_cpu = cost.wall, cost.cpu
        else:
            first, pass_wall, pass_cpu = loader_pass(work, name, seed + turn, batches)
            series.first_ms.append(first * 1e3)
        wall, cpu = wall + pass_wall, cpu + pass_cpu
    series.us.append(wall / (batches * passes) * 1e6)
    series.cpu_us.append(cpu / (batches * passes) * 1e6)


# --- the working consumer --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Consumed:
    """Seconds in all, in `next`, and of CPU time."""

    wall: float
    in_next: float
    cpu: float


def consume(batches: Iterator, rounds: int, workers: tuple[int, ...] = ()) -> Consumed:
    """Works on each batch and holds it meanwhile."""
    cpu, start = machine.cpu_seconds(workers), time.perf_counter()
    in_next, asked = 0.0, start
    while (batch := next(batches, None)) is not None:
        in_next += time.perf_counter() - asked
        limit.work(rounds)
        asked = time.perf_counter()
    del batch
    return Consumed(time.perf_counter() - start, in_next, machine.cpu_seconds(workers) - cpu)


def measure_working(work: Work, name: str, seed: int, batches: int, rounds: int, series: Series) -> None:
    """Consumer alone, consumer with loader, consumer alone."""
    gc.collect()
    before = consume(iter(range(batches)), rounds)
    iterator = LOADERS[name](work, seed)
    consume(islice(iterator, work.warm_up), rounds)
    both = consume(islice(iterator, batches), rounds, workers_of(iterator))
    del iterator
    after = consume(iter(range(batches)), rounds)
    series.exposed_us.append((both.wall - (before.wall + after.wall) / 2) / batches * 1e6)
    series.noise_us.append(abs(before.wall - after.wall) / 2 / batches * 1e6)
    series.in_next_us.append(both.in_next / batches * 1e6)
    series.working_cpu_us.append((both.cpu - (before.cpu + after.cpu) / 2) / batches * 1e6)


# --- what is counted, not timed --------------------------------------------------------------------------


def check_exactly_once(work: Work, name: str) -> None:
    seen = torch.cat([work.ids(leaves(batch)) for batch in LOADERS[name](work, 1)])
    numbers = torch.arange(work.rows)
    assert torch.equal(seen.sort().values, numbers), f"{work.name}: {name}: not every row exactly once"
    assert not torch.equal(seen, numbers), f"{work.name}: {name}: not shuffled"


def steady_allocations(work: Work, rounds: int) -> dict[str, int]:
    """New blocks of batch memory after the warm-up, for a consumer that drops each batch."""
    counts = {}
    iterator = ours(work, 1)
    # With a slow consumer everything is read ahead; with a fast one most batches are being built.
    consume(islice(iterator, work.warm_up), rounds)
    consume(islice(iterator, work.rows // work.batch // 4), 0)
    for consumer, batches, busy in (("working", 2 * work.warm_up, rounds), ("idle", work.rows, 0)):
        before = iterator.stats()["allocations"]
        consume(islice(iterator, batches), busy)
        counts[consumer] = iterator.stats()["allocations"] - before
    return counts


def measure_shuffle(repeats: int) -> dict[str, float]:
    """A full shuffle of 10^9 rows: time to its first batch, and the peak that it adds to the resident memory."""
    milliseconds, grown = [], []
    for repeat in range(repeats + 1):
        rows = 10**9 if repeat else 10**6  # the first repeat starts threads and fills pools
        gc.collect()
        before = machine.reset_peak_memory()
        start = time.perf_counter()
        iterator = iter(tdi.Dataset.range(rows).shuffle(seed=repeat).batch(256))
        next(iterator)
        milliseconds.append((time.perf_counter() - start) * 1e3)
        grown.append((machine.peak_memory() - before) / 1e6)
    return {"ms": statistics.median(milliseconds[1:]), "most_mb": max(grown[1:])}


# --- one run ---------------------------------------------------------------------------------------------


def run_work(work: Work, effort: Effort, rounds: int, check_all: bool) -> dict:
    neighbours = machine.Neighbours()
    checked = [name for name in LOADERS if check_all or name in ("torch_distinput", "torch batched")]
    for name in checked:
        check_exactly_once(work, name)
    names = [*LIMITS, *LOADERS]
    passes = {name: plan_passes(work, name, effort.seconds) for name in names}
    series = {name: Series() for name in names}
    for repeat in range(effort.repeats):
        # The order is reversed in every second repeat: what runs before A in one repeat runs after it in the next.
        step = 1 if repeat % 2 == 0 else -1
        for name in names[::step]:
            measure_idle(work, name, 1000 * repeat, *passes[name], series[name])
        for name in list(LOADERS)[::step]:
            measure_working(work, name, 1000 * repeat, effort.working_batches, rounds, series[name])
    allocations = steady_allocations(work, rounds)
    gc.collect()  # ends the last workers, so that their CPU time is counted
    return {
        "name": work.name,
        "title": work.title,
        "rows": work.rows,
        "batch": work.batch,
        "row_bytes": work.row_bytes,
        "exactly_once": checked,
        "steady_allocations": allocations,
        "others_cores": round(neighbours.cores(), 2),
        "series": {name: summary(work, one, series["limit"]) for name, one in series.items()},
    }


def summary(work: Work, series: Series, bare: Series) -> dict:
    """Medians over the repeats; ratios are medians of the repeats' ratios."""
    us = statistics.median(series.us)
    result = {
        "us_per_batch": us,
        "spread": (max(series.us) - min(series.us)) / us,
        "samples_us": series.us,
        "rows_per_second": work.batch / us * 1e6,
        "cpu_us_per_batch": statistics.median(series.cpu_us),
        "of_limit": statistics.median(one / own for one, own in zip(bare.us, series.us, strict=True)),
    }
    if series.first_ms:
        shares = (exposed / alone for exposed, alone in zip(series.exposed_us, series.us, strict=True))
        result |= {
            "first_batch_ms": statistics.median(series.first_ms),
            "exposed_us": statistics.median(series.exposed_us),
            "exposed_samples_us": series.exposed_us,
            "exposed_noise_us": statistics.median(series.noise_us),
            "exposed_share": statistics.median(shares),
            "in_next_us": statistics.median(series.in_next_us),
            "working_cpu_us": statistics.median(series.working_cpu_us),
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="3 short repeats; figures to look at, not to quote")
    parser.add_argument("--work", action="append", choices=WORKS, help="only this work (may be repeated)")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    args = parser.parse_args()
    effort = Effort(3, 0.1, 60) if args.quick else Effort(5, 0.3, 200)

    torch.set_num_threads(1)
    start = time.perf_counter()
    result = machine.describe(("torch", "numpy", "torch_distinput"))
    rounds = limit.rounds_for(CONSUMER_SECONDS)
    result["settings"] = {
        "intra_op_threads": torch.get_num_threads(),
        "repeats": effort.repeats,
        "consumer_us": CONSUMER_SECONDS * 1e6,
        "working_batches": effort.working_batches,
    }
    result["shuffle_1e9"] = measure_shuffle(effort.repeats)
    result["works"] = []
    for name in args.work or WORKS:
        result["works"].append(run_work(WORKS[name](), effort, rounds, check_all=not args.quick))
        print_work(result["works"][-1])
    result["goals"] = goals(result["works"], result["shuffle_1e9"])
    print_goals(result["goals"])
    result["seconds"] = round(time.perf_counter() - start, 1)
    print(f"{result['seconds']} s")
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
