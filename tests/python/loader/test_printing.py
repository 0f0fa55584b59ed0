# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What a DataLoader and its iterators print."""

import functools

import pytest
import torch
import torch.distributed as dist
from ranks import returned, run_ranks
from torch.utils import data

import torch_distinput as tdi

ROWS = data.TensorDataset(torch.arange(100))


class Stream(data.IterableDataset):
    def __iter__(self):
        return iter(range(100))


class Unsized(data.Dataset):
    def __getitem__(self, index):
        return index

    def __len__(self):
        raise RuntimeError("unknown")


def pairs(samples):
    return samples


@pytest.mark.parametrize(
    ("dataset", "arguments", "wanted"),
    [
        (ROWS, {}, "TensorDataset of 100 rows, batch_size=1"),
        (ROWS, {"batch_size": 32, "shuffle": True}, "TensorDataset of 100 rows, batch_size=32, shuffle=True"),
        ([7], {"num_workers": 2}, "list of 1 row, batch_size=1, num_workers=2"),
        ([7], {"num_workers": 0, "pin_memory": False, "split": "balanced"}, "list of 1 row, batch_size=1"),
        ([7], {"drop_last": True, "device": "cpu"}, "list of 1 row, batch_size=1, drop_last=True, device='cpu'"),
        ([7], {"batch_sampler": [[0]], "collate_fn": pairs}, "list of 1 row, batch_sampler=list, collate_fn=pairs"),
        ([7], {"sampler": range(1)}, "list of 1 row, batch_size=1, sampler=range"),
        ([7], {"generator": torch.Generator()}, "list of 1 row, batch_size=1, generator=Generator"),
        ([7], {"collate_fn": functools.partial(pairs)}, "list of 1 row, batch_size=1, collate_fn=partial"),
        (Stream(), {"batch_size": 4}, "Stream, batch_size=4"),
        (Unsized(), {"sampler": [0]}, "Unsized, batch_size=1, sampler=list"),
        (tdi.Dataset.range(9).batch(2), {"batch_size": None}, "Dataset, batch_size=None"),
        (
            range(9),
            {"distributed": True, "seed": 3, "shuffle": True},
            "range of 9 rows, batch_size=1, shuffle=True, distributed=True, seed=3",
        ),
        (
            range(9),
            {"distributed": True, "global_batch_size": 8, "tail": "merge"},
            "range of 9 rows, distributed=True, global_batch_size=8, tail='merge'",
        ),
    ],
)
def test_a_loader_prints_its_dataset_and_what_is_not_the_default(dataset, arguments, wanted):
    loader = tdi.DataLoader(dataset, **arguments)
    assert repr(loader) == str(loader) == f"DataLoader({wanted})"


def of_rank(rank):
    return [repr(tdi.DataLoader(ROWS, 4, distributed=given)) for given in (True, dist.new_group([0, 1]))]


def test_a_loader_of_ranks_prints_which_rank_it_is_of():
    for rank, (every, group) in enumerate(returned(run_ranks(of_rank, 2))):
        assert every == group == f"DataLoader(TensorDataset of 100 rows, batch_size=4, distributed=rank {rank} of 2)"


class Odd(tdi.DataLoader):
    """A subclass whose attributes fail, and take the names of the library's arguments."""

    seed = "mine"

    @property
    def timeout(self):
        raise RuntimeError("not now")

    @timeout.setter
    def timeout(self, value):
        pass


def test_a_subclass_and_a_loader_that_is_not_made_print_too(tmp_path):
    assert repr(Odd(ROWS, 4)) == "Odd(TensorDataset of 100 rows, batch_size=4)"
    assert repr(object.__new__(tdi.DataLoader)) == "DataLoader(not made yet)"
    path = tmp_path / "missing.txt"
    loader = tdi.DataLoader(tdi.TextLineDataset(path), batch_size=2)
    assert repr(loader) == "DataLoader(TextLineDataset, batch_size=2)"


def test_a_loader_that_prints_reads_nothing(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("line\n" * 100_000)
    repr(tdi.DataLoader(tdi.TextLineDataset(path), batch_size=2, distributed=True))
    assert [found.name for found in tmp_path.iterdir()] == ["lines.txt"]


@pytest.mark.parametrize(
    ("dataset", "arguments", "wanted"),
    [
        (ROWS, {}, "RowsIter(native, epoch 0, batch 2 of 4)"),
        (ROWS, {"drop_last": True}, "RowsIter(native, epoch 0, batch 2 of 3)"),
        (ROWS, {"sampler": range(100)}, "SampledRowsIter(native, epoch 0, batch 2)"),
        (tdi.Dataset.range(100), {}, "PipelineIter(native, epoch 0, batch 2 of 4)"),
        (tdi.Dataset.range(100).filter(lambda row: row >= 0), {}, "PipelineIter(native, epoch 0, batch 2)"),
        (range(100), {"collate_fn": pairs}, "CallerIter(Python in the caller's thread, epoch 0, batch 2 of 4)"),
        (Stream(), {}, "CallerIter(Python in the caller's thread, epoch 0, batch 2)"),
        (ROWS, {"collate_fn": pairs, "num_workers": 2}, "WorkersIter(Python in 2 workers, epoch 0, batch 2 of 4)"),
        (ROWS, {"distributed": True}, "Steps(distributed, native, epoch 0, batch 2 of 4)"),
        (ROWS, {"distributed": True, "collate_fn": pairs}, "IndexSteps(distributed, indices, epoch 0, batch 2 of 4)"),
        (Stream(), {"distributed": True}, "StreamSteps(distributed, stream, epoch 0, batch 2)"),
    ],
)
def test_an_iterator_prints_its_path_and_place(dataset, arguments, wanted):
    loader = tdi.DataLoader(dataset, 32, **arguments)
    with loader:
        iterator = iter(loader)
        assert repr(iterator) == wanted.replace("batch 2", "batch 0")
        next(iterator), next(iterator)
        assert repr(iterator) == wanted
        assert [*iterator] and repr(iterator).endswith(", ended)")


def test_an_iterator_that_is_not_made_prints_too():
    for arguments in ({}, {"distributed": True}):
        kind = type(iter(tdi.DataLoader(ROWS, 32, **arguments)))
        assert repr(object.__new__(kind)).endswith("not open)")


def test_an_iterator_counts_from_the_beginning_of_the_epoch():
    loader = tdi.DataLoader(ROWS, 32)
    next(iter(loader))
    state = loader.state_dict()
    loader.load_state_dict(state)
    iterator = iter(loader)
    assert repr(iterator) == "RowsIter(native, epoch 0, batch 1 of 4)"
    assert len(list(iterator)) == 3
    other = tdi.DataLoader(ROWS, 10)
    other.load_state_dict(state)
    assert repr(iter(other)) == "RowsIter(native, epoch 0, batch 1)"  # batches of two sizes in one epoch
    del state["torch_distinput.DataLoader"]["num_batches"]  # as in states of the version before
    loader.load_state_dict(state)
    assert repr(iter(loader)) == "RowsIter(native, epoch 0, batch 1)"
