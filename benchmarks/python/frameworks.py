# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What a step costs below Accelerate: our loader alone, after `prepare`, and Accelerate's own loaders.

    python benchmarks/python/frameworks.py [--quick] [--json FILE]

Two processes on this machine take turns at each series, in pieces of one epoch. Needs `pip install accelerate`.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import machine
import torch
import torch.distributed as dist
from torch.utils import data
from torch.utils.data import TensorDataset

import torch_distinput as tdi

WORLD = 2
ROWS, COLUMNS, BATCH = 4_000_000, 20, 256
LIMIT_US = 5.0  # what an adapter may add to a step
BARE, PREPARED = "torch_distinput", "torch_distinput, prepared"
SHARD, DISPATCHER = "accelerate shard", "accelerate dispatcher"


def opened() -> dict[str, Iterator]:
    """A running epoch of each series. Ours alone comes first: Accelerate is not in use then."""
    rows = TensorDataset(torch.zeros(ROWS, COLUMNS))
    bare = iter(tdi.DataLoader(rows, BATCH, shuffle=True, distributed=True, seed=1))

    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration

    def prepared(kind: type, **config: bool) -> Iterator:
        accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**config))
        return iter(accelerator.prepare(kind(rows, BATCH, shuffle=True)))

    return {
        BARE: bare,
        PREPARED: prepared(tdi.DataLoader),
        SHARD: prepared(data.DataLoader),
        DISPATCHER: prepared(data.DataLoader, dispatch_batches=True),
    }


def step_time(steps: Iterator, count: int) -> float:
    """Microseconds a step."""
    start = time.perf_counter()
    for _ in range(count):
        next(steps)
    return (time.perf_counter() - start) / count * 1e6


def measure(rank: int, store: str, repeats: int, fast: int, slow: int, pipe: Any) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(WORLD), LOCAL_WORLD_SIZE=str(WORLD))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="1", ACCELERATE_USE_CPU="1")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, WORLD), rank=rank, world_size=WORLD)
    series = opened()
    counts = {name: slow if name in (SHARD, DISPATCHER) else fast for name in series}
    times: dict[str, list[float]] = {name: [] for name in series}
    for turn in range(repeats + 1):
        for name, steps in series.items():
            dist.barrier()
            took = step_time(steps, counts[name])
            if turn:  # the first turn warms up
                times[name].append(took)
    if rank == 0:
        pipe.send(times)
    dist.barrier()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a look, not to be quoted")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    repeats, fast, slow = (3, 300, 20) if arguments.quick else (9, 700, 60)
    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder:
        sizes = (os.path.join(folder, "store"), repeats, fast, slow, writer)
        processes = [context.Process(target=measure, args=(rank, *sizes), daemon=True) for rank in range(WORLD)]
        for process in processes:
            process.start()
        writer.close()
        times = reader.recv()
        for process in processes:
            process.join()
    result = {name: {"us_per_step": statistics.median(each), "all": each} for name, each in times.items()}
    added = result[PREPARED]["us_per_step"] - result[BARE]["us_per_step"]
    for name, of_series in result.items():
        print(f"{name:28} {of_series['us_per_step']:9.1f} us a step")
    print(f"`prepare` adds {added:.1f} us a step (at most {LIMIT_US:g} wanted)")
    if arguments.json:
        packages = ("torch", "accelerate")
        text = machine.describe(packages) | {"batch": BATCH, "world": WORLD, "added_us": added, "series": result}
        arguments.json.write_text(json.dumps(text, indent=1) + "\n")


if __name__ == "__main__":
    main()
