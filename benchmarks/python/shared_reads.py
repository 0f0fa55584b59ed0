# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What ranks of a mesh that get the same rows pay for a step, each by its own reads and with `share="node"`.

    python benchmarks/python/shared_reads.py --json benchmarks/results/shared_reads.json

Two and four processes of one host take the same steps in lockstep, as tensor parallelism makes them, and compute
nothing. "decoded": a row is 224 x 224 pixels that Python inflates and flips, a batch is 9.6 MB. "copied": the same
batch, of rows that native code copies from memory.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import machine
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from inflated_images import ROWS, SHAPE, InflatedImages
from torch.utils.data import Dataset

import torch_distinput as tdi

BATCH = 64
WARM_UP, STEPS = 2, 12


def datasets(kind: str) -> Dataset | torch.Tensor:
    return InflatedImages() if kind == "decoded" else torch.zeros(ROWS, *SHAPE, dtype=torch.uint8)


def run(rank: int, peers: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=peers)
    mesh = dist.init_device_mesh("cpu", (1, peers), mesh_dim_names=("dp", "tp"))
    found = []
    for kind in ("decoded", "copied"):
        for share in (None, "node"):
            loader = tdi.DataLoader(datasets(kind), BATCH, shuffle=True, seed=1, distributed=mesh, share=share)
            iterator, times, cpu = iter(loader), [], 0.0
            for step in range(WARM_UP + STEPS):
                began = time.perf_counter()
                batch = next(iterator)
                assert batch.flatten()[::4096].sum() >= 0  # looks at each page
                dist.barrier()
                times.append(time.perf_counter() - began)
                cpu = time.process_time() if step == WARM_UP - 1 else cpu
            used = torch.tensor([time.process_time() - cpu])
            dist.all_reduce(used)
            step_ms = 1000 * statistics.median(times[WARM_UP:])
            found.append(
                {"peers": peers, "rows": kind, "share": share, "step_ms": step_ms, "cpu_ms": 1000 * used.item() / STEPS}
            )
            loader.close()
    if rank == 0:
        Path(folder, "found").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    results = []
    for peers in (2, 4):
        with tempfile.TemporaryDirectory() as folder:
            mp.spawn(run, (peers, folder), nprocs=peers)
            results += json.loads(Path(folder, "found").read_text())
    for found in results:
        print("{peers} peers, {rows}, share={share}: {step_ms:.1f} ms a step, CPU {cpu_ms:.1f} ms".format(**found))
    if given.json:
        given.json.write_text(json.dumps(machine.describe(("torch",)) | {"results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
