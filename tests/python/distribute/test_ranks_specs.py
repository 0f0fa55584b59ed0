# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A process without a single row learns the type of its zero-row parts from the others."""

import collections

import pytest
import torch
from ranks import returned, run_ranks

import torch_distinput as tdi

Pair = collections.namedtuple("Pair", ["a", "b"])


def structured(row):
    return {"x": (torch.ones(2, 3) * row, None), "words": [f"row {int(row)}"]}


class Stream(torch.utils.data.IterableDataset):
    """A stream of `rows` vectors without a declared type."""

    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        return iter([torch.full((5,), row, dtype=torch.float16) for row in range(self.rows)])


MAKE = {
    "map": lambda rows: tdi.Dataset.range(rows).map(structured).batch(4),
    "torch": lambda rows: tdi.Dataset.from_torch(Stream(rows)).batch(4),
    "named": lambda rows: tdi.Dataset.range(rows).map(lambda row: Pair(row, row)).batch(4),
}


def empty_on_rank_0(rank, what, tail):
    strategy = tdi.MultiWorkerMirroredStrategy()
    options = tdi.InputOptions(tail=tail)
    dataset = strategy.distribute_datasets_from_function(lambda context: MAKE[what](6 * rank), options)
    return [[strategy.experimental_local_results(leaf)[0] for leaf in leaves_of(step)] for step in dataset]


def leaves_of(step):
    return [step["x"][0], step["words"]] if isinstance(step, dict) else [step]


@pytest.mark.parametrize("tail", ["zero_rows", "padded"])
def test_parts_without_rows_have_structure_dtype_and_dims_of_the_others(tail):
    empty, full = returned(run_ranks(empty_on_rank_0, 2, "map", tail))
    rows = 4 if tail == "padded" else 0
    assert [tuple(x.shape) for x, _ in empty] == [(rows, 2, 3)] * 2
    assert all(x.dtype == torch.float32 for x, _ in empty)
    assert all(len(words) == 0 for _, words in empty)
    assert [len(x) for x, _ in full] == [4, 4 if tail == "padded" else 2]


def test_a_stream_of_torch_without_elements_is_typed_too():
    empty, full = returned(run_ranks(empty_on_rank_0, 2, "torch", "zero_rows"))
    assert [(tuple(x.shape), x.dtype) for (x,) in empty] == [((0, 5), torch.float16)] * len(full)


def test_a_type_that_cannot_be_sent_is_the_same_error_on_all():
    here, there = run_ranks(empty_on_rank_0, 2, "named", "zero_rows")
    assert isinstance(here, tdi.DistributedDatasetError)
    assert str(here) == str(there)
    assert "rank 0 cannot know the type of the elements" in str(here)
    assert returned(run_ranks(empty_on_rank_0, 2, "named", "until_first")) == [[], []]
