# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What rows from an executor cost beside Ray Data and torch's workers, and how many workers its autoscaler takes.

    python benchmarks/python/executors.py --json benchmarks/results/executors.json

A row is 224 x 224 pixels that Python inflates and flips, 150 kB; a batch has 64. Every system has two workers, and the
trainer's process does nothing but look at each page of a batch; trainer, workers and Ray's own processes share the
machine's CPUs. "first_s": until the first batch, with the start of the workers, but not of Ray. "cpu_ms": of all
processes, Ray's included, for a row after the first two batches. The cluster of the autoscaler is simulated, in virtual
time: an answer takes "made_s" of one of its workers, a new worker starts in 5 s, and the program works "work_s" on a
step. Needs `ray[data]`.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import machine
import torch
from inflated_images import ROWS, InflatedImages
from torch.utils.data import DataLoader

import torch_distinput as tdi
from torch_distinput.executors._pool import Pool

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "python" / "support"))
from simulated_engine import Clock, SimulatedEngine

BATCH, WORKERS = 64, 2
WARM_UP, ROUNDS = 2, 3


def torchs() -> Iterator[torch.Tensor]:
    return iter(DataLoader(InflatedImages(), BATCH, num_workers=WORKERS))


def workers() -> Iterator[torch.Tensor]:
    return iter(tdi.DataLoader(InflatedImages(), BATCH, num_workers=WORKERS))


def executed(engine: str) -> Callable[[], Iterator[torch.Tensor]]:
    executor = tdi.Executor(engine, min_workers=WORKERS, max_workers=WORKERS)

    def batches() -> Iterator[torch.Tensor]:
        with tdi.DataLoader(InflatedImages(), BATCH, executor=executor) as loader:
            yield from loader

    return batches


def streamed(**how: int) -> tdi.Dataset:
    """The same rows as a stream of their numbers, and a `map` that makes them."""
    numbers = tdi.Dataset.from_generator(lambda: range(ROWS), tdi.TensorSpec((), torch.int64))
    return numbers.map(InflatedImages().__getitem__, **how)


def stream_in_processes() -> Iterator[torch.Tensor]:
    return iter(tdi.DataLoader(streamed(num_workers=WORKERS), BATCH, distributed=True))


def executed_stream(engine: str) -> Callable[[], Iterator[torch.Tensor]]:
    executor = tdi.Executor(engine, min_workers=WORKERS, max_workers=WORKERS)

    def batches() -> Iterator[torch.Tensor]:
        with tdi.DataLoader(streamed(), BATCH, executor=executor) as loader:
            yield from loader

    return batches


def ray_data() -> Iterator[torch.Tensor]:
    import ray.data

    rows = InflatedImages()
    made = ray.data.range(ROWS, override_num_blocks=ROWS // BATCH).map(
        lambda row: {"x": rows[row["id"]].numpy()}, concurrency=WORKERS
    )
    return (batch["x"] for batch in made.iter_torch_batches(batch_size=BATCH))


class Used(NamedTuple):
    parent: int
    seconds: float  # of processor time, with that of children that have ended


def measured(batches: Callable[[], Iterator[torch.Tensor]]) -> dict[str, float]:
    began, rows = time.perf_counter(), 0
    times: list[float] = []
    for step, batch in enumerate(batches()):
        assert batch.flatten()[::4096].sum() >= 0  # looks at each page
        times.append(time.perf_counter())
        rows += len(batch)
        if step == WARM_UP - 1:
            before, warm = processes_now(), rows
        if rows == ROWS:  # while the workers are there
            after = processes_now()
    assert rows == ROWS, rows
    return {
        "first_s": times[0] - began,
        "rows_per_s": (rows - warm) / (times[-1] - times[WARM_UP - 1]),
        "cpu_ms": 1000 * cpu_between(before, after) / (rows - warm),
    }


def processes_now() -> dict[int, Used]:
    """This process and all that it has started, by their numbers."""
    found: dict[int, Used] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[int(path.parent.name)] = Used(int(fields[1]), sum(map(int, fields[11:15])) / machine.TICKS)
    own = {os.getpid()}
    while more := {number for number, used in found.items() if used.parent in own} - own:
        own |= more
    return {number: used for number, used in found.items() if number in own}


def cpu_between(before: dict[int, Used], after: dict[int, Used]) -> float:
    """Seconds of processor time. What a child has used counts for this process once it has ended; what one of Ray's has
    used does not, and is left out."""
    ended = [used for number, used in before.items() if number not in after and used.parent == os.getpid()]
    used = sum(now.seconds - before.get(number, Used(0, 0.0)).seconds for number, now in after.items())
    return used - sum(child.seconds for child in ended)


def scaled(made: float, work: float, most: int, slow: float) -> dict[str, Any]:
    """Steps of a program over a simulated cluster; one answer of 100 takes `slow` times as long."""
    clock = Clock()

    def seconds(worker: int, call: int) -> float:
        return made * (slow if (7 * worker + call) % 100 == 57 else 1)

    engine = SimulatedEngine(clock, seconds, starts=5.0)
    pool, asked, waits = Pool(engine, 1, most, clock=clock), deque(), []
    steps, keeps_up = 4000, None
    to_ask = iter(range(steps))
    for step in range(steps):
        while (not asked or pool.may_ask) and (request := next(to_ask, None)) is not None:
            asked.append(pool.ask(request))
        began = clock.now
        pool.take(asked.popleft())
        waits.append(clock.now - began)
        clock.now += work
        if keeps_up is None and step >= 50 and sum(waits[-50:]) < 0.05 * 50 * work:
            keeps_up = clock.now
    later = waits[steps // 2 :]
    return {
        "made_s": made,
        "work_s": work,
        "slow": slow,
        "most": most,
        "needed": min(most, -(-made // work)),
        "workers": len(engine.busy_until),
        "keeps_up_after_s": keeps_up,
        "wait_share": sum(later) / (sum(later) + work * len(later)),
        "longest_wait_s": max(later),
        "asked_again": pool.stats().asked_again,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray

    torch.set_num_threads(1)
    busy = (
        f"Load average when it began: {os.getloadavg()[0]:.1f}. Where other jobs keep the CPUs busy, wall times are "
        "those of that moment, and cpu_ms is the figure to trust."
    )
    simulated = [scaled(made, work, 256, slow) for made, work, slow in CLUSTERS]
    systems = {
        "torch, num_workers=2": torchs,
        "torch_distinput, num_workers=2": workers,
        'torch_distinput, executor="processes"': executed("processes"),
        'torch_distinput, executor="ray"': executed("ray"),
        "torch_distinput, a stream, map(num_workers=2)": stream_in_processes,
        'torch_distinput, a stream, executor="processes"': executed_stream("processes"),
        'torch_distinput, a stream, executor="ray"': executed_stream("ray"),
        "Ray Data, iter_torch_batches": ray_data,
    }
    found: dict[str, list[dict[str, float]]] = {name: [] for name in systems}
    ray.init(num_cpus=WORKERS, object_store_memory=1 << 30, include_dashboard=False, log_to_driver=False)
    try:
        for _ in range(ROUNDS):
            for name, batches in systems.items():
                found[name].append(measured(batches))
    finally:
        ray.shutdown()
    results = [
        {"system": name, **{key: statistics.median(run[key] for run in runs) for key in runs[0]}}
        for name, runs in found.items()
    ]
    for each in results:
        print("{system}: first {first_s:.2f} s, {rows_per_s:.0f} rows/s, CPU {cpu_ms:.2f} ms a row".format(**each))
    for each in simulated:
        print(each)
    if given.json:
        described = machine.describe(("torch", "ray")) | {"notes": busy}
        described |= {"results": results, "simulated": simulated}
        given.json.write_text(json.dumps(described, indent=1) + "\n")


# Seconds of a worker for an answer, and of the program for a step; how much longer one answer of 100 takes.
CLUSTERS = [(0.02, 0.1, 1), (0.3, 0.1, 1), (0.3, 0.1, 30), (2.0, 0.1, 1), (2.0, 0.01, 1), (2.0, 0.001, 1)]


if __name__ == "__main__":
    main()
