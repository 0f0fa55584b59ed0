# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Samplers that a subclass puts in the place of the constructor's, in a loader with `distributed`."""

import gc
import itertools
import weakref

import pytest
import torch
from ranks import returned, run_ranks
from torch.utils import data
from torch_datasets import IndexStream, IndexTensors

import torch_distinput as tdi


class Repeat:
    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        while True:
            yield from iter(self.sampler)


class InfiniteDataLoader(tdi.DataLoader):
    """As in yolov5's utils/dataloaders.py."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        object.__setattr__(self, "batch_sampler", Repeat(self.batch_sampler))
        self.iterator = super().__iter__()

    def __len__(self):
        return len(self.batch_sampler.sampler)

    def __iter__(self):
        for _ in range(len(self)):
            yield next(self.iterator)


class MultiEpochsDataLoader(tdi.DataLoader):
    """As in timm's data/loader.py."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._DataLoader__initialized = False
        if self.batch_sampler is None:
            self.sampler = Repeat(self.sampler)
        else:
            self.batch_sampler = Repeat(self.batch_sampler)
        self._DataLoader__initialized = True
        self.iterator = super().__iter__()

    def __len__(self):
        return len(self.sampler) if self.batch_sampler is None else len(self.batch_sampler.sampler)

    def __iter__(self):
        for _ in range(len(self)):
            yield next(self.iterator)


def steps_of(batches):
    return [batch.tolist() for batch in batches]


def repeated(rank, kind, dataset, arguments, epochs=3):
    loader = kind(dataset, batch_size=4, distributed=True, **arguments)
    seen = []
    for _ in range(epochs):
        steps, infos = [], []
        for batch in loader:
            torch.distributed.all_reduce(torch.zeros(1))  # as DDP in each step: no rank may run ahead of the others
            steps.append(batch.tolist())
            infos.append((loader.last_info.epoch, loader.last_info.step, loader.last_info.valid[0]))
        seen.append((steps, infos))
    return seen, loader.explain()


@pytest.mark.parametrize("kind", [InfiniteDataLoader, MultiEpochsDataLoader])
@pytest.mark.parametrize("arguments", [{}, {"num_workers": 2}, {"shuffle": True}, {"shuffle": True, "num_workers": 1}])
@pytest.mark.parametrize("size", [33, 40])
def test_an_iterator_over_epochs_delivers_each_row_once_an_epoch(kind, arguments, size):
    dataset = IndexTensors(size) if arguments.get("num_workers") else torch.arange(size)
    results = returned(run_ranks(repeated, 2, kind, dataset, arguments, may_fork=True))
    orders = []
    for epoch, parts in enumerate(zip(*(seen for seen, _ in results))):
        assert len({len(steps) for steps, _ in parts}) == 1 and len(parts[0][0]) == 5
        rows = [row for steps, _ in parts for step in steps for row in step]
        assert sorted(rows) == list(range(size))
        orders.append(rows)
        for steps, infos in parts:
            assert infos == [(epoch, step, len(rows)) for step, rows in enumerate(steps)]
    assert (orders[0] == orders[1]) == ("shuffle" not in arguments)
    assert "a Repeat around the loader's batch sampler reads them" in results[0][1]


def with_a_last_step_for_one(rank, kind):
    return repeated(rank, kind, IndexTensors(9), {"num_workers": 2, "tail": "zero_rows", "shuffle": True, "seed": 3})[0]


def test_no_rank_runs_into_the_next_epoch_while_others_are_in_this_one():
    for parts in zip(*returned(run_ranks(with_a_last_step_for_one, 2, InfiniteDataLoader, may_fork=True))):
        assert [len(step) for step in parts[1][0]] == [4, 0]
        assert sorted(row for steps, _ in parts for step in steps for row in step) == list(range(9))


@pytest.mark.parametrize("split", ["balanced", "tf"])
@pytest.mark.parametrize("tail", ["merge", "padded", "repeat", "drop", "until_first"])
def test_every_tail_is_that_of_a_loader_without_the_exchange(split, tail):
    arguments = {"shuffle": True, "seed": 5, "tail": tail, "split": split}
    loaders = [
        kind(IndexTensors(11), 4, distributed=True, **arguments) for kind in (tdi.DataLoader, MultiEpochsDataLoader)
    ]
    expected, seen = ([steps_of(loader) for _ in range(2)] for loader in loaders)
    assert seen == expected


def test_set_epoch_decides_about_the_next_epoch_of_an_endless_iterator():
    loader = InfiniteDataLoader(torch.arange(10), 4, shuffle=True, seed=3, distributed=True)
    plain = tdi.DataLoader(torch.arange(10), 4, shuffle=True, seed=3, distributed=True)
    for epoch in (0, 4, 2):
        for one in (loader.sampler, plain):
            one.set_epoch(epoch)
        assert steps_of(loader) == steps_of(plain)


def test_a_position_in_a_later_epoch_is_one_of_that_epoch():
    loader = InfiniteDataLoader(IndexTensors(10), 4, shuffle=True, seed=3, distributed=True)
    rows = [batch.tolist() for _ in range(3) for batch in loader]
    again = InfiniteDataLoader(IndexTensors(10), 4, shuffle=True, seed=3, distributed=True)
    list(again), next(iter(again))
    assert again.stats().batches == 4
    plain = tdi.DataLoader(IndexTensors(10), 4, shuffle=True, seed=3, distributed=True)
    plain.load_state_dict(again.state_dict())
    assert steps_of(plain) == rows[4:6] and steps_of(plain) == rows[6:]


class Resetting(InfiniteDataLoader):
    """As in ultralytics' data/build.py."""

    def reset(self):
        self.iterator = self._get_iterator()


def resetting(rank):
    loader = Resetting(IndexTensors(10), 4, shuffle=True, seed=1, distributed=True, num_workers=rank)
    before = steps_of(loader)
    loader.reset()
    return before, steps_of(loader)


def test_an_iterator_that_a_subclass_makes_anew_is_distributed():
    for parts in zip(*returned(run_ranks(resetting, 2, may_fork=True))):
        assert sorted(row for steps in parts for step in steps for row in step) == list(range(10))


@pytest.mark.parametrize("workers", [0, 1])
def test_an_endless_iterator_ends_with_its_last_reference(workers):
    loader = tdi.DataLoader(IndexTensors(10), 4, distributed=True, num_workers=workers)
    object.__setattr__(loader, "batch_sampler", Repeat(loader.batch_sampler))
    iterator = iter(loader)
    assert steps_of(next(iterator) for _ in range(4))[-1] == [0, 1, 2, 3]
    steps, processes = weakref.ref(iterator), list(iterator._workers)
    gc.disable()
    try:
        del iterator
        assert steps() is None and len(processes) == workers
        del loader  # keeps the workers, as torch's with persistent ones does
        assert not any(process.is_alive() for process in processes)
    finally:
        gc.enable()


class Own:
    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)


def with_its_own(rank, exchange):
    loader = tdi.DataLoader(IndexTensors(20), batch_size=4, distributed=True)
    exchange(loader, rank)
    return steps_of(loader), str(loader.explain())


def batches_of_a_rank(loader, rank):
    object.__setattr__(loader, "batch_sampler", Own([[rank, rank + 2], [4 + rank]]))


def sampler_below(loader, rank):
    loader.batch_sampler.sampler = range(rank, 16, 2)


@pytest.mark.parametrize(
    ("exchange", "expected"), [(batches_of_a_rank, [[[0, 2], [4]], [[1, 3], [5]]]), (sampler_below, None)]
)
def test_a_sampler_of_a_ranks_own_that_was_set_later_is_read(exchange, expected):
    results = returned(run_ranks(with_its_own, 2, exchange))
    expected = expected or [[list(range(r + i, min(r + i + 8, 16), 2)) for i in (0, 8)] for r in (0, 1)]
    assert [steps for steps, _ in results] == expected
    assert all("was set after the constructor" in text for _, text in results)


def test_a_sampler_that_is_exchanged_after_explain_is_read():
    loader = tdi.DataLoader(IndexTensors(6), batch_size=4, distributed=True)
    assert "set after" not in loader.explain() and len(loader) == 2
    loader.__dict__["batch_sampler"] = Own([[1], [2, 3]])
    assert steps_of(loader) == [[1], [2, 3]]


def test_a_sampler_without_batches_that_is_exchanged_is_read():
    loader = tdi.DataLoader(IndexTensors(6), batch_size=None, sampler=range(6), distributed=True)
    loader.__dict__["sampler"] = range(2, 4)
    assert [int(row) for row in loader] == [2, 3]


@pytest.mark.parametrize(
    ("dataset", "name", "value", "message"),
    [
        (IndexTensors(6), "sampler", Own([0, 1]), "`sampler` was exchanged for a Own .* the batch sampler is read"),
        (
            IndexStream(6),
            "batch_sampler",
            Own([[0]]),
            "`batch_sampler` was exchanged for a Own .* read in its own order",
        ),
        (tdi.Dataset.range(6), "batch_sampler", Own([[0]]), "`batch_sampler` was exchanged for a Own"),
        (
            IndexTensors(6),
            "batch_sampler",
            data.BatchSampler(data.DistributedSampler(range(6), 2, 0), 2, False),
            "`batch_sampler` was exchanged for a BatchSampler .* leave the DistributedSampler out",
        ),
    ],
)
def test_what_would_have_no_effect_is_refused_by_name(dataset, name, value, message):
    loader = tdi.DataLoader(dataset, batch_size=2, distributed=True)
    object.__setattr__(loader, name, value)
    for ask in (iter, tdi.DataLoader.explain, tdi.DataLoader.state_dict):
        with pytest.raises(ValueError, match=message):
            ask(loader)


class Reversing(Repeat):
    def __iter__(self):
        return (list(reversed(batch)) for batch in self.sampler)


class Leaving(Repeat):
    def __iter__(self):
        return itertools.islice(self.sampler, 1)


class Greedy(Repeat):
    def __iter__(self):
        return iter([*self.sampler, *self.sampler])


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Reversing, r"a Reversing around .* but it yielded \[1, 0\]"),
        (Leaving, "a Leaving .* ended before the epoch did"),
        (Greedy, "a Greedy .* asked for the next epoch before"),
    ],
)
def test_a_wrapper_that_changes_what_it_reads_is_refused_by_name(kind, message):
    loader = tdi.DataLoader(IndexTensors(6), batch_size=2, distributed=True)
    object.__setattr__(loader, "batch_sampler", kind(loader.batch_sampler))
    with pytest.raises(ValueError, match=message):
        list(loader)


def without_rows(rank):
    loader = InfiniteDataLoader(IndexTensors(1), batch_size=2, distributed=True, peer_timeout=20)
    return [steps_of(loader) for _ in range(2)]


def test_a_rank_that_never_has_rows_does_not_repeat_epochs_for_ever():
    results = run_ranks(without_rows, 2)
    assert isinstance(results[1], ValueError) and "in which this rank has no rows" in str(results[1])
    assert isinstance(results[0], tdi.DistributedDatasetError)
