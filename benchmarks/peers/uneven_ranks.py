# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Four processes share 100,003 rows: 20 x float32 and an int64 label, 64 rows a process and step, shuffled.

All processes must take the same number of steps. Most systems repeat or lose rows for that, so that such rows do not
make an output wrong here: they are counted, and stand beside the figure."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from rows import Batched, as_it_is
from task import Batch, Epoch, Task, mosaic, same, tensors
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, TensorDataset

ROWS, FLOATS, BATCH, RANKS = 100_003, 20, 64, 4


def write(folder: Path) -> None:
    table = np.full((ROWS, FLOATS), 0.5, np.float32)
    table[:, 0] = table[:, -1] = np.arange(ROWS)
    np.save(folder / "x.npy", table)


def ids(batch: Batch, _: Path) -> torch.Tensor:
    x, y = batch
    return same(y, x[:, 0].long(), x[:, -1].long())


def dataset(folder: Path) -> TensorDataset:
    return TensorDataset(torch.from_numpy(np.load(folder / "x.npy")), torch.arange(ROWS))


def torch_distinput(folder: Path) -> Epoch:
    import torch_distinput as tdi

    loader = tdi.DataLoader(dataset(folder), BATCH, shuffle=True, seed=7, distributed=True)
    return lambda: loader


def sampler(folder: Path) -> Epoch:
    rows = dataset(folder)
    loader = DataLoader(rows, BATCH, sampler=DistributedSampler(rows))
    return lambda: loader


def sampler_getitems(folder: Path) -> Epoch:
    rows = Batched(*dataset(folder).tensors)
    loader = DataLoader(rows, BATCH, sampler=DistributedSampler(rows), collate_fn=as_it_is)
    return lambda: loader


def accelerate_shards(folder: Path) -> Epoch:
    from accelerate import Accelerator

    loader = Accelerator(cpu=True).prepare(DataLoader(dataset(folder), BATCH, shuffle=True))
    return lambda: loader


def accelerate_dispatcher(folder: Path) -> Epoch:
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration

    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=True))
    loader = accelerator.prepare(DataLoader(dataset(folder), BATCH, shuffle=True))
    return lambda: loader


class OwnRows(IterableDataset):
    """The rows of this process, in batches."""

    def __init__(self, rows: TensorDataset) -> None:
        self.tensors = rows.tensors

    def __iter__(self) -> Iterator[list[torch.Tensor]]:
        order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(7))[dist.get_rank() :: RANKS]
        return ([leaf.index_select(0, rows) for leaf in self.tensors] for rows in order.split(BATCH))


def vote(folder: Path) -> Epoch:
    """What people write where streams may end at different steps: all ask each other before each step. Ranks whose rows
    end first stop the others."""
    rows = OwnRows(dataset(folder))

    def epoch() -> Iterator:
        batches = iter(DataLoader(rows, batch_size=None))
        while True:
            batch = next(batches, None)
            more = torch.tensor([batch is not None], dtype=torch.int64)
            dist.all_reduce(more, dist.ReduceOp.MIN)
            if not more:
                return
            yield batch

    return epoch


def hf_datasets(folder: Path) -> Epoch:
    import datasets
    import pyarrow as pa
    from datasets.distributed import split_dataset_by_node

    x = np.load(folder / "x.npy")
    table = pa.table({"x": pa.FixedSizeListArray.from_arrays(x.reshape(-1), FLOATS), "y": np.arange(ROWS)})
    rows = datasets.Dataset(datasets.table.InMemoryTable(table), fingerprint="ranks").with_format("torch")

    def epoch() -> Iterator:
        mine = split_dataset_by_node(rows.shuffle(seed=7), dist.get_rank(), RANKS)
        return ((batch["x"], batch["y"]) for batch in mine.iter(BATCH))

    return epoch


def grain(folder: Path) -> Epoch:
    """`drop_remainder`, because otherwise processes may take different numbers of steps."""
    import grain

    x = np.load(folder / "x.npy")
    y = np.arange(ROWS)
    shard = grain.MapDataset.range(ROWS).seed(7).shuffle()[dist.get_rank() :: RANKS]
    rows = shard.batch(BATCH, drop_remainder=True).map(lambda index: (x[index], y[index]))
    read = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
    return lambda: map(tensors, rows.to_iter_dataset(read))


def mosaic_streaming(folder: Path) -> Epoch:
    """From its own format, which the first process writes."""
    streaming = mosaic()
    if dist.get_rank() == 0:
        x = np.load(folder / "x.npy")
        columns = {"x": f"ndarray:float32:{FLOATS}", "y": "int64"}
        with streaming.MDSWriter(out=str(folder / "mds"), columns=columns) as writer:
            for row in range(ROWS):
                writer.write({"x": x[row], "y": np.int64(row)})
    dist.barrier()
    rows = streaming.StreamingDataset(local=str(folder / "mds"), shuffle=True, batch_size=BATCH)

    def joined(samples: list[dict]) -> list[torch.Tensor]:
        x = torch.from_numpy(np.stack([sample["x"] for sample in samples]))
        return [x, torch.tensor([int(sample["y"]) for sample in samples])]

    return lambda: streaming.StreamingDataLoader(rows, batch_size=BATCH, collate_fn=joined)


TASK = Task(
    name="uneven_ranks",
    title="4 processes share 100,003 rows, 64 a step and process, shuffled",
    rows=ROWS,
    batch=BATCH,
    leaves=((torch.float32, (FLOATS,)), (torch.int64, ())),
    write=write,
    ids=ids,
    order="shuffled",
    ranks=RANKS,
    inexact=True,
    systems={
        "torch_distinput": torch_distinput,
        "DataLoader, DistributedSampler": sampler,
        "DataLoader, DistributedSampler, __getitems__": sampler_getitems,
        "DataLoader, a vote before each step": vote,
        "Accelerate": accelerate_shards,
        "Accelerate, dispatcher": accelerate_dispatcher,
        "HF datasets": hf_datasets,
        "Grain": grain,
        "MosaicML streaming": mosaic_streaming,
    },
)
