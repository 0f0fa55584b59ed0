# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Data-parallel training whose data does not divide evenly, with every row counted once:

    torchrun --nproc-per-node=3 examples/python/03_ddp_uneven.py

1438 rows in global batches of 64 leave a last batch of 30 for 3 processes; 359 test rows leave one of 39. No process
waits for another that has run out, the gradients are those of the mean over each global batch, and the predictions
come back in the order of the test set.
"""

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import torch_distinput as tdi

EPOCHS = 5


def load_rows() -> tuple[dict, dict]:
    """Rows for training and, every fifth one, for testing."""
    digits = load_digits()
    rows = {"image": torch.from_numpy(digits.images).float() / 16, "label": torch.from_numpy(digits.target)}
    is_test = torch.arange(len(rows["label"])) % 5 == 4
    return {k: v[~is_test] for k, v in rows.items()}, {k: v[is_test] for k, v in rows.items()}


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    strategy = tdi.MultiWorkerMirroredStrategy()
    train_rows, test_rows = load_rows()
    train = strategy.distribute_dataset(tdi.Dataset.from_tensor_slices(train_rows).shuffle().batch(64))
    test = strategy.distribute_dataset(tdi.Dataset.from_tensor_slices(test_rows).batch(64))

    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for epoch in range(EPOCHS):
        steps = iter(train)
        for batch in steps:

            def loss_of(part):
                loss_sum = cross_entropy(model(part["image"]), part["label"], reduction="sum")
                return tdi.distributed_mean(loss_sum, steps.step_info)

            loss = strategy.run(loss_of, args=(batch,))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        mean = strategy.reduce("MEAN", loss.detach())
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: {len(train)} steps on each of {dist.get_world_size()} ranks, loss {mean:.3f}")

    predicted, steps = [], iter(test)
    with torch.no_grad():
        for batch in steps:
            mine = strategy.run(lambda part: net(part["image"]).argmax(1), args=(batch,))
            predicted.append(tdi.restore_order(strategy.gather(mine, axis=0), steps.step_info))
    predicted = torch.cat(predicted)
    if dist.get_rank() == 0:
        right = (predicted == test_rows["label"]).sum().item()
        print(
            f"evaluated {len(predicted)} of {len(test_rows['label'])} test rows, accuracy {right / len(predicted):.3f}"
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
