# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Data and samplers that change while a `DataLoader` is in use: the next batch shows the change, as torch's does."""

import itertools
import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import multiprocessing
from torch.utils import data
from torch.utils.data import ConcatDataset, StackDataset, Subset, TensorDataset
from torch_datasets import IndexTensors

import torch_distinput as tdi

ROWS, BATCH = 60, 4


class World:
    """A dataset with all the parts that a program may change while a loader reads it."""

    def __init__(self, kind):
        self.tensor = torch.arange(ROWS * 2.0).reshape(ROWS, 2)
        self.array = np.arange(ROWS * 2.0).reshape(ROWS, 2)
        self.shared = torch.from_numpy(self.array)
        self.pair = TensorDataset(self.tensor, self.shared)
        self.subset = Subset(self.pair, list(range(ROWS)))
        self.half = Subset(self.pair, torch.arange(0, ROWS, 2))
        self.concat = ConcatDataset([self.half, Subset(self.pair, tuple(range(-ROWS // 2, 0)))])
        self.stack = StackDataset(a=self.subset, b=self.array, c=range(ROWS))
        self.dataset = {
            "tensor": self.tensor,
            "array": self.array,
            "TensorDataset": self.pair,
            "Subset": self.subset,
            "Subset of a Subset": Subset(self.subset, range(ROWS)),
            "Subset of a range": Subset(range(ROWS), self.subset.indices),
            "ConcatDataset": self.concat,
            "StackDataset": self.stack,
            "Python": IndexTensors(ROWS),
        }[kind]


KINDS = [
    "tensor",
    "array",
    "TensorDataset",
    "Subset",
    "Subset of a Subset",
    "Subset of a range",
    "ConcatDataset",
    "StackDataset",
    "Python",
]


def shift(values, rng):
    values += rng.randrange(1, 9)


def set_rows(world, rng):
    world.pair.tensors = (world.tensor + rng.randrange(9), world.shared.clone())


def fewer_rows(world, rng):
    world.pair.tensors = (world.tensor[: ROWS - rng.randrange(9)], world.shared)


def other_memory(world, rng):
    world.tensor.data = world.tensor.data.flip(0)


def resize(world, rng):
    if not world.tensor.is_shared():  # there torch itself crashes
        world.tensor.resize_(ROWS * 2, 2)[ROWS:] = 0


def set_batch_size(world, rng, loader):
    loader.batch_sampler.batch_size = rng.randrange(1, 9)


def edit_list(world, rng):
    world.subset.indices[rng.randrange(ROWS)] = rng.randrange(-ROWS, ROWS)


def set_indices(world, rng):
    world.subset.indices = [rng.randrange(ROWS) for _ in range(ROWS)]


def set_inner(world, rng):
    world.subset.dataset = TensorDataset(world.tensor, world.tensor)


def swap_parts(world, rng):
    world.concat.datasets.reverse()


CHANGES = {
    "write to a tensor": lambda world, rng: shift(world.tensor, rng),
    "write through .data": lambda world, rng: shift(world.tensor.data, rng),
    "write to an array": lambda world, rng: shift(world.array, rng),
    "write through .numpy()": lambda world, rng: shift(world.tensor.numpy(), rng),
    "set tensors": set_rows,
    "set fewer rows": fewer_rows,
    "set .data": other_memory,
    "share": lambda world, rng: world.tensor.share_memory_(),
    "resize": resize,
    "set indices": set_indices,
    "edit a list of indices": edit_list,
    "write to a tensor of indices": lambda world, rng: shift(world.half.indices[: ROWS // 4], rng),
    "set Subset.dataset": set_inner,
    "swap parts": swap_parts,
    "set a part": lambda world, rng: world.stack.datasets.__setitem__("b", world.array[::-1].copy()),
    "set the batch size": set_batch_size,
}


def run(cls, kind, seed, options, sampler=None):
    """The batches of an epoch with changes between them, and how it ended."""
    rng, world = random.Random(seed), World(kind)
    loader = cls(world.dataset, BATCH, sampler=None if sampler is None else sampler(), **options)
    batches, changes = [], []
    try:
        for batch in loader:
            batches.append(torch.utils._pytree.tree_map(torch.clone, batch))
            while rng.random() < 0.4:
                changes.append(rng.choice(sorted(CHANGES)))
                extra = (loader,) if changes[-1] == "set the batch size" else ()
                CHANGES[changes[-1]](world, rng, *extra)
    except Exception as error:  # noqa: BLE001 - torch's error must be the same
        return batches, changes, type(error)
    return batches, changes, None


def assert_same(ours, theirs):
    assert ours[1:] == theirs[1:]
    assert len(ours[0]) == len(theirs[0])
    for step, (one, other) in enumerate(zip(ours[0], theirs[0], strict=True)):
        torch.testing.assert_close(one, other, rtol=0, atol=0, msg=lambda text, step=step: f"batch {step}: {text}")


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 10**6), drop_last=st.booleans())
def test_the_next_batch_is_torchs(kind, seed, drop_last):
    options = {"drop_last": drop_last}
    assert_same(run(tdi.DataLoader, kind, seed, options), run(data.DataLoader, kind, seed, options))


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 10**6))
def test_the_next_batch_of_a_sampler_is_torchs(kind, seed):
    def sampler():
        return random.Random(seed).choices(range(-ROWS, ROWS), k=ROWS)

    assert_same(run(tdi.DataLoader, kind, seed, {}, sampler), run(data.DataLoader, kind, seed, {}, sampler))


@pytest.mark.parametrize("sampler", [None, range(ROWS)])
def test_an_array_that_is_resized_by_force_is_read_where_it_is(sampler):
    array = np.arange(ROWS)
    batches = iter(tdi.DataLoader(array, BATCH, sampler=sampler))
    first = next(batches)
    array.resize(1 << 20, refcheck=False)
    array.resize(ROWS, refcheck=False)
    assert torch.cat([first, *batches]).tolist() == list(range(ROWS))


def test_writes_of_another_process_show_in_the_next_batch():
    rows = torch.zeros(200).share_memory_()
    batches = iter(tdi.DataLoader(TensorDataset(rows), BATCH))
    for _ in range(5):
        assert next(batches)[0].eq(0).all()
    process = multiprocessing.get_context("fork").Process(target=rows.fill_, args=(5,))
    process.start()
    process.join(60)
    assert all(batch[0].eq(5).all() for batch in batches)


def test_writes_show_in_the_next_step_of_a_distributed_loader():
    rows = torch.zeros(4000)
    for step, (batch,) in enumerate(tdi.DataLoader(TensorDataset(rows), BATCH, distributed=True)):
        assert batch.eq(step).all()
        rows.numpy()[:] += 1


@pytest.mark.parametrize("options", [{"num_workers": 1}, {"prefetch_bytes": 1 << 20}])
def test_rows_are_read_ahead_where_the_user_allows_it(options):
    """Replaced tensors and indices show in the next batch nevertheless."""
    rows = torch.zeros(20_000)
    dataset = TensorDataset(rows)
    loader = tdi.DataLoader(dataset, BATCH, **options)
    assert "copied ahead by threads" in loader.explain()
    batches = iter(loader)
    for _ in range(5):
        assert next(batches)[0].eq(0).all()
    dataset.tensors = (rows + 1,)
    assert all(batch[0].eq(1).all() for batch in batches)


@pytest.mark.both_pools(slow=True)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("shuffle", [{}, {"shuffle": True}, {"shuffle": True, "seed": 3}, "generator", "sampler"])
@pytest.mark.parametrize("kind", ["TensorDataset", "Subset", "Python"])
def test_a_state_knows_the_rows_before_and_after_a_change_of_the_batch_size(kind, shuffle, workers):
    if shuffle == "generator":
        shuffle = {"shuffle": True, "generator": torch.Generator().manual_seed(2)}
    elif shuffle == "sampler":
        shuffle = {"sampler": data.RandomSampler(range(ROWS), generator=torch.Generator().manual_seed(2))}
    dataset = IndexTensors(ROWS) if kind == "Python" else TensorDataset(torch.arange(ROWS))
    if kind == "Subset":
        dataset = Subset(dataset, list(range(ROWS)))

    def rows(batch):
        return (batch if kind == "Python" else batch[0]).tolist()

    loader = tdi.DataLoader(dataset, BATCH, num_workers=workers, **shuffle)
    sizes, seen, states = [4, 4, 7, 2, 2, 9, 9, 5], [], []
    batches = iter(loader)
    for size in sizes:
        loader.batch_sampler.batch_size = size
        seen.append(rows(next(batches)))
        states.append(loader.state_dict())
    rest = [row for batch in batches for row in rows(batch)]
    assert sorted(sum(seen, rest)) == list(range(ROWS))
    if workers == 0:
        assert [len(batch) for batch in seen] == sizes
    for step, state in enumerate(states):
        other = tdi.DataLoader(dataset, 3, num_workers=workers, **shuffle)
        other.load_state_dict(state)
        left = [row for batch in other for row in rows(batch)]
        assert left == [*itertools.chain(*seen[step + 1 :]), *rest]


class Counting(data.Sampler):
    """A sampler that continues from its state."""

    at = 0

    def __iter__(self):
        while self.at < ROWS:
            self.at += 1
            yield self.at - 1
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


@pytest.mark.both_pools(slow=True)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["TensorDataset", "Python"])
def test_a_batch_size_that_was_set_does_not_end_a_sampler_with_a_state(kind, workers):
    dataset = IndexTensors(ROWS) if kind == "Python" else TensorDataset(torch.arange(ROWS))

    def make():
        return tdi.DataLoader(dataset, BATCH, sampler=Counting(), num_workers=workers)

    def rows(batch):
        return (batch if kind == "Python" else batch[0]).tolist()

    loader = make()
    batches = iter(loader)
    next(batches)
    for size in (2, 7, 3):
        loader.batch_sampler.batch_size = size
        last = rows(next(batches))[-1]
        resumed = make()
        resumed.load_state_dict(loader.state_dict())
        assert [row for batch in resumed for row in rows(batch)] == list(range(last + 1, ROWS))


@pytest.mark.parametrize("kind", ["TensorDataset", "Subset", "Python"])
@pytest.mark.parametrize("sampler", [None, "own"])
@pytest.mark.parametrize("drop_last", [False, True])
def test_a_batch_size_may_be_set_before_the_first_batch(kind, sampler, drop_last):
    def batches_of(cls):
        world = World(kind)
        loader = cls(world.dataset, BATCH, sampler=sampler and list(range(ROWS)), drop_last=drop_last)
        batches = iter(loader)
        loader.batch_sampler.batch_size = 7
        yield [next(batches), next(batches)]
        if cls is tdi.DataLoader:
            resumed = cls(world.dataset, 7, sampler=sampler and list(range(ROWS)), drop_last=drop_last)
            resumed.load_state_dict(loader.state_dict())
            batches = resumed
        yield list(batches)

    for ours, theirs in zip(batches_of(tdi.DataLoader), batches_of(data.DataLoader), strict=True):
        assert_same((ours,), (theirs,))


@pytest.mark.parametrize("kind", ["TensorDataset", "Python"])
@pytest.mark.parametrize("sizes", [[4], [4, 7], [4, 30], [4, 59], [1, 5, 54]])
@pytest.mark.parametrize("drop_last", [False, True])
def test_a_generator_is_drawn_from_as_by_torch(kind, sizes, drop_last):
    def draws(cls):
        generator = torch.Generator().manual_seed(5)
        dataset = IndexTensors(ROWS) if kind == "Python" else TensorDataset(torch.arange(ROWS))
        loader = cls(dataset, BATCH, shuffle=True, generator=generator, drop_last=drop_last)
        found, sizes_left = [], list(sizes)
        for _ in loader:
            found.append(generator.get_state().clone())
            if sizes_left:
                loader.batch_sampler.batch_size = sizes_left.pop(0)
        return [*found, generator.get_state()]

    ours, theirs = draws(tdi.DataLoader), draws(data.DataLoader)
    assert len(ours) == len(theirs)
    assert all(map(torch.equal, ours, theirs))


@pytest.mark.parametrize("kind", ["TensorDataset", "Python"])
def test_a_batch_size_that_is_none_is_refused(kind):
    loader = tdi.DataLoader(World(kind).dataset, BATCH)
    batches = iter(loader)
    next(batches)
    loader.batch_sampler.batch_size = 0
    with pytest.raises(ValueError, match="batch_size should be a positive integer value, but got batch_size=0"):
        next(batches)
