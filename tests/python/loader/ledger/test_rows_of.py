# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The rows that the ledger names are those that are yielded: over pipelines, splits, tails, replicas and epochs."""

import gc
import weakref

import numpy
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from numbered_pipelines import BATCH_OPS, CHAINS, NUMBER, has_random_access, rows
from ranks import returned, run_ranks
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset, WeightedRandomSampler
from torch_datasets import Indices

import torch_distinput as tdi

TAILS = ("zero_rows", "padded", "repeat", "drop", "until_first", "merge")


@given(CHAINS, st.integers(1, 5), st.booleans(), st.sampled_from(sorted(BATCH_OPS)), NUMBER, st.integers(0, 3))
def test_the_ledger_of_a_pipeline_names_the_rows_of_each_element(chain, batch, drop, op, k, epoch):
    dataset = BATCH_OPS[op](rows(chain).batch(batch, drop_remainder=drop), k)
    assume(has_random_access(dataset))
    ledger = dataset._native.ledger(epoch, 7)
    yielded = [element.tolist() for element in dataset._native.iterate(epoch=epoch, seed=7)]
    assert [ledger.rows(step) for step in range(ledger.num_steps)] == yielded


@given(
    CHAINS,
    st.integers(1, 7),
    st.integers(1, 5),
    st.sampled_from(["tf", "balanced"]),
    st.sampled_from(TAILS),
    st.sampled_from(["none", "take", "skip", "repeat", "shuffle", "prefetch"]),
    st.integers(0, 2),
)
def test_the_ledger_of_replicas_names_the_rows_of_each_part(chain, batch, world, split, tail, op, epoch):
    dataset = BATCH_OPS[op](rows(chain).batch(batch), 1).with_options(tdi.Options(seed=3))
    assume(has_random_access(dataset))
    strategy = tdi.MirroredStrategy(["cpu"] * world)
    assigned = strategy.distribute_dataset(dataset, tdi.InputOptions(split=split, tail=tail))
    assigned.set_epoch(epoch)
    ledger = tdi.distribute._distributed.native_of(assigned).ledger(epoch)
    step = -1
    for step, parts in enumerate(assigned):
        values = parts.values if isinstance(parts, tdi.PerReplica) else (parts,)
        for replica, part in enumerate(values):
            named = ledger.rows(step, replica)
            if tail == "padded" and len(part) > len(named):
                part = part[: len(named)]
            assert named == part.tolist()
    assert ledger.num_steps == step + 1


def test_rows_of_several_sources_stand_side_by_side():
    left = tdi.Dataset.range(3).shuffle(seed=1)
    zipped = tdi.Dataset.zip((left, tdi.Dataset.range(10, 14))).batch(2)
    ledger = zipped._native.ledger(0)
    for step, (one, other) in enumerate(zipped):
        expected = [row for pair in zip(one.tolist(), (other - 10 + 3).tolist(), strict=True) for row in pair]
        assert ledger.rows(step) == expected


def test_a_packed_row_names_all_its_documents():
    lengths = [3, 1, 4, 1, 5, 9, 2]
    tokens = torch.nested.nested_tensor_from_jagged(torch.arange(25), torch.tensor([0, *lengths]).cumsum(0))
    packed = tdi.Dataset.from_tensor_slices(tokens).shuffle(seed=2).pack(5)
    owner = torch.repeat_interleave(torch.arange(7), torch.tensor(lengths))
    ledger = packed._native.ledger(0)
    for step, row in enumerate(packed):
        assert ledger.rows(step) == owner[row["tokens"]].unique_consecutive().tolist()


@pytest.mark.parametrize(("shuffle", "seed"), [(False, None), (True, None), (True, 5)])
@pytest.mark.parametrize("kind", ["tensor", "python", "workers", "subset"])
def test_a_loader_of_one_process_names_its_indices(kind, shuffle, seed):
    data = {"tensor": torch.arange(11), "subset": Subset(torch.arange(20, 40), list(range(11)))}.get(kind, Indices(11))
    workers = 1 if kind == "workers" else 0
    loader = tdi.DataLoader(data, batch_size=3, shuffle=shuffle, seed=seed, num_workers=workers)
    for epoch in range(2):
        for step, batch in enumerate(loader):
            assert loader.rows_of(epoch, step).tolist() == (batch - (20 if kind == "subset" else 0)).tolist()
    if seed is not None or not shuffle:
        later = [loader.rows_of(2, step).tolist() for step in range(4)]
        assert later == [(batch - (20 if kind == "subset" else 0)).tolist() for batch in loader]
    else:
        with pytest.raises(ValueError, match=r"rows_of: .*`seed`"):
            loader.rows_of(2, 0)


def test_the_rows_of_an_epoch_that_goes_on_from_a_state_are_named_from_its_begin():
    loader = tdi.DataLoader(torch.arange(11), batch_size=3, shuffle=True)
    seen = [batch.tolist() for _, batch in zip(range(2), loader, strict=False)]
    resumed = tdi.DataLoader(torch.arange(11), batch_size=3, shuffle=True)
    resumed.load_state_dict(loader.state_dict())
    seen += [batch.tolist() for batch in resumed]
    assert [resumed.rows_of(0, step).tolist() for step in range(4)] == seen


def data_of(kind):
    numbers = torch.arange(23)
    if kind == "pipeline":
        return tdi.Dataset.from_tensor_slices(numbers).shuffle().map(lambda row: row.clone())
    if kind == "concatenated":
        return ConcatDataset([TensorDataset(numbers[:9]), Subset(TensorDataset(numbers), list(range(9, 23)))])
    if kind == "columns":
        return TensorDataset(numbers, numbers * 2)
    if kind == "python":
        return tdi_python(numbers)
    return numbers.numpy() if kind == "numpy" else TensorDataset(numbers)


class tdi_python(Dataset):
    def __init__(self, numbers):
        self.numbers = numbers

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, row):
        return self.numbers[row]


def first_leaf(batch):
    return batch[0] if isinstance(batch, (list, tuple)) else batch


def read_with_ranks(rank, cases):
    results = []
    for kind, options, weighted in cases:
        data = data_of(kind)
        sampler = WeightedRandomSampler(torch.arange(1.0, 24), 17) if weighted else None
        loader = tdi.DataLoader(data, batch_size=3, distributed=True, sampler=sampler, **options)
        for epoch in range(2):
            yielded = [first_leaf(batch).tolist() for batch in loader]
            named = [loader.rows_of(epoch, step, rank).tolist() for step in range(len(loader))]
            results.append((kind, options, named, yielded))
    return results


@pytest.mark.parametrize("world", [1, 2, 3, 5])
def test_ranks_name_the_rows_that_each_of_them_yields(world):
    kinds = ("pipeline", "concatenated", "columns", "python", "numpy", "tensor")
    cases = []
    for i, kind in enumerate(kinds):
        for j, tail in enumerate(("zero_rows", "repeat", "drop", "merge")):
            options = {"tail": tail, "split": ("tf", "balanced")[(i + j) % 2]}
            if kind == "pipeline" or (i + j) % 3 > 0:
                options["seed"] = (None, 4)[j % 2]
            if kind != "pipeline":
                options["shuffle"] = (i + j) % 3 > 0
            cases.append((kind, options, False))
        if kind != "pipeline":
            cases.append((kind, {"seed": 3}, True))
    for result in returned(run_ranks(read_with_ranks, world, cases)):
        for kind, options, named, yielded in result:
            assert named == yielded, (kind, options)


def test_costs_that_exchange_rows_are_followed():
    costs = torch.tensor(numpy.random.default_rng(1).integers(1, 99, 24), dtype=torch.float64)
    loader = tdi.DataLoader(torch.arange(24), batch_size=8, distributed=True, shuffle=True, seed=1, balance=costs)
    yielded = [batch.tolist() for batch in loader]
    assert [loader.rows_of(0, step).tolist() for step in range(3)] == yielded


def test_an_op_without_random_access_is_named():
    loader = tdi.DataLoader(tdi.Dataset.range(9).filter(lambda row: row > 1), batch_size=2)
    with pytest.raises(ValueError, match="`filter` has no random access"):
        loader.rows_of(0, 0)


def test_a_sampler_of_the_users_is_named():
    sampler = WeightedRandomSampler([1.0] * 5, 5)
    with pytest.raises(ValueError, match="rows_of: a WeightedRandomSampler decides"):
        tdi.DataLoader(range(5), sampler=sampler).rows_of(0, 0)


@pytest.mark.parametrize("call", [(0, 9), (0, 0, 1)])
def test_steps_and_ranks_that_do_not_exist_are_refused(call):
    with pytest.raises(IndexError, match="must be at least 0 and less than"):
        tdi.DataLoader(range(5), distributed=True).rows_of(*call)


class Trainer:
    def __init__(self):
        self.dataset = tdi.Dataset.range(5).map(self.augment)
        self.loader = tdi.DataLoader(self.dataset, batch_size=2)

    def augment(self, row):
        return row + 1


def test_a_loader_that_was_asked_for_rows_is_garbage_with_its_functions():
    trainer = Trainer()
    trainer.loader.rows_of(0, 1)
    left = weakref.ref(trainer)
    del trainer
    gc.collect()
    assert left() is None
