# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Parquet files to a net: columns stacked into a matrix, nulls told apart, two replicas, and a resume on one."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import torch
from torch.nn.functional import binary_cross_entropy_with_logits as loss_of

import torch_distinput as tdi

FILES, ROWS, FEATURES = 4, 1000, 6
CITIES = ["Bonn", "Kyiv", "Lima", "Oslo"]


def write_files(folder: Path) -> list[Path]:
    """Six features, a city and an age that is sometimes missing; the label depends on all of them."""
    generator = np.random.default_rng(0)
    files = []
    for part in range(FILES):
        x = generator.standard_normal((ROWS, FEATURES), dtype=np.float32)
        city, age = generator.integers(0, len(CITIES), ROWS), generator.integers(18, 80, ROWS)
        score = x.sum(axis=1) + (city - 1.5) + (age - 49) / 20
        table = {f"f{i}": x[:, i] for i in range(FEATURES)}
        table["city"] = pa.array([CITIES[number] for number in city]).dictionary_encode()
        table["age"] = pa.array(age, mask=generator.random(ROWS) < 0.1)
        table["label"] = (score > 0).astype(np.float32)
        files.append(folder / f"part{part}.parquet")
        parquet.write_table(pa.table(table), files[-1], row_group_size=200)
    return files


def rows_of(files: list[Path]) -> tdi.Dataset:
    stack = {"x": [f"f{i}" for i in range(FEATURES)]}
    return tdi.ParquetDataset(files, stack=stack, nulls={"age": "mask"}).shuffle(500, seed=7).batch(100)


def features(batch: dict) -> torch.Tensor:
    city = torch.tensor([CITIES.index(name) for name in batch["city"]], dtype=torch.int64)
    age = torch.where(batch["age_valid"], (batch["age"] - 49) / 20, 0.0)
    one_hot = torch.nn.functional.one_hot(city, len(CITIES))
    return torch.cat([batch["x"], one_hot, age[:, None], batch["age_valid"][:, None].float()], dim=1)


def train(files: list[Path]) -> float:
    strategy = tdi.MirroredStrategy(["cpu", "cpu"])
    model = torch.nn.Linear(FEATURES + len(CITIES) + 2, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    dataset = strategy.distribute_dataset(rows_of(files))
    for _ in range(3):
        steps = iter(dataset)
        for batch in steps:

            def loss(part, steps=steps):
                loss_sum = loss_of(model(features(part))[:, 0], part["label"], reduction="sum")
                return tdi.distributed_mean(loss_sum, steps.step_info)

            optimizer.zero_grad()
            strategy.reduce("MEAN", strategy.run(loss, args=(batch,))).backward()
            optimizer.step()
    right = sum(int(((model(features(b))[:, 0] > 0) == (b["label"] > 0.5)).sum()) for b in rows_of(files))
    return right / (FILES * ROWS)


def resumed_alike(files: list[Path]) -> bool:
    """Stops after 15 of 40 batches, and goes on in another dataset object."""
    whole = [batch["x"] for batch in rows_of(files)]
    iterator = iter(rows_of(files))
    begun = [next(iterator)["x"] for _ in range(15)]
    other = iter(rows_of(files))
    other.load_state_dict(iterator.state_dict())
    return torch.equal(torch.cat(whole), torch.cat([*begun, *(batch["x"] for batch in other)]))


def main() -> None:
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        files = write_files(Path(folder))
        print(f"{len(rows_of(files))} batches of {rows_of(files).element_spec['x']}")
        print(f"accuracy: {train(files):.3f}")
        print(f"resumed alike: {resumed_alike(files)}")


if __name__ == "__main__":
    main()
