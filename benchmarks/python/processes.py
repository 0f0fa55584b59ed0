# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What a loader costs in jobs of several processes: its start, its steps, and resuming in mid-epoch.

    python benchmarks/python/processes.py --json benchmarks/results/processes.json

For each size of job this program starts that many processes of itself. Where `accelerate` can be imported, its
dispatcher runs too.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import machine
import torch
import torch.distributed as dist
from loaders import BatchedTensors, identity
from torch.utils.data import DataLoader, DistributedSampler

import torch_distinput as tdi

SIZES = (2, 4, 8)
ROWS, COLUMNS = 4_000_000, 20
BATCH = 256  # rows of each process
MANY_ROWS = 10**8
REPEATS = 12
WARM_UP, STEPS = 40, 1500
FEWER_STEPS = {"accelerate dispatcher": 150}  # because each takes some milliseconds

Opener = Callable[[], Iterator]


def openers(rows: torch.Tensor) -> dict[str, Opener]:
    """For each series a function that opens a shuffled epoch of `rows`; this process gets BATCH rows a step."""

    def together() -> Iterator:
        strategy = tdi.MultiWorkerMirroredStrategy()
        dataset = tdi.Dataset.from_tensor_slices(rows).shuffle().batch(BATCH * dist.get_world_size())
        return iter(strategy.distribute_dataset(dataset))

    def alone() -> Iterator:
        dataset = tdi.Dataset.from_tensor_slices(rows).shuffle().batch(BATCH)
        return iter(tdi.MirroredStrategy(["cpu"]).distribute_dataset(dataset))

    def sampler() -> Iterator:
        dataset = BatchedTensors(rows)
        return iter(DataLoader(dataset, BATCH, sampler=DistributedSampler(dataset), collate_fn=identity))

    found = {"torch_distinput": together, "torch_distinput alone": alone, "DistributedSampler": sampler}
    try:
        from accelerate import Accelerator
        from accelerate.data_loader import prepare_data_loader
    except ImportError:
        return found
    device = Accelerator(cpu=True).device

    def dispatcher() -> Iterator:
        loader = DataLoader(BatchedTensors(rows), BATCH, shuffle=True, collate_fn=identity)
        return iter(prepare_data_loader(loader, device, put_on_device=True, dispatch_batches=True))

    return {**found, "accelerate dispatcher": dispatcher}


def time_start(opener: Opener) -> float:
    """Seconds from the construction of everything to the first batch."""
    dist.barrier()
    start = time.perf_counter()
    next(opener())
    return time.perf_counter() - start


def time_steps(opener: Opener, steps: int) -> dict[str, float]:
    """Microseconds a step in mid-epoch: of wall time, of CPU time on all threads of this process (those of oneTBB look
    for work for a while after each burst), and of CPU time of the calling thread."""
    batches = opener()
    for _ in range(WARM_UP):
        next(batches)
    dist.barrier()
    clocks = {"wall_us": time.perf_counter, "cpu_us": time.process_time, "caller_us": time.thread_time}
    starts = {name: clock() for name, clock in clocks.items()}
    for _ in range(steps):
        next(batches)
    cost = {name: (clock() - starts[name]) / steps * 1e6 for name, clock in clocks.items()}
    if isinstance(batches, tdi.DistributedIterator):
        cost["rounds"] = batches.stats()["rounds"]
    return cost


def time_resume(strategy: tdi.Strategy, processes: int) -> dict[str, float]:
    """From a new iterator to its first batch at 90 % of a shuffled epoch of 10^8 rows."""
    batch = BATCH * processes
    dataset = strategy.distribute_dataset(tdi.Dataset.range(MANY_ROWS).shuffle().batch(batch))
    iterator = iter(dataset)
    next(iterator)
    state = iterator.state_dict()
    step = MANY_ROWS * 9 // 10 // batch
    state.update(step=step, row=step * batch, cursor={**state["cursor"], "element": step})
    times = []
    for _ in range(REPEATS):
        dist.barrier()
        start = time.perf_counter()
        iterator = iter(dataset)
        iterator.load_state_dict(state)
        next(iterator)
        times.append(time.perf_counter() - start)
        assert iterator.step_info.row_start == step * batch
    return {"ms": statistics.median(times) * 1e3, "state_bytes": len(json.dumps(state))}


def run_rank() -> None:
    """One process of a job. The order of the series is reversed in every second repeat, so that other work on the
    machine, and the caches after the series before, affect all of them alike."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    series = openers(torch.rand(ROWS, COLUMNS))
    mine: dict = {name: {"start_s": [], "steps": []} for name in series}
    for repeat in range(REPEATS):
        for name, opener in list(series.items())[:: -1 if repeat % 2 else 1]:
            mine[name]["start_s"].append(time_start(opener))
            mine[name]["steps"].append(time_steps(opener, FEWER_STEPS.get(name, STEPS)))
    mine["resume"] = {
        "together": time_resume(tdi.MultiWorkerMirroredStrategy(), dist.get_world_size()),
        "alone": time_resume(tdi.MirroredStrategy(["cpu"]), 1),
    }
    everyone: list = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    if dist.get_rank() == 0:
        print(json.dumps(everyone), flush=True)
    dist.destroy_process_group()


def run_job(size: int) -> list[dict]:
    """The measurements of each process of a job."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    setting = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "WORLD_SIZE": str(size), "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, __file__, "--rank"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **setting, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(size)
    ]
    outputs = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise RuntimeError(f"a process of the job of {size} failed")
    return json.loads(outputs[0].splitlines()[-1])


def summarise(everyone: list[dict]) -> dict:
    """Medians over the repeats: for a start, of the slowest process; for a step, of the mean over the processes."""
    found: dict = {"series": {}}
    for name in (name for name in everyone[0] if name != "resume"):
        runs = [one[name] for one in everyone]
        starts = [max(times) for times in zip(*(run["start_s"] for run in runs), strict=True)]
        costs = list(zip(*(run["steps"] for run in runs), strict=True))
        found["series"][name] = {
            "start_ms": round(statistics.median(starts) * 1e3, 2),
            "first_start_ms": round(starts[0] * 1e3, 2),
            **{
                key: round(statistics.median(statistics.mean(one[key] for one in cost) for cost in costs), 1)
                for key in ("wall_us", "cpu_us", "caller_us")
            },
            **({"rounds": max(one["rounds"] for cost in costs for one in cost)} if "rounds" in costs[0][0] else {}),
        }
    for kind in ("cpu", "caller"):
        together, alone = (found["series"][name][f"{kind}_us"] for name in ("torch_distinput", "torch_distinput alone"))
        found[f"{kind}_beside_alone"] = round(together / alone, 3)
    found["resume"] = {
        how: {key: round(max(one["resume"][how][key] for one in everyone), 2) for key in ("ms", "state_bytes")}
        for how in ("together", "alone")
    }
    return found


def report(size: int, job: dict) -> None:
    print(f"\n{size} processes; others used {job['others_cores']:.2f} cores")
    print(f"{'':22} {'start ms':>9} {'first ms':>9} {'us/step':>9} {'CPU us':>9} {'caller us':>9} {'rounds':>7}")
    for name, one in job["series"].items():
        print(
            f"{name:22} {one['start_ms']:9.2f} {one['first_start_ms']:9.2f} {one['wall_us']:9.1f} {one['cpu_us']:9.1f}"
            f" {one['caller_us']:9.1f} {one.get('rounds', '-'):>7}"
        )
    print(
        f"CPU of a step beside that of one process: {job['cpu_beside_alone']:.3f}, of its caller's thread "
        f"{job['caller_beside_alone']:.3f}"
    )
    for how, one in job["resume"].items():
        print(
            f"first batch after resume, {how}: {one['ms']:.2f} ms, state of {one['state_bytes']:.0f} bytes", flush=True
        )


def main() -> None:
    """Runs the jobs and prints their figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    if arguments.rank:
        run_rank()
        return
    jobs = {}
    for size in SIZES:
        neighbours = machine.Neighbours()
        job = summarise(run_job(size))
        jobs[size] = {"others_cores": round(neighbours.cores(), 2), **job}
        report(size, jobs[size])
    if arguments.json:
        series = jobs[SIZES[0]]["series"]
        packages = ("torch", "accelerate") if "accelerate dispatcher" in series else ("torch",)
        work = {"rows": ROWS, "columns": COLUMNS, "batch_of_each_process": BATCH, "repeats": REPEATS, "steps": STEPS}
        content = {**machine.describe(packages), "work": work, "jobs": jobs}
        arguments.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
