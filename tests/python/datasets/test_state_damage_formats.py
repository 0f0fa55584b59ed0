# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Damaged states of datasets of files and tables and of the ops that parse, pack and decode what they hold."""

import random

import format_datasets as formats
import numpy as np
import pytest
import torch
from damaged_states import check

import torch_distinput as tdi

PIPELINES = {
    "arrow": lambda: formats.arrow().batch(5),
    "stream of arrow": lambda: formats.stream(formats.arrow()).batch(5),
    "parquet": lambda: formats.parquet().batch(5),
    "shuffled parquet": lambda: formats.parquet().shuffle(3, seed=1),
    "parquet without an index": lambda: formats.parquet(index=False).batch(5),
    "parquet that skips": lambda: formats.skipping(formats.parquet()),
    "csv": formats.csv,
    "csv without an index": lambda: formats.csv(index=False),
    "json lines": lambda: formats.json_lines().shuffle(seed=1).batch(5),
    "json lines without an index": lambda: formats.json_lines(index=False),
    "npy": lambda: formats.npy().batch(5),
    "stream of npy": lambda: formats.stream(formats.npy()),
    "npy that skips": lambda: formats.skipping(formats.npy()),
    "npz": formats.npz,
    "deflated npz": lambda: formats.npz(np.savez_compressed),
    "safetensors": lambda: formats.safetensors().shuffle(seed=1),
    "tar": lambda: formats.column(formats.tar(), "__key__").batch(5),
    "compressed tar": lambda: formats.column(formats.tar("GZIP"), "__key__"),
    "decoded members": lambda: formats.column(formats.tar().decode_members(), "cls"),
    "decode_raw": lambda: formats.records(formats.number).decode_raw(torch.int64).batch(5),
    "stream of decode_raw": lambda: formats.stream(formats.records(formats.number)).decode_raw(torch.int64),
    "decode_raw that skips": lambda: formats.skipping(formats.records(formats.number).decode_raw(torch.int64)),
    "parse_example": lambda: formats.parsed().batch(5),
    "stream of parse_example": lambda: formats.stream(formats.parsed()),
    "parse_sequence_example": formats.sequences,
    "to_number": formats.spelled,
    "tokens": lambda: formats.tokens().batch(5),
    "tokens of documents": lambda: formats.tokens(document_boundary=5),
    "packed": lambda: formats.packed(formats.documents()),
    "packed in rows of many documents": lambda: formats.packed(formats.documents(), length=6),
    "packed stream": lambda: formats.packed(formats.stream(formats.documents())),
    "packed by best fit": lambda: formats.packed(formats.documents(), strategy="best_fit", window=4),
    "packed batches": lambda: formats.packed(formats.documents()).batch(2),
    "lookup": formats.looked_up,
    "stream of a lookup": lambda: formats.stream(formats.looked_up()),
    "images": lambda: formats.images().map(lambda data, label: label).batch(5),
    "decoded images": lambda: formats.decoded(formats.images()),
    "stream of decoded images": lambda: formats.decoded(formats.stream(formats.images())).batch(5),
    "mixture": formats.mixed,
}
# The last row of a packing may be padded, and `best_fit` pads one in each window.
PADDED = {"packed in rows of many documents": 18, "packed by best fit": 16}

DISTRIBUTED = {
    "parquet": (lambda: formats.parquet().batch(5), {}),
    "parquet without an index": (lambda: formats.parquet(index=False).batch(5), {}),
    "balanced csv": (lambda: formats.csv().batch(5), {"split": "balanced"}),
    "npy": (lambda: formats.npy().shuffle(seed=1).batch(5), {}),
    "tar": (lambda: formats.column(formats.tar().decode_members(), "cls").batch(5), {}),
    "parse_example": (lambda: formats.parsed().batch(5), {"tail": "padded"}),
    "tokens": (lambda: formats.tokens().batch(5), {}),
    "packed": (lambda: formats.packed(formats.documents()).batch(4), {}),
    "lookup": (formats.looked_up, {"split": "balanced"}),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_a_damaged_state_of_an_iterator(name):
    dataset = PIPELINES[name]()
    check(random.Random(name), lambda: iter(dataset), PADDED.get(name, formats.ROWS))


@pytest.mark.parametrize("name", DISTRIBUTED)
def test_a_damaged_state_of_a_distributed_iterator(name):
    make, options = DISTRIBUTED[name]
    dataset = tdi.MirroredStrategy(["cpu", "cpu"]).distribute_dataset(make(), tdi.InputOptions(**options))
    check(random.Random(name), lambda: iter(dataset), 2 * formats.ROWS)
