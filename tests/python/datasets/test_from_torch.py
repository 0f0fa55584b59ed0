# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""torch datasets as sources."""

import sys

import pytest
import torch
from torch.utils.data import IterableDataset, Subset, TensorDataset
from torch_datasets import Indices

import torch_distinput as tdi


class Squares(Indices):
    def __init__(self, size=6):
        super().__init__(size)
        self.calls = []

    def __getitem__(self, index):
        if index == 13:
            raise ValueError("a broken file")
        self.calls.append(index)
        return {"x": torch.tensor(index), "y": index * index}


class Batched(Squares):
    def __getitems__(self, indices):
        self.calls.append(list(indices))
        return [{"x": torch.tensor(index), "y": index * index} for index in indices]


def test_a_map_style_dataset_has_random_access():
    dataset = tdi.Dataset.from_torch(Squares())
    assert len(dataset) == 6
    assert [row["y"].item() for row in dataset.skip(2)] == [4, 9, 16, 25]
    assert sorted(row["x"].item() for row in dataset.shuffle(seed=1)) == list(range(6))
    assert dataset.element_spec == {"x": tdi.TensorSpec((), torch.int64), "y": tdi.TensorSpec((), torch.int64)}


def test_getitems_is_called_once_for_each_batch():
    source = Batched()
    batches = list(tdi.Dataset.from_torch(source).batch(4))
    assert source.calls == [[0, 1, 2, 3], [4, 5]]
    assert batches[1]["y"].tolist() == [16, 25]


def test_rows_that_are_not_needed_are_not_read():
    source = Squares()
    list(tdi.Dataset.from_torch(source).shard(3, 1).take(1))
    assert source.calls == [1]


def test_torch_wrappers_work():
    tensors = TensorDataset(torch.arange(8), torch.arange(8) * 2)
    rows = list(tdi.Dataset.from_torch(Subset(tensors, [5, 1])))
    assert [(x.item(), y.item()) for x, y in rows] == [(5, 10), (1, 2)]


def test_a_row_that_fails_is_named():
    with pytest.raises(ValueError, match="a broken file") as caught:
        list(tdi.Dataset.from_torch(Squares(20)).batch(5))
    if sys.version_info >= (3, 11):
        assert caught.value.__notes__ == [
            "raised by row 13 of Squares",
            "raised by from_rows(Squares): one of the 5 rows 10 to 14",
        ]


def test_too_few_rows_from_getitems():
    class Short(Batched):
        def __getitems__(self, indices):
            return []

    with pytest.raises(ValueError, match="Short.*4 rows were asked for, but 0 were returned"):
        next(iter(tdi.Dataset.from_torch(Short()).batch(4)))


def test_an_iterable_dataset_is_iterated_anew():
    class Stream(IterableDataset):
        runs = 0

        def __iter__(self):
            type(self).runs += 1
            yield from ({"x": torch.tensor(i), "z": [i, 1.5]} for i in range(3))

    dataset = tdi.Dataset.from_torch(Stream())
    for _ in range(2):
        assert [row["x"].item() for row in dataset] == [0, 1, 2]
    assert Stream.runs == 2
    assert type(next(iter(dataset))["z"]) is list
    assert dataset.element_spec["x"] == tdi.TensorSpec((), torch.int64)
    with pytest.raises(TypeError, match="unknown"):
        len(dataset)


def test_what_is_no_dataset_is_refused():
    with pytest.raises(TypeError, match="from_torch: a dataset needs `__getitem__` and `__len__`.*got a int"):
        tdi.Dataset.from_torch(3)


@pytest.mark.parametrize("source", [Squares, Batched])
def test_the_laws_hold(source):
    dataset = tdi.Dataset.from_torch(source(11)).shuffle(seed=3).batch(3)
    tdi.testing.assert_paths_agree(dataset)
    tdi.testing.assert_resumable(dataset)
