# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Parquet: 20 columns of float32 as one tensor and an int64 label, batch 256; 4 files, in any order."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from task import Batch, Epoch, Task, each, ray_data, same, spdl_epoch, tensors
from torch.utils.data import DataLoader, IterableDataset

ROWS, FILES, GROUP, BATCH = 200_000, 4, 25_000, 256
NAMES = [f"f{i}" for i in range(20)]


def write(folder: Path) -> None:
    """Every column holds the number of the row, plus its own."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    for number, rows in enumerate(np.split(np.arange(ROWS), FILES)):
        columns = {name: (rows + i).astype(np.float32) for i, name in enumerate(NAMES)}
        parquet.write_table(pa.table(columns | {"label": rows}), folder / f"{number}.parquet", row_group_size=GROUP)


def ids(batch: Batch, _: Path) -> torch.Tensor:
    x, label = batch
    return same(label, *(x - torch.arange(len(NAMES))).long().T)


def files(folder: Path) -> list[str]:
    return [str(folder / f"{i}.parquet") for i in range(FILES)]


def stacked(batch: dict[str, np.ndarray]) -> list[torch.Tensor]:
    """Columns of numpy as two tensors."""
    return tensors([np.stack([batch[name] for name in NAMES], axis=1), np.array(batch["label"])])


def torch_distinput(folder: Path) -> Epoch:
    """Made anew for each epoch, because a dataset keeps row groups that it has read."""
    import torch_distinput as tdi

    def epoch() -> tdi.Dataset:
        return tdi.ParquetDataset(files(folder), stack={"x": NAMES}).batch(BATCH)

    return each(lambda batch: (batch["x"], batch["label"]), epoch)


def columns_of(paths: list[str]) -> Iterator[dict[str, np.ndarray]]:
    """What people write: pyarrow cuts the batches. Batches do not cross files, whose rows are a multiple of a few sizes
    only, so the rest of a file is carried over."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    rest: list = []
    for path in paths:
        for piece in parquet.ParquetFile(path).iter_batches(BATCH, use_threads=True):
            rest.append(piece)
            while sum(map(len, rest)) >= BATCH:
                joined = rest[0] if len(rest) == 1 else pa.concat_batches(rest)
                rest = [joined.slice(BATCH)] if len(joined) > BATCH else []
                yield {name: joined.slice(0, BATCH).column(name).to_numpy() for name in [*NAMES, "label"]}
    if rest:
        yield {name: pa.concat_batches(rest).column(name).to_numpy() for name in [*NAMES, "label"]}


class Pyarrow(IterableDataset):
    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def __iter__(self) -> Iterator[list[torch.Tensor]]:
        return map(stacked, columns_of(self.paths))


def dataloader(folder: Path) -> Epoch:
    loader = DataLoader(Pyarrow(files(folder)), batch_size=None)
    return lambda: loader


def spdl(folder: Path) -> Epoch:
    """One thread beside the one that reads."""
    return spdl_epoch(lambda: columns_of(files(folder)), stacked, threads=1)


def tf_data(folder: Path) -> Epoch:
    """It reads no Parquet; `from_generator` is what people use."""
    import tensorflow as tf

    def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for batch in columns_of(files(folder)):
            yield np.stack([batch[name] for name in NAMES], axis=1), batch["label"]

    types = (tf.TensorSpec([None, len(NAMES)], tf.float32), tf.TensorSpec([None], tf.int64))
    rows = tf.data.Dataset.from_generator(batches, output_signature=types).prefetch(tf.data.AUTOTUNE)
    return each(tensors, lambda: rows)


def hf_datasets(folder: Path) -> Epoch:
    """Streamed, because its map-style datasets are read from a cache in another format."""
    import datasets

    rows = datasets.load_dataset(
        "parquet", data_files=files(folder), split="train", streaming=True, cache_dir=str(folder / "cache")
    ).with_format("numpy")
    return each(stacked, lambda: rows.iter(BATCH))


def grain(folder: Path) -> Epoch:
    import grain

    parts = [grain.experimental.ParquetIterDataset(path) for path in files(folder)]
    rows = grain.experimental.InterleaveIterDataset(parts, cycle_length=1).batch(BATCH)
    return each(stacked, lambda: rows)


def litdata(folder: Path) -> Epoch:
    import litdata

    litdata.index_parquet_dataset(str(folder))
    rows = litdata.StreamingDataset(str(folder), item_loader=litdata.streaming.item_loader.ParquetLoader())

    def joined(samples: list[dict]) -> list[torch.Tensor]:
        x = torch.tensor([[sample[name] for name in NAMES] for sample in samples], dtype=torch.float32)
        return [x, torch.tensor([sample["label"] for sample in samples])]

    return lambda: litdata.StreamingDataLoader(rows, batch_size=BATCH, collate_fn=joined)


def ray(folder: Path) -> Epoch:
    data = ray_data()
    data.DataContext.get_current().execution_options.preserve_order = True
    rows = data.read_parquet(files(folder))
    return each(stacked, lambda: rows.iter_batches(batch_size=BATCH, batch_format="numpy"))


TASK = Task(
    name="tables",
    title="Parquet, 20 x float32 + int64, batch 256",
    rows=ROWS,
    batch=BATCH,
    leaves=((torch.float32, (len(NAMES),)), (torch.int64, ())),
    write=write,
    ids=ids,
    order="any",
    systems={
        "torch_distinput": torch_distinput,
        "DataLoader, pyarrow": dataloader,
        "tf.data, pyarrow": tf_data,
        "Grain": grain,
        "SPDL, pyarrow": spdl,
        "litdata": litdata,
        "HF datasets": hf_datasets,
        "Ray Data": ray,
    },
)
