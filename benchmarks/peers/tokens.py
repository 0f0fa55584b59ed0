# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Windows of 2,049 tokens from a file of uint16 (nanoGPT's format) as int64, batch 8, shuffled anew in each epoch."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from task import Batch, Epoch, Task, WrongOutput, each, mosaic, spdl_epoch
from torch.utils.data import DataLoader, Dataset

ROWS, LENGTH, BATCH = 16_384, 2048, 8
VOCABULARY = 50_304


def tokens() -> np.ndarray:
    """Random, but for the first two of each window."""
    found = np.random.default_rng(0).integers(0, VOCABULARY, ROWS * LENGTH + 1).astype(np.uint16)
    numbers = np.arange(ROWS)
    found[:-1:LENGTH], found[1::LENGTH] = numbers % 256, numbers // 256
    return found


def write(folder: Path) -> None:
    tokens().tofile(folder / "tokens.bin")


def ids(batch: Batch, folder: Path) -> torch.Tensor:
    inputs, targets = batch
    rows = inputs[:, 0] + 256 * inputs[:, 1]
    all_tokens = np.memmap(folder / "tokens.bin", np.uint16, "r")
    for row, given, wanted in zip(rows.tolist(), inputs.numpy(), targets.numpy()):
        window = all_tokens[row * LENGTH : (row + 1) * LENGTH + 1]
        if not (np.array_equal(given, window[:-1]) and np.array_equal(wanted, window[1:])):
            raise WrongOutput(f"window {row} has other tokens than the file")
    return rows


def halves(windows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets, views of one tensor of [rows, 2049]."""
    return windows[:, :-1], windows[:, 1:]


class Windows(Dataset):
    """What people write over a memory map."""

    def __init__(self, path: Path) -> None:
        self.tokens = np.memmap(path, np.uint16, "r")

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, row: int) -> tuple[torch.Tensor, torch.Tensor]:
        window = torch.from_numpy(self.tokens[row * LENGTH : (row + 1) * LENGTH + 1].astype(np.int64))
        return window[:-1], window[1:]


class BatchedWindows(Windows):
    """The fastest form of torch's loader, which few people write."""

    def __getitems__(self, rows: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        return gathered(self.tokens, rows)


def gathered(all_tokens: np.ndarray, rows: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    block = np.empty((len(rows), LENGTH + 1), np.int64)
    for place, row in enumerate(rows):
        block[place] = all_tokens[row * LENGTH : (row + 1) * LENGTH + 1]
    return halves(torch.from_numpy(block))


def as_it_is(batch: tuple) -> tuple:
    return batch


def torch_distinput(folder: Path) -> Epoch:
    import torch_distinput as tdi

    windows = tdi.TokenDataset(folder / "tokens.bin", np.uint16, LENGTH, vocab_size=VOCABULARY)
    rows = windows.shuffle().batch(BATCH)
    return lambda: rows


def dataloader(folder: Path) -> Epoch:
    loader = DataLoader(Windows(folder / "tokens.bin"), BATCH, shuffle=True)
    return lambda: loader


def dataloader_workers(folder: Path) -> Epoch:
    loader = DataLoader(Windows(folder / "tokens.bin"), BATCH, shuffle=True, num_workers=2)
    return lambda: loader


def dataloader_getitems(folder: Path) -> Epoch:
    loader = DataLoader(BatchedWindows(folder / "tokens.bin"), BATCH, shuffle=True, collate_fn=as_it_is)
    return lambda: loader


def accelerate(folder: Path) -> Epoch:
    from accelerate import Accelerator

    loader = Accelerator(cpu=True).prepare(DataLoader(Windows(folder / "tokens.bin"), BATCH, shuffle=True))
    return lambda: loader


def tf_data(folder: Path) -> Epoch:
    """The tokens in memory, one gather for each batch of shuffled numbers."""
    import tensorflow as tf

    windows = np.fromfile(folder / "tokens.bin", np.uint16)
    table = tf.constant(windows)
    steps = tf.range(LENGTH + 1, dtype=tf.int64)

    def gather(rows: "tf.Tensor") -> "tf.Tensor":
        return tf.cast(tf.gather(table, rows[:, None] * LENGTH + steps), tf.int64)

    rows = tf.data.Dataset.range(ROWS).shuffle(ROWS).batch(BATCH).map(gather, tf.data.AUTOTUNE)
    return each(lambda batch: halves(torch.from_dlpack(batch)), lambda: rows.prefetch(tf.data.AUTOTUNE))


def grain(folder: Path) -> Epoch:
    import grain

    all_tokens = np.memmap(folder / "tokens.bin", np.uint16, "r")
    rows = grain.MapDataset.range(ROWS).seed(1).shuffle().batch(BATCH).map(lambda rows: gathered(all_tokens, rows))
    read = grain.ReadOptions(num_threads=2, prefetch_buffer_size=16)
    return lambda: rows.to_iter_dataset(read)


def spdl(folder: Path) -> Epoch:
    all_tokens = np.memmap(folder / "tokens.bin", np.uint16, "r")

    def source() -> Iterator[list[int]]:
        return (rows.tolist() for rows in torch.randperm(ROWS).split(BATCH))

    return spdl_epoch(source, lambda rows: gathered(all_tokens, rows))


def windows_of(folder: Path) -> Iterator[np.ndarray]:
    all_tokens = np.memmap(folder / "tokens.bin", np.uint16, "r")
    return (all_tokens[row * LENGTH : (row + 1) * LENGTH + 1] for row in range(ROWS))


def joined(samples: list) -> tuple[torch.Tensor, torch.Tensor]:
    windows = [sample["window"] if isinstance(sample, dict) else sample for sample in samples]
    return halves(torch.from_numpy(np.stack(windows).astype(np.int64)))


def mosaic_streaming(folder: Path) -> Epoch:
    """From its own format, in two workers, as in its guide."""
    streaming = mosaic()
    with streaming.MDSWriter(out=str(folder / "mds"), columns={"window": "ndarray:uint16"}) as writer:
        for window in windows_of(folder):
            writer.write({"window": np.array(window)})
    rows = streaming.StreamingDataset(local=str(folder / "mds"), shuffle=True, batch_size=BATCH)
    return lambda: streaming.StreamingDataLoader(rows, batch_size=BATCH, num_workers=2, collate_fn=joined)


def litdata(folder: Path) -> Epoch:
    """From its own format."""
    import litdata

    writer = litdata.streaming.cache.Cache(str(folder / "litdata"), chunk_bytes=1 << 26)
    for row, window in enumerate(windows_of(folder)):
        writer[row] = {"window": np.array(window)}
    writer.done()
    writer.merge()
    rows = litdata.StreamingDataset(str(folder / "litdata"), shuffle=True)
    return lambda: litdata.StreamingDataLoader(rows, batch_size=BATCH, collate_fn=joined)


def hf_datasets(folder: Path) -> Epoch:
    """A table of windows in memory."""
    import datasets
    import pyarrow as pa

    windows = np.stack(list(windows_of(folder)))
    column = pa.FixedSizeListArray.from_arrays(windows.reshape(-1), LENGTH + 1)
    rows = datasets.Dataset(datasets.table.InMemoryTable(pa.table({"window": column})), fingerprint="tokens")
    rows = rows.with_format("numpy")
    return each(
        lambda batch: halves(torch.from_numpy(batch["window"].astype(np.int64))), lambda: rows.shuffle().iter(BATCH)
    )


TASK = Task(
    name="tokens",
    title="windows of 2,049 tokens as int64, batch 8, shuffled",
    rows=ROWS,
    batch=BATCH,
    leaves=((torch.int64, (LENGTH,)), (torch.int64, (LENGTH,))),
    write=write,
    ids=ids,
    order="shuffled",
    systems={
        "torch_distinput": torch_distinput,
        "DataLoader": dataloader,
        "DataLoader, 2 workers": dataloader_workers,
        "DataLoader, __getitems__": dataloader_getitems,
        "Accelerate": accelerate,
        "tf.data": tf_data,
        "Grain": grain,
        "SPDL": spdl,
        "MosaicML streaming": mosaic_streaming,
        "litdata": litdata,
        "HF datasets": hf_datasets,
    },
)
