# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Damaged states of datasets of files and tables and of the ops that parse, pack and decode what they hold."""

import random

import numpy as np
import pytest
import torch
from damaged_states import check
from format_datasets import (
    ROWS,
    arrow,
    column,
    csv,
    decoded,
    documents,
    json_lines,
    looked_up,
    mixed,
    npy,
    npz,
    number,
    packed,
    parquet,
    parsed,
    pictures,
    records,
    safetensors,
    sequences,
    skipping,
    spelled,
    stream,
    tar,
    tokens,
)

import torch_distinput as tdi

PIPELINES = {
    "arrow": lambda: arrow().batch(5),
    "stream of arrow": lambda: stream(arrow()).batch(5),
    "parquet": lambda: parquet().batch(5),
    "shuffled parquet": lambda: parquet().shuffle(3, seed=1),
    "parquet without an index": lambda: parquet(index=False).batch(5),
    "parquet that skips": lambda: skipping(parquet()),
    "csv": csv,
    "csv without an index": lambda: csv(index=False),
    "json lines": lambda: json_lines().shuffle(seed=1).batch(5),
    "json lines without an index": lambda: json_lines(index=False),
    "npy": lambda: npy().batch(5),
    "stream of npy": lambda: stream(npy()),
    "npy that skips": lambda: skipping(npy()),
    "npz": npz,
    "deflated npz": lambda: npz(np.savez_compressed),
    "safetensors": lambda: safetensors().shuffle(seed=1),
    "tar": lambda: column(tar(), "__key__").batch(5),
    "compressed tar": lambda: column(tar("GZIP"), "__key__"),
    "decoded members": lambda: column(tar().decode_members(), "cls"),
    "decode_raw": lambda: records(number).decode_raw(torch.int64).batch(5),
    "stream of decode_raw": lambda: stream(records(number)).decode_raw(torch.int64),
    "decode_raw that skips": lambda: skipping(records(number).decode_raw(torch.int64)),
    "parse_example": lambda: parsed().batch(5),
    "stream of parse_example": lambda: stream(parsed()),
    "parse_sequence_example": sequences,
    "to_number": spelled,
    "tokens": lambda: tokens().batch(5),
    "tokens of documents": lambda: tokens(document_boundary=5),
    "packed": lambda: packed(documents()),
    "packed in rows of many documents": lambda: packed(documents(), length=6),
    "packed stream": lambda: packed(stream(documents())),
    "packed by best fit": lambda: packed(documents(), strategy="best_fit", window=4),
    "packed batches": lambda: packed(documents()).batch(2),
    "lookup": looked_up,
    "stream of a lookup": lambda: stream(looked_up()),
    "pictures": lambda: pictures().map(lambda data, label: label).batch(5),
    "decoded pictures": lambda: decoded(pictures()),
    "stream of decoded pictures": lambda: decoded(stream(pictures())).batch(5),
    "mixture": mixed,
}
# The last row of a packing may be padded, and `best_fit` pads one in each window.
PADDED = {"packed in rows of many documents": 18, "packed by best fit": 16}

DISTRIBUTED = {
    "parquet": (lambda: parquet().batch(5), {}),
    "parquet without an index": (lambda: parquet(index=False).batch(5), {}),
    "balanced csv": (lambda: csv().batch(5), {"split": "balanced"}),
    "npy": (lambda: npy().shuffle(seed=1).batch(5), {}),
    "tar": (lambda: column(tar().decode_members(), "cls").batch(5), {}),
    "parse_example": (lambda: parsed().batch(5), {"tail": "padded"}),
    "tokens": (lambda: tokens().batch(5), {}),
    "packed": (lambda: packed(documents()).batch(4), {}),
    "lookup": (looked_up, {"split": "balanced"}),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_a_damaged_state_of_an_iterator(name):
    dataset = PIPELINES[name]()
    check(random.Random(name), lambda: iter(dataset), PADDED.get(name, ROWS))


@pytest.mark.parametrize("name", DISTRIBUTED)
def test_a_damaged_state_of_a_distributed_iterator(name):
    make, options = DISTRIBUTED[name]
    dataset = tdi.MirroredStrategy(["cpu", "cpu"]).distribute_dataset(make(), tdi.InputOptions(**options))
    check(random.Random(name), lambda: iter(dataset), 2 * ROWS)
