# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The loaders under comparison. Each opens one shuffled epoch of a work as an iterator of batches."""

from collections.abc import Callable, Iterator

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset
from works import Leaves, Work

import torch_distinput as tdi

Opener = Callable[[Work, int], Iterator]


class BatchedTensors(Dataset):
    """The fastest form of torch's loader: a dataset that looks up a whole batch at once."""

    def __init__(self, *tensors: torch.Tensor) -> None:
        self.tensors = tensors

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, index: int) -> Leaves:
        return tuple(tensor[index] for tensor in self.tensors)

    def __getitems__(self, indices: list[int]) -> Leaves:
        rows = torch.tensor(indices)
        return tuple(tensor.index_select(0, rows) for tensor in self.tensors)


def identity(batch: Leaves) -> Leaves:
    return batch


def ours(work: Work, seed: int) -> Iterator:
    value = work.tensors if len(work.tensors) > 1 else work.tensors[0]
    return iter(tdi.Dataset.from_tensor_slices(value).shuffle(seed=seed).batch(work.batch))


def torch_loader(dataset: Callable[..., Dataset], workers: int, collate: Callable | None = None) -> Opener:
    def opened(work: Work, seed: int) -> Iterator:
        order = torch.Generator().manual_seed(seed)
        return iter(
            DataLoader(
                dataset(*work.tensors),
                work.batch,
                shuffle=True,
                num_workers=workers,
                collate_fn=collate,
                generator=order,
            )
        )

    return opened


LOADERS: dict[str, Opener] = {
    "torch_distinput": ours,
    "torch batched": torch_loader(BatchedTensors, 0, identity),
    "torch 0 workers": torch_loader(TensorDataset, 0),
    "torch 2 workers": torch_loader(TensorDataset, 2),
}


def leaves(batch: object) -> Leaves:
    return (batch,) if isinstance(batch, torch.Tensor) else tuple(batch)


def workers_of(batches: Iterator) -> tuple[int, ...]:
    """Process ids of a DataLoader's workers."""
    return tuple(process.pid for process in getattr(batches, "_workers", ()))
