# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Rows made in other processes, some of which are killed:

    python examples/python/19_executors.py            # processes of this host
    python examples/python/19_executors.py --ray      # actors of a Ray cluster, here one that Ray starts for it

The program trains on digits whose augmentation workers run, kills a worker twice an epoch, stops in the middle of the
second epoch, and goes on from its state in a loader without an executor. Each row comes once an epoch, in the order
that one process alone would have.
"""

import argparse
import os
import signal

import torch
from sklearn.datasets import load_digits
from torch.nn import functional as F

import torch_distinput as tdi

BATCH, EPOCHS = 32, 2


def augmented(row: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A digit with noise that belongs to its row, wherever it is made, and the process that has made it."""
    noise = torch.randn(64, generator=tdi.random()) / 20
    return {**row, "x": row["x"] + noise, "process": torch.tensor(os.getpid())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ray", action="store_true")
    engine = "ray" if parser.parse_args().ray else "processes"

    images, labels = load_digits(return_X_y=True)
    data = {"x": torch.from_numpy(images).float() / 16, "y": torch.from_numpy(labels), "row": torch.arange(len(labels))}
    rows = tdi.Dataset.from_tensor_slices(data).shuffle().map(augmented)
    alone = tdi.DataLoader(rows, batch_size=BATCH, seed=7, distributed=True)
    whole = [[batch["x"] for batch in alone] for _ in range(EPOCHS)]

    torch.manual_seed(0)
    model = torch.nn.Linear(64, 10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loader = tdi.DataLoader(rows, batch_size=BATCH, seed=7, executor=tdi.Executor(engine, min_workers=2, max_workers=2))
    seen: list[list[torch.Tensor]] = [[] for _ in range(EPOCHS)]

    def train(batch: dict[str, torch.Tensor], epoch: int) -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(batch["x"]), batch["y"]).backward()
        optimizer.step()
        seen[epoch].append(batch["x"])

    for epoch in range(EPOCHS):
        for step, batch in enumerate(loader):
            train(batch, epoch)
            if step in (10, 20):
                os.kill(int(batch["process"][0]), signal.SIGKILL)
            if epoch == 1 and step == 30:
                break
    print(loader.stats().workers)
    position = loader.state_dict()
    loader.close()

    alone.load_state_dict(position)
    for batch in alone:
        train(batch, 1)
    same = all(torch.equal(torch.cat(ours), torch.cat(theirs)) for ours, theirs in zip(seen, whole, strict=True))
    print(f"{len(labels)} rows an epoch, the same as without workers: {same}")


if __name__ == "__main__":
    main()
