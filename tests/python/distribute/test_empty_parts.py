# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Warnings about parts without rows, and what says whether somebody chose them."""

import copy
import pickle
import warnings

import pytest
import torch
from ranks import returned, run_ranks
from torch.utils.data import TensorDataset

import torch_distinput as tdi
from torch_distinput.distribute._input_options import TAILS


def distributed(rows, batch=4, replicas=2, **options):
    dataset = tdi.Dataset.range(rows).batch(batch)
    return tdi.MirroredStrategy(["cpu"] * replicas).distribute_dataset(dataset, tdi.InputOptions(**options))


def warnings_of(make):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make()
    return [warning for warning in caught if "torch_distinput" in str(warning.message)]


def test_a_default_that_leaves_a_replica_without_rows_is_said_once():
    dataset = distributed(9)
    (said,) = warnings_of(lambda: [list(dataset), list(dataset)])
    assert said.category is UserWarning
    text = str(said.message)
    assert "the last step has 1 rows for 2 replicas" in text
    assert 'tail="merge"' in text and 'tail="zero_rows"' in text
    assert said.filename == __file__
    assert len(warnings_of(lambda: list(distributed(9)))) == 1


@pytest.mark.parametrize("tail", TAILS)
def test_a_tail_that_was_chosen_is_not_questioned(tail):
    assert not warnings_of(lambda: list(distributed(9, tail=tail)))


@pytest.mark.parametrize(
    ("rows", "batch", "replicas"),
    [(8, 4, 2), (10, 4, 2), (9, 4, 1), (1, 4, 2), (0, 4, 2)],  # with too few rows, nothing could be merged
)
def test_no_warning_where_merging_would_change_nothing(rows, batch, replicas):
    assert not warnings_of(lambda: list(distributed(rows, batch, replicas)))


def test_no_warning_where_only_the_data_can_tell():
    dataset = tdi.Dataset.range(9).batch(4).filter(lambda batch: True)
    assert not warnings_of(lambda: list(tdi.MirroredStrategy(["cpu"] * 2).distribute_dataset(dataset)))


def test_an_error_of_the_pipeline_is_raised_where_it_is_read(tmp_path):
    file = tmp_path / "lines"
    file.write_text("1\n2\n3\n")
    lines = tdi.TextLineDataset([str(file)], index=True).batch(2)
    dataset = tdi.MirroredStrategy(["cpu"] * 2).distribute_dataset(lines)
    file.unlink()
    iterator = iter(dataset)
    with pytest.raises(tdi.NotFoundError, match="no such file"):
        next(iterator)


def test_merging_says_once_where_it_could_not():
    dataset = distributed(1, tail="merge")
    (said,) = warnings_of(lambda: [list(dataset), list(dataset)])
    assert 'tail="merge" left a replica without rows in step 0' in str(said.message)
    assert said.filename == __file__
    middle = (
        tdi.Dataset.range(5).batch(4).repeat(2).with_options(tdi.Options(auto_shard_policy=tdi.AutoShardPolicy.DATA))
    )
    strategy = tdi.MirroredStrategy(["cpu"] * 2)
    steps = strategy.distribute_dataset(middle, tdi.InputOptions(tail="merge"))
    assert "in step 1" in str(warnings_of(lambda: list(steps))[0].message)


def test_options_show_the_tail_that_applies_whoever_chose_it():
    given, default = tdi.InputOptions(tail="zero_rows"), tdi.InputOptions()
    assert default.tail == "zero_rows" and default == given and hash(default) == hash(given)
    assert repr(default) == repr(given)
    for copied in (copy.copy(default), pickle.loads(pickle.dumps(default))):
        dataset = tdi.MirroredStrategy(["cpu"] * 2).distribute_dataset(tdi.Dataset.range(9).batch(4), copied)
        assert len(warnings_of(lambda dataset=dataset: list(dataset))) == 1


def loaded(rank, kind, options):
    rows = TensorDataset(torch.arange(9))
    dataset = rows if kind == "native" else [(torch.tensor(row), str(row)) for row in range(9)]
    loader = tdi.DataLoader(dataset, 2, distributed=True, **options)
    said = warnings_of(lambda: [list(loader), list(loader)])
    return [str(warning.message) for warning in said]


@pytest.mark.parametrize("kind", ["native", "indices"])
def test_rank_0_says_it_for_a_loader(kind):
    first, second = returned(run_ranks(loaded, 2, kind, {}))
    assert "the last step has 1 rows for 2 replicas" in first[0]
    assert len(first) == 1 and not second


@pytest.mark.parametrize("options", [{"tail": "zero_rows"}, {"drop_last": True}, {"tail": "merge"}])
def test_a_loader_with_a_tail_says_nothing(options):
    assert returned(run_ranks(loaded, 2, "native", options)) == [[], []]


def test_the_loader_shows_the_tail_that_applies():
    assert tdi.DataLoader(TensorDataset(torch.arange(9)), 2).tail == "zero_rows"


def counted(rank):
    loader = tdi.DataLoader(TensorDataset(torch.arange(9)), 2, distributed=True, tail="merge")
    return len(loader), [len(batch[0]) for batch in loader], loader.global_valid(0, 5), loader.global_valid(1)


def test_a_loader_counts_the_steps_and_rows_of_a_merged_epoch():
    assert returned(run_ranks(counted, 2)) == [(2, [2, 3], 9, 5), (2, [2, 2], 9, 5)]


def test_explain_tells_the_rows_of_the_last_step():
    text = distributed(9, tail="merge").explain()
    assert "tail: merge" in text
    assert "rows of the last step: 3, 2\n" in text
    assert "rows of the last step: 1, 0\n" in distributed(9, tail="zero_rows").explain().replace(" (made up)", "")
