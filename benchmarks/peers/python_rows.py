# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Rows that Python makes: about 50 us of arithmetic a row, batch 32, in order. Nothing here can be done natively."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from task import Batch, Epoch, Task, each, same, spdl_epoch, tensors
from torch.utils.data import DataLoader, Dataset

ROWS, BATCH, ROUNDS = 6_400, 32, 600
MASK = (1 << 40) - 1


def hashed(row: int) -> int:
    """A fixed amount of work, not of time: threads that wait for the GIL must not count that as work."""
    for k in range(ROUNDS):
        row = (row * 31 + k) & MASK
    return row


def made(row: int) -> tuple[int, int]:
    return row, hashed(row)


def write(folder: Path) -> None:
    np.save(folder / "hashed.npy", np.array([hashed(row) for row in range(ROWS)]))


def ids(batch: Batch, folder: Path) -> torch.Tensor:
    rows, values = batch
    same(values, torch.from_numpy(np.load(folder / "hashed.npy"))[rows])
    return rows


class Rows(Dataset):
    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, row: int) -> tuple[int, int]:
        return made(row)


def with_workers(loader_class: type, workers: int) -> Epoch:
    loader = loader_class(Rows(), BATCH, num_workers=workers)
    return lambda: loader


def torch_distinput(_: Path) -> Epoch:
    import torch_distinput as tdi

    return with_workers(tdi.DataLoader, 0)


def torch_distinput_workers(_: Path) -> Epoch:
    import torch_distinput as tdi

    return with_workers(tdi.DataLoader, 2)


def accelerate(_: Path) -> Epoch:
    from accelerate import Accelerator

    loader = Accelerator(cpu=True).prepare(DataLoader(Rows(), BATCH, num_workers=2))
    return lambda: loader


def grain(_: Path) -> Epoch:
    import grain

    rows = grain.MapDataset.range(ROWS).map(made)
    read = grain.ReadOptions(num_threads=2, prefetch_buffer_size=64)
    return each(tensors, lambda: rows.to_iter_dataset(read).batch(BATCH))


def spdl(_: Path) -> Epoch:
    def batch(rows: range) -> torch.Tensor:
        return torch.tensor([made(row) for row in rows]).T.contiguous()

    def source() -> Iterator[range]:
        return (range(begin, begin + BATCH) for begin in range(0, ROWS, BATCH))

    return spdl_epoch(source, batch)


def mlx_data(_: Path) -> Epoch:
    import mlx.data as dx

    rows = dx.buffer_from_vector([{"row": row} for row in range(ROWS)])

    rows = rows.key_transform("row", lambda row: np.array(hashed(int(row))), "hashed").batch(BATCH)
    return each(
        lambda batch: tensors([batch["row"].reshape(-1), batch["hashed"].reshape(-1)]),
        lambda: rows.ordered_prefetch(4, 2),
    )


TASK = Task(
    name="python_rows",
    title="about 50 us of Python a row, batch 32",
    rows=ROWS,
    batch=BATCH,
    leaves=((torch.int64, ()), (torch.int64, ())),
    write=write,
    ids=ids,
    systems={
        "torch_distinput": torch_distinput,
        "torch_distinput, 2 workers": torch_distinput_workers,
        "DataLoader": lambda _: with_workers(DataLoader, 0),
        "DataLoader, 2 workers": lambda _: with_workers(DataLoader, 2),
        "Accelerate, 2 workers": accelerate,
        "Grain": grain,
        "SPDL": spdl,
        "mlx-data": mlx_data,
    },
)
