# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Datasets and loaders that the tests of `DataLoader(distributed=...)` share."""

import torch
from torch.utils import data
from torch.utils.data import TensorDataset
from torch_datasets import Indices

import torch_distinput as tdi


class Squares(Indices):
    def __getitem__(self, index):
        return {"row": index, "square": torch.tensor(float(index * index)), "name": str(index)}


class Share(data.IterableDataset):
    """Rank r's own stream: 3 r + 2 numbers."""

    def __init__(self, rank):
        self.rank = rank

    def __iter__(self):
        info = data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return (torch.tensor(100 * self.rank + i) for i in range(first, 3 * self.rank + 2, step))


def collate(samples):
    return {"row": torch.tensor([sample["row"] for sample in samples]), "names": [s["name"] for s in samples]}


def make(kind, n, rank, **arguments):
    arguments = {"batch_size": 3, "distributed": True} | arguments
    if kind == "native":
        return tdi.DataLoader(TensorDataset(torch.arange(n), torch.zeros(n, 2)), **arguments)
    if kind == "python":
        return tdi.DataLoader(Squares(n), **arguments)
    if kind == "collate":
        return tdi.DataLoader(Squares(n), collate_fn=collate, **arguments)
    if kind == "workers":
        return tdi.DataLoader(Squares(n), num_workers=2, **arguments)
    if kind == "pipeline":
        arguments.pop("shuffle", None)
        return tdi.DataLoader(tdi.Dataset.range(n).shuffle(), **arguments)
    raise KeyError(kind)


def rows_of(batch):
    if isinstance(batch, dict):
        batch = batch["row"]
    return (batch[0] if isinstance(batch, list) else batch).tolist()
