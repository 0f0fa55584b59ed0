# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Training that survives the death of a process in mid-epoch and continues on the processes that are left:

    export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
    torchrun --nproc-per-node=3 --max-restarts=3 examples/python/04_elastic_resume.py --folder run --crash-at 9

or on one to two machines that see the folder, with on each of them

    torchrun --nnodes=1:2 --nproc-per-node=2 --max-restarts=3 --rdzv-backend=c10d --rdzv-endpoint=HOST:29400 \
        --rdzv-id=job examples/python/04_elastic_resume.py --folder run --crash-at 9

Every few steps rank 0 saves the model, the optimizer and the position of the data together. When a process dies,
torchrun starts the group again, and all processes load what was saved. The rows that the saved model has seen are
saved with it, so that the program can check at the end that it saw every row of the epoch exactly once.

Without the variable, torch 2.13 gives the processes of each start the same store, in which they find the addresses of
those that died: `init_process_group` then hangs or fails. docs/clusters.md has more about restarts.
"""

import argparse
import os
import signal
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import torch_distinput as tdi

ROWS = 1009
SAVE_EVERY = 4


def save(path: Path, content: dict) -> None:
    """Replaces the file as a whole: if the process dies here, the old file remains."""
    part = path.with_suffix(".part")
    torch.save(content, part)
    part.replace(path)


def main(folder: Path, crash_at: int) -> None:
    dist.init_process_group("gloo")
    strategy = tdi.MultiWorkerMirroredStrategy()
    torch.manual_seed(0)
    x = torch.randn(ROWS, 4)
    rows = {"id": torch.arange(ROWS), "x": x, "y": x.sum(1, keepdim=True)}
    data = strategy.distribute_dataset(tdi.Dataset.from_tensor_slices(rows).shuffle(seed=1).batch(32))

    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps, seen = iter(data), []
    checkpoint = folder / "checkpoint.pt"
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        steps.load_state_dict(saved["data"])
        seen = saved["seen"]
        if dist.get_rank() == 0:
            print(f"resumed at row {len(seen)} of {ROWS} on {dist.get_world_size()} ranks", flush=True)

    for batch in steps:
        number = steps.step_info.step
        if number == crash_at and dist.get_rank() == dist.get_world_size() - 1 and not seen_crash(folder):
            os.kill(os.getpid(), signal.SIGKILL)

        def loss_of(part):
            return tdi.distributed_mean(((model(part["x"]) - part["y"]) ** 2).sum(), steps.step_info)

        optimizer.zero_grad()
        strategy.run(loss_of, args=(batch,)).backward()
        optimizer.step()
        seen += strategy.gather(batch["id"], axis=0).tolist()
        if dist.get_rank() == 0 and number % SAVE_EVERY == SAVE_EVERY - 1:
            state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
            save(checkpoint, {**state, "data": steps.state_dict(), "seen": seen})

    if dist.get_rank() == 0:
        once = sorted(seen) == list(range(ROWS))
        print(f"the epoch's {ROWS} rows were seen exactly once: {once}", flush=True)
    dist.destroy_process_group()


def seen_crash(folder: Path) -> bool:
    """Whether the process has died before; it must die only once."""
    mark = folder / "crashed"
    crashed = mark.exists()
    mark.touch()
    return crashed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="where the checkpoint lies")
    parser.add_argument("--crash-at", type=int, default=-1, help="the last rank kills itself once, at this step")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    main(arguments.folder, arguments.crash_at)
