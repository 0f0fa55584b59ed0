# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Rows in memory: 128 x float32 and an int64 label, batch 256, shuffled anew in each epoch."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from task import Batch, Epoch, Task, each, ray_data, same, spdl_epoch, tensors
from torch.utils.data import DataLoader, Dataset, TensorDataset

ROWS, FLOATS, BATCH = 200_000, 128, 256


def write(folder: Path) -> None:
    """The first and the last float of a row and its label are its number."""
    table = np.full((ROWS, FLOATS), 0.5, np.float32)
    table[:, 0] = table[:, -1] = np.arange(ROWS)
    np.save(folder / "x.npy", table)
    np.save(folder / "y.npy", np.arange(ROWS))


def ids(batch: Batch, _: Path) -> torch.Tensor:
    x, y = batch
    return same(y, x[:, 0].long(), x[:, -1].long())


def arrays(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    return np.load(folder / "x.npy"), np.load(folder / "y.npy")


def dataset(folder: Path) -> TensorDataset:
    return TensorDataset(*map(torch.from_numpy, arrays(folder)))


class Batched(Dataset):
    """The fastest form of torch's loader, which few people write: a dataset that looks up a whole batch at once."""

    def __init__(self, *leaves: torch.Tensor) -> None:
        self.leaves = leaves

    def __len__(self) -> int:
        return len(self.leaves[0])

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        rows = torch.tensor(indices)
        return [leaf.index_select(0, rows) for leaf in self.leaves]


def as_it_is(batch: list[torch.Tensor]) -> list[torch.Tensor]:
    return batch


def torch_distinput(folder: Path) -> Epoch:
    import torch_distinput as tdi

    loader = tdi.DataLoader(dataset(folder), BATCH, shuffle=True)
    return lambda: loader


def torch_distinput_pipeline(folder: Path) -> Epoch:
    import torch_distinput as tdi

    rows = tdi.Dataset.from_tensor_slices(arrays(folder)).shuffle().batch(BATCH)
    return lambda: rows


def dataloader(folder: Path) -> Epoch:
    loader = DataLoader(dataset(folder), BATCH, shuffle=True)
    return lambda: loader


def dataloader_workers(folder: Path) -> Epoch:
    loader = DataLoader(dataset(folder), BATCH, shuffle=True, num_workers=2)
    return lambda: loader


def dataloader_getitems(folder: Path) -> Epoch:
    loader = DataLoader(Batched(*dataset(folder).tensors), BATCH, shuffle=True, collate_fn=as_it_is)
    return lambda: loader


def accelerate(folder: Path) -> Epoch:
    from accelerate import Accelerator

    loader = Accelerator(cpu=True).prepare(DataLoader(dataset(folder), BATCH, shuffle=True))
    return lambda: loader


def tf_data(folder: Path) -> Epoch:
    import tensorflow as tf

    rows = tf.data.Dataset.from_tensor_slices(arrays(folder)).shuffle(ROWS).batch(BATCH).prefetch(tf.data.AUTOTUNE)
    return each(tensors, lambda: rows)


def grain(folder: Path) -> Epoch:
    """Shuffled numbers of rows, and one look-up for each batch of them."""
    import grain

    x, y = arrays(folder)
    rows = grain.MapDataset.range(ROWS).seed(1).shuffle().batch(BATCH).map(lambda index: (x[index], y[index]))
    read = grain.ReadOptions(num_threads=2, prefetch_buffer_size=16)
    return each(tensors, lambda: rows.to_iter_dataset(read))


def spdl(folder: Path) -> Epoch:
    x, y = dataset(folder).tensors

    def source() -> Iterator[torch.Tensor]:
        return iter(torch.randperm(ROWS).split(BATCH))

    return spdl_epoch(source, lambda index: (x.index_select(0, index), y.index_select(0, index)))


def mlx_data(folder: Path) -> Epoch:
    import mlx.data as dx

    rows = dx.buffer_from_vector([{"x": x, "y": y} for x, y in zip(*arrays(folder))])
    return each(
        lambda batch: tensors([batch["x"], batch["y"].reshape(-1)]),
        lambda: rows.shuffle().to_stream().batch(BATCH).prefetch(8, 2),
    )


def hf_datasets(folder: Path) -> Epoch:
    import datasets
    import pyarrow as pa

    x, y = arrays(folder)
    table = pa.table({"x": pa.FixedSizeListArray.from_arrays(x.reshape(-1), FLOATS), "y": y})
    rows = datasets.Dataset(datasets.table.InMemoryTable(table), fingerprint="rows").with_format("torch")
    return each(lambda batch: (batch["x"], batch["y"]), lambda: rows.shuffle().iter(BATCH))


def ray(folder: Path) -> Epoch:
    """Shuffled in a window of half of the rows."""
    import pyarrow as pa
    from ray.data.extensions import ArrowTensorArray

    data = ray_data()
    x, y = arrays(folder)
    rows = data.from_arrow(pa.table({"x": ArrowTensorArray.from_numpy(x), "y": y}))
    return each(
        lambda batch: (batch["x"], batch["y"]),
        lambda: rows.iter_torch_batches(batch_size=BATCH, local_shuffle_buffer_size=ROWS // 2),
    )


TASK = Task(
    name="rows",
    title="rows in memory: 128 x float32 + int64, batch 256, shuffled",
    rows=ROWS,
    batch=BATCH,
    leaves=((torch.float32, (FLOATS,)), (torch.int64, ())),
    write=write,
    ids=ids,
    order="shuffled",
    systems={
        "torch_distinput": torch_distinput,
        "torch_distinput pipeline": torch_distinput_pipeline,
        "DataLoader": dataloader,
        "DataLoader, 2 workers": dataloader_workers,
        "DataLoader, __getitems__": dataloader_getitems,
        "Accelerate": accelerate,
        "tf.data": tf_data,
        "Grain": grain,
        "SPDL": spdl,
        "mlx-data": mlx_data,
        "HF datasets": hf_datasets,
        "Ray Data": ray,
    },
)
