# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Batches whose rows come from many row groups: each value is that of its row, whatever its type and width."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_distinput as tdi

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

FILES = 3
COLUMNS = {
    "bool": lambda number: bool(number % 3 == 0),
    "byte": lambda number: number % 251,
    "short": lambda number: number * 3 - 7,
    "float": lambda number: number / 2,
    "long": lambda number: number << 33,
    "vector": lambda number: [float(number + i) for i in range(37)],
    "text": lambda number: f"{number}-" * (number % 9),
    "picture": lambda number: bytes([number % 256]) * (number % 5 * 700),
}
TYPES = {
    "i": pa.int64(),
    "bool": pa.bool_(),
    "byte": pa.uint8(),
    "short": pa.int16(),
    "float": pa.float32(),
    "long": pa.int64(),
    "vector": pa.list_(pa.float64(), 37),
    "text": pa.string(),
    "picture": pa.binary(),
}


def write(folder, rows, group):
    names = []
    for file in range(FILES):
        numbers = range(file * rows, (file + 1) * rows)
        values = {"i": list(numbers)} | {name: [of(number) for number in numbers] for name, of in COLUMNS.items()}
        table = pa.table({name: pa.array(values[name], TYPES[name]) for name in TYPES})
        names.append(str(folder / f"{file}.parquet"))
        parquet.write_table(table, names[-1], row_group_size=group)
    return names


def values_of(column):
    return column.tolist() if isinstance(column, torch.Tensor) else list(column)


@settings(max_examples=25)
@given(
    rows=st.integers(1, 60),
    group=st.integers(1, 25),
    batch=st.integers(1, 50),
    blocks=st.none() | st.integers(1, 4),
    names=st.sets(st.sampled_from(sorted(COLUMNS)), min_size=1),
    seed=st.integers(0, 9),
)
def test_each_value_is_that_of_its_row(tmp_path_factory, rows, group, batch, blocks, names, seed):
    files = write(tmp_path_factory.mktemp("rows"), rows, group)
    dataset = tdi.ParquetDataset(files, ["i", *sorted(names)])
    shuffled = dataset.shuffle(seed=seed) if blocks is None else dataset.shuffle(seed=seed, blocks=blocks)
    seen = []
    for got in shuffled.batch(batch):
        numbers = got["i"].tolist()
        for name in names:
            assert values_of(got[name]) == [COLUMNS[name](number) for number in numbers], name
        seen += numbers
    assert sorted(seen) == list(range(FILES * rows))


def test_columns_side_by_side_are_those_of_their_rows(tmp_path):
    files = write(tmp_path, 40, 3)
    stack = {"both": ["float", "x"]}
    for name in files:
        table = parquet.read_table(name)
        other = pa.array(np.asarray(table["i"], np.float32) * 5)
        parquet.write_table(table.append_column("x", other), name, row_group_size=3)
    for got in tdi.ParquetDataset(files, ["i"], stack=stack).shuffle(seed=1, blocks=2).batch(32):
        expected = [[number / 2, number * 5] for number in got["i"].tolist()]
        assert got["both"].tolist() == expected
