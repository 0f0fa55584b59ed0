# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Hugging Face datasets in a DataLoader: formats, streams, splits by node and states are exact, or refused."""

import warnings

import pytest
import torch
from ranks import returned, run_ranks

import torch_distinput as tdi

datasets = pytest.importorskip("datasets")
pa = pytest.importorskip("pyarrow")

ROWS = 23


def make(size=ROWS):
    table = pa.table({"row": list(range(size)), "x": [[float(row)] for row in range(size)]})
    return datasets.Dataset(datasets.table.InMemoryTable(table), fingerprint=f"rows{size}")


def stream(shards=3):
    return make().to_iterable_dataset(num_shards=shards).with_format("torch")


def shuffled():
    return make().to_iterable_dataset(num_shards=3).shuffle(seed=3, buffer_size=5).with_format("torch")


def mapped():
    return stream().map(lambda example: {"twice": 2 * example["row"]})


def rows(batches):
    return [batch["row"].tolist() for batch in batches]


def test_formatted_rows_are_those_of_torchs_loader():
    dataset = make().with_format("torch")
    ours, torchs = tdi.DataLoader(dataset, 4), torch.utils.data.DataLoader(dataset, 4)
    for here, there in zip(ours, torchs, strict=True):
        assert torch.equal(here["row"], there["row"]) and torch.equal(here["x"], there["x"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("make_stream", [stream, mapped, shuffled])
def test_a_stream_goes_on_where_it_stopped_and_then_begins_anew(make_stream, workers):
    def loader():
        return tdi.DataLoader(make_stream(), 4, num_workers=workers, persistent_workers=workers > 0)

    whole = rows(loader())
    assert sorted(row for part in whole for row in part) == list(range(ROWS))
    for stop in (2,) if workers else range(len(whole) + 1):
        first, again = loader(), loader()
        iterator = iter(first)
        begun = rows(next(iterator) for _ in range(stop))
        again.load_state_dict(first.state_dict())
        assert begun + rows(again) == whole
        assert rows(again) == whole and rows(again) == whole


@pytest.mark.parametrize("taken", [0, 2])
def test_a_stream_that_the_program_moved_itself_stays_where_it_is(taken):
    first, second = stream(), stream()
    iterator = iter(first)
    for _ in range(taken * 4):
        next(iterator)
    second.load_state_dict(first.state_dict())
    assert rows(tdi.DataLoader(second, 4)) == rows(tdi.DataLoader(stream(), 4))[taken:]


def after_the_end(loader):
    list(loader)
    return loader.state_dict()


def test_a_state_of_the_end_begins_the_next_epoch():
    whole, again = rows(tdi.DataLoader(stream(), 4)), tdi.DataLoader(stream(), 4)
    again.load_state_dict(after_the_end(tdi.DataLoader(stream(), 4)))
    assert rows(again) == whole and rows(again) == whole


def whole_on_each_rank(rank, kind):
    warnings.simplefilter("ignore")
    dataset = make() if kind == "rows" else make().with_format("torch").shuffle(seed=1)
    loader = tdi.DataLoader(dataset, 3, shuffle=True, distributed=True)
    first = rows(loader)
    iterator = iter(loader)
    begun = rows([next(iterator)])
    again = tdi.DataLoader(dataset, 3, shuffle=True, distributed=True)
    again.load_state_dict(loader.state_dict())
    return first, begun + rows(again)


@pytest.mark.parametrize("kind", ["rows", "formatted"])
def test_a_dataset_that_is_whole_on_each_rank_is_assigned(kind):
    ranks = returned(run_ranks(whole_on_each_rank, 2, kind))
    for epoch in range(2):
        assert sorted(row for rank in ranks for part in rank[epoch] for row in part) == list(range(ROWS))
        assert len(ranks[0][epoch]) == len(ranks[1][epoch])


def split_by_node(rank, size):
    from datasets.distributed import split_dataset_by_node

    list(tdi.DataLoader(split_dataset_by_node(make(size), rank, 2), 3, distributed=True))


@pytest.mark.parametrize("size", [22, 23])
def test_a_dataset_that_was_split_before_is_refused(size):
    """The shares of 22 rows have the same length, and half of each would be lost."""
    for error in run_ranks(split_by_node, 2, size):
        assert isinstance(error, tdi.DistributedDatasetError)
        assert "pass the whole one on every rank, or leave `distributed=None`" in str(error)


def split_streams(rank, shards, workers, stop):
    from datasets.distributed import split_dataset_by_node

    def make_loader():
        share = split_dataset_by_node(stream(shards), rank, 2)
        return tdi.DataLoader(share, 3, distributed=True, num_workers=workers)

    loader = make_loader()
    iterator = iter(loader)
    seen = rows(next(iterator) for _ in range(stop))
    state = loader.state_dict()
    iterator.close()
    again = make_loader()
    again.load_state_dict(state)
    return seen + rows(again), rows(again)


@pytest.mark.parametrize(("shards", "workers"), [(3, 0), (4, 0), (4, 2)])
def test_split_streams_take_equal_steps_and_resume(shards, workers):
    ranks = returned(run_ranks(split_streams, 2, shards, workers, 2, may_fork=True))
    for epoch in range(2):
        assert len(ranks[0][epoch]) == len(ranks[1][epoch])
        assert sorted(row for rank in ranks for part in rank[epoch] for row in part) == list(range(ROWS))


def unsplit_stream(rank, wrong):
    from datasets.distributed import split_dataset_by_node

    share = split_dataset_by_node(stream(), 0, 2) if wrong else stream()
    try:
        list(tdi.DataLoader(share, 3, distributed=True, peer_timeout=5))
    except ValueError as error:
        return str(error)
    return "read"


@pytest.mark.parametrize("wrong", [False, True])
def test_a_stream_that_is_not_split_as_the_ranks_are_is_refused(wrong):
    first, second = run_ranks(unsplit_stream, 2, wrong)
    said = "split as that of rank 0 of 2" if wrong else "not split"
    assert said in second and "split_dataset_by_node(dataset, rank=1, world_size=2)" in second
    assert wrong or "not split" in first
