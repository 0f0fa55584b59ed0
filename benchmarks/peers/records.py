# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""TFRecord files: raw records of 1,000 bytes as uint8 tensors, batch 256, in order. Checksums are checked where a
system does; the name says where it does not."""

import struct
from collections.abc import Iterator
from pathlib import Path

import torch
from task import Batch, Epoch, Task, each, same, tensors
from torch.utils.data import DataLoader, IterableDataset

ROWS, BYTES, BATCH = 65_536, 1000, 256


def write(folder: Path) -> None:
    """A record repeats its number."""
    import torch_distinput as tdi

    with tdi.TFRecordWriter(folder / "records.tfrecord") as writer:
        for row in range(ROWS):
            writer.write(row.to_bytes(8, "little") * (BYTES // 8))


def ids(batch: Batch, _: Path) -> torch.Tensor:
    numbers = batch[0].contiguous().view(torch.int64)
    return same(numbers[:, 0], *numbers.T[1:])


def torch_distinput(folder: Path) -> Epoch:
    import torch_distinput as tdi

    rows = tdi.TFRecordDataset(folder / "records.tfrecord").decode_raw(torch.uint8, (BYTES,)).batch(BATCH)
    return each(lambda batch: (batch,), lambda: rows)


class Reader(IterableDataset):
    """What people write: a reader in Python that trusts the checksums."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[torch.Tensor]:
        with self.path.open("rb", buffering=1 << 20) as file:
            while head := file.read(12):
                record = file.read(struct.unpack("<Q", head[:8])[0])
                file.read(4)
                yield record


def together(records: list[bytes]) -> list[torch.Tensor]:
    return [torch.frombuffer(bytearray().join(records), dtype=torch.uint8).view(len(records), -1)]


def dataloader(folder: Path) -> Epoch:
    loader = DataLoader(Reader(folder / "records.tfrecord"), BATCH, collate_fn=together)
    return lambda: loader


def tf_data(folder: Path) -> Epoch:
    """With the read buffer that its guide recommends."""
    import tensorflow as tf

    rows = tf.data.TFRecordDataset(str(folder / "records.tfrecord"), buffer_size=1 << 20).batch(BATCH)
    rows = rows.map(lambda record: tf.io.decode_raw(record, tf.uint8), tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
    return each(lambda batch: tensors([batch]), lambda: rows)


def grain(folder: Path) -> Epoch:
    import grain
    import numpy as np

    rows = grain.experimental.TFRecordIterDataset(str(folder / "records.tfrecord"))
    rows = rows.map(lambda record: np.frombuffer(record, np.uint8)).batch(BATCH)
    return each(lambda batch: tensors([batch]), lambda: rows)


TASK = Task(
    name="records",
    title="TFRecords of 1 kB as uint8, batch 256, in order",
    rows=ROWS,
    batch=BATCH,
    leaves=((torch.uint8, (BYTES,)),),
    write=write,
    ids=ids,
    systems={
        "torch_distinput": torch_distinput,
        "DataLoader, Python reader without checksums": dataloader,
        "tf.data": tf_data,
        "Grain": grain,
    },
)
