# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The cost of keeping processes in step whose streams may end at different steps.

    python benchmarks/python/agreement.py --json benchmarks/results/agreement.json

2, 4 and 8 processes on this machine take the same tiny steps (one int64 row each), so that nearly all of a step is the
cost of agreement: with this library, by default and at three depths of read-ahead, with a vote (`all_reduce` of one
number) before each step, with torch's `Join`, and with Accelerate's dispatcher, where rank 0 reads for all (`pip
install accelerate`; left out where it is missing). All processes use a store in this process, as under torchrun.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

WORLDS = (2, 4, 8)
LARGE_WORLDS = (16, 32)
DEPTHS = (2, 16, 64)
REPEATS = 5
# Steps of one measurement: about half a second of each kind.
FAST, SLOW = 6_000, 200


def step_times(steps: Iterator, count: int) -> float:
    """Microseconds a step, after a warm-up of a tenth."""
    for _ in range(count // 10):
        next(steps)
    start = time.perf_counter()
    for _ in range(count):
        next(steps)
    return (time.perf_counter() - start) / count * 1e6


def one_stream() -> tuple[Callable[[], Iterator], int]:
    """One stream for all, assigned by arithmetic: no agreement is needed."""
    import torch_distinput as tdi

    strategy = tdi.MultiWorkerMirroredStrategy()
    dataset = strategy.distribute_dataset(tdi.Dataset.range(100_000_000).batch(strategy.num_replicas_in_sync))
    return lambda: iter(dataset), FAST


def ours(depth: int | None = None) -> tuple[Callable[[], Iterator], int]:
    """A stream of each process's own. `depth`: the option `prefetch`; None: default options."""
    import torch_distinput as tdi

    strategy = tdi.MultiWorkerMirroredStrategy()
    own = tdi.Dataset.range(100_000_000).batch(1).with_options(tdi.Options(prefetch=depth))
    dataset = strategy.distribute_datasets_from_function(lambda context: own)
    return lambda: iter(dataset), FAST


def vote() -> tuple[Callable[[], Iterator], int]:
    """A vote before each step: the simplest way to find out whether every process has one."""
    import torch
    import torch.distributed as dist

    import torch_distinput as tdi

    def steps():
        flag = torch.ones(1, dtype=torch.int64)
        for row in tdi.Dataset.range(100_000_000).batch(1):
            dist.all_reduce(flag, dist.ReduceOp.MIN)
            yield row

    return steps, SLOW


def join() -> tuple[Callable[[], Iterator], int]:
    """torch's Join around a model of one number; the cost of the same steps without Join is subtracted later."""
    import torch
    from torch.distributed.algorithms.join import Join

    import torch_distinput as tdi

    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))

    def steps():
        with Join([model]):
            for row in tdi.Dataset.range(100_000_000).batch(1):
                model(row.float().unsqueeze(1)).sum().backward()
                yield row

    return steps, SLOW


def without_join() -> tuple[Callable[[], Iterator], int]:
    """The steps of `join` without Join."""
    import torch

    import torch_distinput as tdi

    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))

    def steps():
        for row in tdi.Dataset.range(100_000_000).batch(1):
            model(row.float().unsqueeze(1)).sum().backward()
            yield row

    return steps, SLOW


def dispatcher() -> tuple[Callable[[], Iterator], int]:
    """Accelerate's loader that reads in rank 0 and sends each process its part."""
    import torch
    from accelerate.data_loader import prepare_data_loader

    class Rows(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(100_000_000))

    loader = prepare_data_loader(
        torch.utils.data.DataLoader(Rows(), batch_size=1),
        device=torch.device("cpu"),
        dispatch_batches=True,
        put_on_device=True,
    )
    return lambda: iter(loader), SLOW


KINDS: dict[str, Callable[[], tuple[Callable[[], Iterator], int]]] = {
    "random-access path": one_stream,
    "agreement, default": ours,
    **{f"agreement, prefetch {depth}": (lambda depth=depth: ours(depth)) for depth in DEPTHS},
    "vote": vote,
    "DDP": without_join,
    "DDP in Join": join,
    "Accelerate's dispatcher": dispatcher,
}

LARGE_KINDS = ["random-access path", "agreement, prefetch 64"]


def agreement_cpu(count: int = 400) -> dict[str, float]:
    """The share of a core that the threads of rounds, link and store take while steps last 10 ms, and rounds a step.

    All processes take `count` steps: one that left earlier would be an error on the others."""
    steps, _ = ours(64)
    iterator = steps()
    next(iterator)

    def cpu() -> float:
        seconds = 0.0
        for thread in Path("/proc/self/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                if (thread / "comm").read_text().strip() in ("tdi-agree", "tdi-link", "tdi-store", "tdi-peers"):
                    seconds += int((thread / "schedstat").read_text().split()[0]) / 1e9
        return seconds

    before, start = cpu(), time.perf_counter()
    for _ in range(count):
        time.sleep(0.01)  # the training step
        next(iterator)
    seconds = time.perf_counter() - start
    return {
        "share_of_a_core": (cpu() - before) / seconds,
        "steps_per_s": count / seconds,
        "rounds_a_step": iterator.stats()["rounds"] / count,
    }


def run_rank(rank: int, world: int, port: int, kinds: list[str], results: multiprocessing.Queue) -> None:
    """One process: measures all kinds one after the other, several times, together with the others."""
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    found = {}
    if "Accelerate's dispatcher" in kinds:
        from accelerate import PartialState

        PartialState(cpu=True)
    for repeat in range(REPEATS):
        for kind in kinds if repeat % 2 == 0 else kinds[::-1]:
            make, count = KINDS[kind]()
            dist.barrier()
            steps = make()
            times = found.setdefault(kind, {"us": [], "rounds_a_step": None})
            times["us"].append(step_times(steps, count))
            if kind.startswith("agreement"):
                times["rounds_a_step"] = steps.stats()["rounds"] / (count * 1.1)
            dist.barrier()
            if hasattr(steps, "close"):
                steps.close()
            dist.barrier()
    cpu = agreement_cpu()
    dist.barrier()
    results.put((rank, found, cpu))
    dist.destroy_process_group()


def run_world(world: int, kinds: list[str]) -> dict:
    """The medians for one number of processes, of the slowest rank in each repeat."""
    import torch.distributed as dist

    context = multiprocessing.get_context("spawn")
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    results = context.Queue()
    processes = [
        context.Process(target=run_rank, args=(rank, world, store.port, kinds, results)) for rank in range(world)
    ]
    for process in processes:
        process.start()
    ranks = [results.get(timeout=600) for _ in processes]
    for process in processes:
        process.join()
    ranks.sort()
    summary = {}
    for kind in kinds:
        slowest = [max(times) for times in zip(*(found[kind]["us"] for _, found, _ in ranks), strict=True)]
        summary[kind] = {
            "us_a_step": round(statistics.median(slowest), 2),
            "spread": round((max(slowest) - min(slowest)) / statistics.median(slowest), 2),
            "rounds_a_step": ranks[0][1][kind]["rounds_a_step"],
        }
    busiest = max((cpu for *_, cpu in ranks), key=lambda cpu: cpu["share_of_a_core"])
    summary["threads of the rounds, 10 ms a step"] = {name: round(value, 4) for name, value in busiest.items()}
    return summary


def main() -> None:
    """Measures all worlds and prints them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    import machine

    kinds = list(KINDS)
    packages = ["torch"]
    try:
        import accelerate  # noqa: F401

        packages.append("accelerate")
    except ImportError:
        kinds.remove("Accelerate's dispatcher")
    worlds = {}
    neighbours = machine.Neighbours()
    for world in (*WORLDS, *LARGE_WORLDS):
        worlds[world] = run_world(world, kinds if world in WORLDS else LARGE_KINDS)
        print(f"{world} processes")
        for kind, figures in worlds[world].items():
            print(f"  {kind:36}", "  ".join(f"{name} {value}" for name, value in figures.items() if value is not None))
        if world in LARGE_WORLDS:
            continue
        deep, default, voted = (
            worlds[world][kind]["us_a_step"]
            for kind in (f"agreement, prefetch {DEPTHS[-1]}", "agreement, default", "vote")
        )
        print(f"  default / prefetch {DEPTHS[-1]}: {default / deep:.2f}, default / vote: 1/{voted / default:.0f}")
        print(f"  prefetch {DEPTHS[-1]} / vote: 1/{voted / deep:.0f} (wanted: at most 1/16)")
    others = round(neighbours.cores(), 2)
    print(f"others used {others} cores")
    if arguments.json:
        content = {**machine.describe(tuple(packages)), "others_used_cores": others, "processes": worlds}
        arguments.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
