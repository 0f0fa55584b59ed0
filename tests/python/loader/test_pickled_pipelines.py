# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Pipelines whose rows Python makes, in worker processes that are not forked: each gets a pickle of the pipeline."""

import pickle

import pytest
import torch

import torch_distinput as tdi


def doubled(rows):
    return 2 * torch.stack(rows)


def add_one(row):
    return row + 1


def loader(method, pipeline=None):
    pipeline = pipeline or tdi.Dataset.from_tensor_slices(torch.arange(11)).map(add_one).shuffle(seed=3)
    return tdi.DataLoader(pipeline, 3, collate_fn=doubled, num_workers=2, multiprocessing_context=method)


def batches(loader):
    return [batch.tolist() for batch in loader]


@pytest.mark.both_pools
@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_read_the_same_rows_as_forked_ones(method):
    forked, other = loader("fork"), loader(method)
    assert batches(other) == batches(forked)
    forked.dataset.set_epoch(4)
    other.dataset.set_epoch(4)
    assert batches(other) == batches(forked)


@pytest.mark.slow
def test_workers_share_an_order_without_a_seed():
    rows = batches(loader("forkserver", tdi.Dataset.range(11).shuffle()))
    assert sorted(sum(rows, [])) == list(range(0, 22, 2))


@pytest.mark.filterwarnings("ignore:Got pickle error")
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_pipeline_that_does_not_pickle_is_refused_by_op_and_parameter(method):
    wrong = loader(method, tdi.Dataset.range(11).map(lambda row: row))
    assert "in 2 worker processes" in wrong.explain()
    with pytest.raises(pickle.PicklingError, match=r"map\(fn=<lambda>\), which is not at the top level of a module"):
        iter(wrong)


def test_a_loader_pickles_with_its_pipeline():
    made = tdi.DataLoader(tdi.Dataset.range(11).map(add_one).shuffle(seed=3), 3, collate_fn=doubled)
    copied = pickle.loads(pickle.dumps(made))
    assert [batches(copied), batches(copied)] == [batches(made), batches(made)]
    state = made.state_dict()
    copied.load_state_dict(state)
    assert batches(copied) == batches(made)
