# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Lightning's ModelParallelStrategy: FSDP2 over two data ranks, tensor parallelism over two.

    torchrun --nproc-per-node=4 examples/python/16_lightning_mesh.py

The two processes of a tensor-parallel group hold parts of the same layers, so that they must get the same rows. Nothing
in the loader says so: the strategy has the mesh, and the loader follows it.
"""

import lightning
import torch
import torch.distributed as dist
from lightning.pytorch.strategies import ModelParallelStrategy
from sklearn.datasets import load_digits
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from torch_distinput.frameworks.lightning import DataLoader  # instead of torch.utils.data

ROWS = 1438


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
        self.seen = []

    def configure_model(self):
        mesh = self.device_mesh
        parallelize_module(self.net, mesh["tensor_parallel"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        fully_shard(self.net, mesh=mesh["data_parallel"])

    def training_step(self, batch, index):
        images, labels, rows = batch
        self.seen += rows.tolist()
        return cross_entropy(self.net(images), labels)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def main() -> None:
    lightning.seed_everything(0)
    images, labels = (torch.from_numpy(part[:ROWS]) for part in load_digits(return_X_y=True))
    digits = TensorDataset(images.float() / 16, labels, torch.arange(ROWS))
    model = Classifier()
    trainer = lightning.Trainer(
        strategy=ModelParallelStrategy(data_parallel_size=2, tensor_parallel_size=2),
        accelerator="cpu", devices=4, max_epochs=1,
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(model, DataLoader(digits, 32, shuffle=True))
    everyone: list = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, model.seen)
    assert everyone[0] == everyone[1] and everyone[2] == everyone[3], "tensor-parallel ranks see the same rows"
    assert sorted(everyone[0] + everyone[2]) == list(range(ROWS)), "every row belongs to one data rank"
    if trainer.is_global_zero:
        print(f"{len(everyone[0])} + {len(everyone[2])} of {ROWS} rows, the same on both ranks of each pair")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
