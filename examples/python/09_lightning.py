# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Lightning on two processes, with every row counted once: one import line differs from a script for torch's loader.

    python examples/python/09_lightning.py

1438 rows for training and 359 for validation divide evenly over nothing. Lightning would repeat rows; here each rank
takes the same steps over its own part of each global batch, and the accuracy is that of the whole set.
"""

import lightning
import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset, random_split
from torchmetrics.classification import MulticlassAccuracy

from torch_distinput.frameworks.lightning import DataLoader  # instead of torch.utils.data


class Classifier(lightning.LightningModule):
    def __init__(self, rows: int):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
        self.accuracy = MulticlassAccuracy(10, average="micro")
        self.seen = torch.zeros(rows)  # by this process: no buffer, whose values DDP takes from rank 0

    def training_step(self, batch, index):
        images, labels, rows = batch
        self.seen[rows] += 1
        return cross_entropy(self.net(images), labels)

    def validation_step(self, batch, index):
        images, labels, rows = batch
        self.seen[rows] += 1
        self.accuracy(self.net(images), labels)
        self.log("accuracy", self.accuracy)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def main() -> None:
    lightning.seed_everything(0)
    images, labels = load_digits(return_X_y=True)
    rows = torch.arange(len(labels))
    digits = TensorDataset(torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels), rows)
    train, test = random_split(digits, [0.8, 0.2])
    model = Classifier(len(rows))
    trainer = lightning.Trainer(
        strategy="ddp", accelerator="cpu", devices=2, max_epochs=3, num_sanity_val_steps=0,
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(model, DataLoader(train, 32, shuffle=True), DataLoader(test, 32))
    seen = trainer.strategy.reduce(model.seen, reduce_op="sum")
    accuracy = trainer.callback_metrics["accuracy"].item()
    assert (seen == 3).all(), "every row, for training or for validation, is seen once in each of the 3 epochs"
    if trainer.is_global_zero:
        print(f"{len(seen)} rows seen {seen.min():.0f} to {seen.max():.0f} times in 3 epochs, accuracy {accuracy:.3f}")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
