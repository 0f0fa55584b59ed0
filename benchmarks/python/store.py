# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What the ranks of a job cost the store of their group, at numbers of ranks that one machine can hold.

    python benchmarks/python/store.py --json benchmarks/results/store.json

Each rank is a thread of this process with a link of its own, 8 ranks a host and once one, over a real TCPStore in
another process. torch's store asks a name server for the name of each client; run it where that answers at once.
Beside it stands, in the same run, what the design before did at least: each rank sets a text and reads the texts of
all ranks, once (that design did it three times to open a loader, and polled for it).
"""

import argparse
import json
import multiprocessing
import threading
import time
from pathlib import Path

import machine
import torch.distributed as dist

from torch_distinput.cli._bench_store import describe, measure

JOBS = ((64, 8), (512, 64), (1024, 128), (2048, 256), (4096, 512), (2048, 2048))  # ranks and hosts
FLAT_RANKS = (64, 128, 256, 512, 1024)
TEXT = b"x" * 650


def serve(port, done):
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    port.send(store.port)
    done.wait()


def flat(port: int, ranks: int) -> dict[str, float]:
    """Each rank sets a text, and reads the texts of all once they are there."""
    stores = [dist.TCPStore("127.0.0.1", port, is_master=False) for _ in range(ranks)]
    keys = [f"flat/{ranks}/{rank}" for rank in range(ranks)]
    began = time.monotonic()

    def exchange(first: int, step: int) -> None:
        for rank in range(first, ranks, step):
            stores[rank].set(keys[rank], TEXT)
        for rank in range(first, ranks, step):
            assert len(stores[rank].multi_get(keys)) == ranks

    threads = [threading.Thread(target=exchange, args=(first, 16)) for first in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"ranks": ranks, "exchange_seconds": time.monotonic() - began, "exchange_bytes": ranks * ranks * len(TEXT)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    done = context.Event()
    server = context.Process(target=serve, args=(there, done), daemon=True)
    server.start()
    port = here.recv()
    neighbours = machine.Neighbours()
    results = {"tree": [], "flat": []}
    for ranks, hosts in JOBS:
        store = dist.TCPStore("127.0.0.1", port, is_master=False)
        results["tree"].append(measure(store, ranks, hosts))
        print(describe(results["tree"][-1]), flush=True)
    for ranks in FLAT_RANKS:
        results["flat"].append(flat(port, ranks))
        print(f"flat, {ranks} ranks: one exchange {results['flat'][-1]['exchange_seconds']:.2f} s", flush=True)
    done.set()
    server.join()
    if given.json:
        content = {**machine.describe(("torch",)), "others_used_cores": round(neighbours.cores(), 2), **results}
        given.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
