# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""FSDP2 and tensor parallelism: data over a mesh of processes.

    torchrun --nproc-per-node=4 examples/python/10_meshes.py

Two data ranks, each made of two tensor-parallel ranks, which see the same rows. 1438 rows in steps of 64 leave 30. All
ranks take the same number of steps, so that nothing has to be joined, and the gradients are those of the global batch.
"""

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import torch_distinput as tdi

ROWS = 1438


def main() -> None:
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    images, labels = (torch.from_numpy(part[:ROWS]) for part in load_digits(return_X_y=True))
    dataset = TensorDataset(images.float() / 16, labels, torch.arange(ROWS))
    loader = tdi.DataLoader(dataset, 32, shuffle=True, distributed=mesh)

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=mesh["dp"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    for epoch in range(4):
        mine = []
        for x, y, rows in loader:
            loss_sum = cross_entropy(model(x), y, reduction="sum")
            optimizer.zero_grad()
            tdi.distributed_mean(loss_sum, loader.last_info).backward()
            optimizer.step()
            mine += rows.tolist()
        everyone: list = [None] * dist.get_world_size()
        dist.all_gather_object(everyone, mine)
        assert everyone[0] == everyone[1] and everyone[2] == everyone[3], "tensor-parallel ranks see the same rows"
        assert sorted(everyone[0] + everyone[2]) == list(range(ROWS)), "every row belongs to one data rank"
        if dist.get_rank() == 0:
            shares = f"{len(everyone[0])} + {len(everyone[2])} of {ROWS} rows"
            print(f"epoch {epoch}: {len(loader)} steps on each rank, {shares}, last loss {loss_sum / len(y):.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
