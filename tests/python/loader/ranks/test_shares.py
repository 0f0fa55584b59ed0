# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`DataLoader(distributed=True)` where ranks pass different shares of a dataset: the same error on all of them."""

import itertools

import numpy as np
import pytest
import torch
from distributed_loaders import Squares, collate, rows_of
from ranks import returned, run_ranks
from torch.utils import data
from torch_datasets import Indices

import torch_distinput as tdi
from torch_distinput.frameworks._shares import StreamShare
from torch_distinput.recognize._contents import content_of


class Doubled(data.Dataset):
    """What users write around a split of their data."""

    def __init__(self, inner):
        self.inner = inner

    def __len__(self):
        return len(self.inner)

    def __getitem__(self, index):
        return self.inner[index] | {"twice": 2 * index}


def half(rank, world=2):
    return data.Subset(Squares(20), list(range(rank, 20, world)))


def unseeded(rank):
    return data.random_split(Squares(20), [10, 10], torch.Generator().manual_seed(rank))[0]


SHARES = {
    "Subset": half,
    "random_split": unseeded,
    "Subset of a Subset": lambda rank: data.Subset(half(rank), [1, 2, 3, 4]),
    "Subset by an array": lambda rank: data.Subset(Squares(20), np.arange(rank, 20, 2)),
    "ConcatDataset": lambda rank: data.ConcatDataset([half(rank), Squares(4)]),
    "StackDataset": lambda rank: data.StackDataset(a=half(rank), b=half(0)),
    "a wrapper of a Subset": lambda rank: Doubled(half(rank)),
    "a list of names": lambda rank: [f"image{number}.jpg" for number in range(rank, 20, 2)],
    "a list of tensors": lambda rank: [torch.tensor([number]) for number in range(rank, 20, 2)],
    "an array of texts": lambda rank: np.array([f"{number}" for number in range(10 + rank, 30, 2)]),
    "a TensorDataset": lambda rank: data.TensorDataset(torch.arange(rank, 20, 2)),
    "another class": lambda rank: [torch.zeros(1)] * 10 if rank else Squares(10),
    "another length": lambda rank: Squares(10 + rank),
}


def as_they_are(samples):
    return samples


def read_share(rank, name):
    loader = tdi.DataLoader(SHARES[name](rank), 4, collate_fn=as_they_are, distributed=True, peer_timeout=20)
    return [batch for batch in loader]


@pytest.mark.parametrize("name", SHARES)
def test_a_share_of_the_rows_is_an_error_on_every_rank(name):
    errors = run_ranks(read_share, 2, name)
    for error in errors:
        assert isinstance(error, tdi.DistributedDatasetError), error
        assert "pass the whole one on every rank" in str(error)
    assert str(errors[0]) == str(errors[1])
    assert "zip" not in str(errors[0]) and "select" not in str(errors[0])


def read_share_of_a_strategy(rank, name):
    dataset = tdi.Dataset.from_torch(SHARES[name](rank)).batch(4)
    strategy = tdi.MultiWorkerMirroredStrategy()
    return list(strategy.distribute_dataset(dataset, tdi.InputOptions(peer_timeout=20)))


@pytest.mark.parametrize("name", ["Subset", "ConcatDataset", "a wrapper of a Subset", "a TensorDataset"])
def test_a_share_under_a_strategy_is_an_error_on_every_rank(name):
    errors = run_ranks(read_share_of_a_strategy, 2, name)
    for error in errors:
        assert isinstance(error, tdi.DistributedDatasetError), error
        assert error.args == errors[0].args and "must agree on content" in str(error)


def named_fact(rank, other):
    arguments = {"batch_size": 2, "shuffle": False, "collate_fn": None} | (other if rank else {})
    loader = tdi.DataLoader(Squares(8), distributed=True, peer_timeout=20, **arguments)
    try:
        return next(iter(loader))
    except tdi.DistributedDatasetError as error:
        return error.disagreed_on, str(error)


@pytest.mark.parametrize(
    ("other", "fact"),
    [({"batch_size": 3}, "batch size"), ({"shuffle": True}, "shuffle"), ({"collate_fn": collate}, "collate_fn")],
)
def test_other_arguments_are_named_as_the_user_knows_them(other, fact):
    for disagreed_on, text in returned(run_ranks(named_fact, 2, other)):
        assert disagreed_on == fact
        assert f"must agree on {fact}" in text
        assert "another dataset" not in text


def test_errors_that_are_no_disagreement_name_no_fact():
    assert tdi.DistributedDatasetError("gone").disagreed_on is None


class Counting(Indices):
    calls = 0

    def __getitem__(self, index):
        self.calls += 1
        return index


def calls(rank):
    dataset = Counting(6)
    rows = [row for batch in tdi.DataLoader(dataset, 1, distributed=True) for row in rows_of(batch)]
    return rows, dataset.calls


def test_rows_that_python_makes_are_not_read_to_be_compared():
    assert returned(run_ranks(calls, 2)) == [([0, 2, 4], 3), ([1, 3, 5], 3)]


def test_contents_are_texts_in_the_users_words():
    assert content_of(Squares(5)) == "Squares of 5 rows"
    assert content_of(Doubled(Squares(5))) == "Doubled of 5 rows of [Squares of 5 rows]"
    text = content_of(data.Subset(Squares(5), [1, 2]))
    assert text.startswith("Subset of 2 rows (indices ") and text.endswith(") of Squares of 5 rows")


@pytest.mark.parametrize(
    ("one", "other"), [([1, 2, 3], range(1, 4)), (torch.tensor([1, 2, 3]), [1, 2, 3]), (np.array([1, 2, 3]), [1, 2, 3])]
)
def test_equal_indices_have_one_content(one, other):
    assert content_of(data.Subset(Squares(5), one)) == content_of(data.Subset(Squares(5), other))


def test_files_may_lie_in_other_folders_on_other_machines():
    assert content_of(["/disk1/a.jpg", "/disk1/b.jpg"]) == content_of(["/disk2/a.jpg", "/disk2/b.jpg"])
    assert content_of(["/disk1/a.jpg"]) != content_of(["/disk1/b.jpg"])


class Loop(data.Dataset):
    def __init__(self):
        self.itself = self

    def __getitem__(self, index):
        return index


@pytest.mark.parametrize(
    "dataset",
    [
        Loop(),
        [],
        [object()],
        [{"a": [1, None, b"x", 1j]}],
        [torch.zeros(2).to_sparse()],
        [torch.zeros(2, device="meta")],
        [torch.tensor([1j]).conj()],
        [torch.zeros(())],
        torch.zeros(0, 3),
        np.array([object()]),
        data.Subset(Squares(5), ["no", "numbers"]),
        data.Subset(Squares(5), []),
    ],
)
def test_any_dataset_has_a_content(dataset):
    assert content_of(dataset) == content_of(dataset)


def good_lines(rank, path):
    lines = tdi.TextLineDataset(path).with_options(tdi.Options(on_error="skip"))
    return [line for batch in tdi.DataLoader(lines, 2, distributed=True) for line in batch]


def test_a_probed_row_that_cannot_be_read_is_no_difference(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"".join(b"%d\n" % number for number in range(8)) + b"\xff\n")
    ranks = returned(run_ranks(good_lines, 2, str(path)))
    assert sorted(itertools.chain(*ranks)) == [str(number) for number in range(8)]


@pytest.mark.parametrize("drop_last", [False, True])
def test_parts_are_the_rows_of_the_stream_in_the_order_of_the_ranks(drop_last):
    for rows, batch, world in itertools.product((0, 1, 2, 5, 12, 13), (4, 6), (1, 2, 3)):
        shares = [StreamShare(range(rows), batch, world, rank, drop_last) for rank in range(world)]
        steps = list(itertools.zip_longest(*shares, fillvalue=[]))
        kept = rows // batch * batch if drop_last else rows
        assert [row for step in steps for part in step for row in part] == list(range(kept))
        assert {share.num_steps() for share in shares} == {len(steps)}
        assert all(max(map(len, step)) - min(map(len, step)) <= 1 for step in steps)
