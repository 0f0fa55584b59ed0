# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Pipeline by data parallelism: the stage in the middle reads no rows, and knows how many a step has.

    torchrun --nproc-per-node=6 examples/python/17_pipeline.py

Three stages of two data ranks. The first stage needs images, the last one labels, the one between them only the number
of rows, by which it receives activations: 1438 rows in steps of 64 leave 30, and no step has to be padded. All stages
save one state of the loader, from which any other mesh goes on.
"""

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import Dataset

import torch_distinput as tdi

ROWS, WIDTH = 1438, 64


class Digits(Dataset):
    def __init__(self):
        self.images, self.labels = (torch.from_numpy(part[:ROWS]) for part in load_digits(return_X_y=True))
        self.reads = 0

    def __len__(self):
        return ROWS

    def __getitem__(self, row):
        self.reads += 1
        return self.images[row].float() / 16, self.labels[row], row


def main() -> None:
    mesh = dist.init_device_mesh("cpu", (3, 2), mesh_dim_names=("pp", "dp"))
    stage, pipe, data = mesh.get_local_rank("pp"), mesh.get_group("pp"), mesh.get_group("dp")
    before, after = (dist.get_global_rank(pipe, at) if 0 <= at < 3 else None for at in (stage - 1, stage + 1))
    torch.manual_seed(stage)
    layer = nn.Linear(WIDTH, 10) if stage == 2 else nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
    optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-2)
    dataset = Digits()
    loader = tdi.DataLoader(dataset, 32, shuffle=True, distributed=mesh, stages={"pp": "ends"}, seed=0)

    for epoch in range(4):
        right, seen = torch.zeros(()), []
        for batch in loader:
            info = loader.last_info
            if before is None:
                inputs, _, rows = batch
                seen += rows.tolist()
            else:
                inputs = torch.empty(info.valid[0], WIDTH)
                dist.recv(inputs, before)
                inputs.requires_grad_()
            outputs = layer(inputs)
            optimizer.zero_grad()
            if after is None:
                labels = batch[1]
                right += (outputs.argmax(1) == labels).sum()
                (cross_entropy(outputs, labels, reduction="sum") / info.global_valid).backward()
            else:
                dist.send(outputs.detach(), after)
                gradient = torch.empty_like(outputs)
                dist.recv(gradient, after)
                outputs.backward(gradient)
            if before is not None:
                dist.send(inputs.grad, before)
            for parameter in layer.parameters():
                dist.all_reduce(parameter.grad, group=data)
            optimizer.step()
        everyone: list = [None] * dist.get_world_size()
        dist.all_gather_object(everyone, (stage, seen, dataset.reads, right.item(), str(loader.state_dict())))
        assert sorted(row for at, rows, *_ in everyone if at == 0 for row in rows) == list(range(ROWS))
        assert all(reads == 0 for at, _, reads, *_ in everyone if at == 1), "the stage in the middle reads nothing"
        assert len({state for *_, state in everyone}) == 1, "one state, whatever the stage"
        if dist.get_rank() == 0:
            accuracy = sum(right for at, _, _, right, _ in everyone if at == 2) / ROWS
            print(f"epoch {epoch}: {len(loader)} steps on each of 6 ranks, every row once, accuracy {accuracy:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
