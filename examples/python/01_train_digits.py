# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Trains a digit classifier on three replicas that share one model, and stops and resumes in mid-epoch.

The replicas are three threads on the CPU here; with MirroredStrategy(["cuda:0", "cuda:1", ...]) they would be GPUs.
Watch three things: the loss is the mean over the global batch although the last batch is short, the resumed epoch sees
every row once, and the evaluation counts every test row once.
"""

import itertools

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DistributedSampler
from tqdm import tqdm

import torch_distinput as tdi

GLOBAL_BATCH = 64
REPLICAS = 3
EPOCHS = 10
INTERRUPTED_EPOCH = 4


def load_rows() -> tuple[dict, dict]:
    """Rows for training and, every fifth one, for testing."""
    digits = load_digits()
    images = torch.from_numpy(digits.images).float() / 16
    rows = {"id": torch.arange(len(images)), "image": images, "label": torch.from_numpy(digits.target)}
    is_test = rows["id"] % 5 == 4
    return {k: v[~is_test] for k, v in rows.items()}, {k: v[is_test] for k, v in rows.items()}


def train_step(strategy, model, optimizer, batch, info) -> float:
    """One step on a global batch. `info` says how many rows the step has on each replica."""

    def replica_loss(part):
        # A sum over this replica's rows: 0 where it has none. distributed_mean scales it so that the average over
        # the replicas is the mean over the global batch, however its rows were assigned.
        loss_sum = cross_entropy(model(part["image"]), part["label"], reduction="sum")
        return tdi.distributed_mean(loss_sum, info)

    loss = strategy.reduce("MEAN", strategy.run(replica_loss, args=(batch,)))
    optimizer.zero_grad()
    loss.backward()  # the replicas share the parameters, so one backward sums all their gradients
    optimizer.step()
    return loss.item()


def train(strategy, model, optimizer, iterator, progress, steps: int | None = None) -> list[int]:
    """Trains on the next `steps` steps of `iterator`, or on all that are left; returns the ids of the rows it saw."""
    seen = []
    for batch in itertools.islice(iterator, steps):
        loss = train_step(strategy, model, optimizer, batch, iterator.step_info)
        seen += [int(row) for ids in strategy.local_results(batch["id"]) for row in ids]
        progress.set_postfix(loss=f"{loss:.3f}")
        progress.update()
    return seen


def evaluate(strategy, model, rows: dict) -> tuple[int, int]:
    """The number of right answers and of rows, over the whole test set."""

    def replica_counts(part):
        right = model(part["image"]).argmax(1) == part["label"]
        return right.sum(), torch.tensor(len(right))

    total = torch.zeros(2, dtype=torch.int64)
    with torch.inference_mode():
        for batch in strategy.distribute_dataset(tdi.Dataset.from_tensor_slices(rows).batch(GLOBAL_BATCH)):
            counts = strategy.run(replica_counts, args=(batch,))
            total += torch.stack([strategy.reduce("SUM", count) for count in counts])
    return tuple(total.tolist())


def main() -> None:
    torch.manual_seed(0)
    train_rows, test_rows = load_rows()
    count = len(train_rows["id"])
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    strategy = tdi.MirroredStrategy(["cpu"] * REPLICAS)
    dataset = tdi.Dataset.from_tensor_slices(train_rows).shuffle(seed=1).batch(GLOBAL_BATCH)
    loader = strategy.distribute_dataset(dataset)

    for epoch in range(EPOCHS):
        progress = tqdm(total=len(loader), desc=f"epoch {epoch}", leave=epoch == EPOCHS - 1)
        iterator = iter(loader)
        seen = []
        if epoch == INTERRUPTED_EPOCH:
            seen = train(strategy, model, optimizer, iterator, progress, steps=len(loader) // 2)
            state = iterator.state_dict()  # plain data: save it with the model by torch.save
            iterator.close()
            iterator = iter(loader)
            iterator.load_state_dict(state)
        seen += train(strategy, model, optimizer, iterator, progress)
        progress.close()
        assert sorted(seen) == train_rows["id"].tolist()
        if epoch == INTERRUPTED_EPOCH:
            print(f"epoch {epoch}: stopped, saved, resumed; every one of the {count} rows was seen once")

    right, rows = evaluate(strategy, model, test_rows)
    ranks = [DistributedSampler(range(rows), num_replicas=REPLICAS, rank=rank) for rank in range(REPLICAS)]
    print(f"evaluated {rows} of {len(test_rows['id'])} test rows")
    print(f"torch's DistributedSampler with {REPLICAS} ranks would have counted {sum(map(len, ranks))}")
    print(f"test accuracy: {right / rows:.3f}")
    print(f"the last epoch's loader: {iterator.stats()}")


if __name__ == "__main__":
    main()
