# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A loader that sought a step yields what it yields after the steps before it."""

import itertools

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from numbered_pipelines import CHAINS, has_random_access, rows
from ranks import returned, run_ranks
from torch.utils.data import Dataset, IterableDataset, WeightedRandomSampler

import torch_distinput as tdi


class Rows(Dataset):
    def __len__(self):
        return 17

    def __getitem__(self, row):
        return row


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(17))


def values(batches):
    return [batch.tolist() for batch in batches]


def loaders(kind):
    """Two loaders that yield the same."""
    arguments = {
        "native": lambda: {"dataset": torch.arange(17), "shuffle": True},
        "native in order": lambda: {"dataset": torch.arange(17), "drop_last": True},
        "torch's order": lambda: {"dataset": torch.arange(17), "shuffle": True, "order": "torch"},
        "python": lambda: {"dataset": Rows(), "shuffle": True},
        "workers": lambda: {"dataset": Rows(), "shuffle": True, "num_workers": 1},
        "sampler": lambda: {"dataset": Rows(), "sampler": WeightedRandomSampler([1.0] * 17, 17)},
        "stream": lambda: {"dataset": Stream()},
        "pipeline": lambda: {"dataset": tdi.Dataset.range(17).shuffle().map(lambda row: row.clone())},
        "sequential pipeline": lambda: {"dataset": tdi.Dataset.range(17).shuffle(4).filter(lambda row: row != 3)},
        "indices of ranks": lambda: {"dataset": Rows(), "shuffle": True, "distributed": True, "seed": 3},
        "rows of ranks": lambda: {"dataset": torch.arange(17), "shuffle": True, "distributed": True, "seed": 3},
        "stream of ranks": lambda: {"dataset": Stream(), "distributed": True},
    }[kind]
    made = []
    for _ in range(2):
        torch.manual_seed(1)
        made.append(tdi.DataLoader(batch_size=3, **arguments()))
    return made


KINDS = (
    "native",
    "native in order",
    "torch's order",
    "python",
    "workers",
    "sampler",
    "stream",
    "pipeline",
    "sequential pipeline",
    "indices of ranks",
    "rows of ranks",
    "stream of ranks",
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [0, 3, 5])
def test_a_loader_that_sought_a_step_goes_on_as_one_that_skipped_to_it(kind, step):
    whole, sought = loaders(kind)
    torch.manual_seed(2)
    expected = values(whole)
    torch.manual_seed(2)
    sought.seek(step)
    assert values(sought) == expected[step:]
    if "ranks" in kind:
        assert values(sought) == values(whole)


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_is_sought_within_an_epoch_that_has_begun(kind):
    whole, sought = loaders(kind)
    torch.manual_seed(2)
    expected = values(whole)
    torch.manual_seed(2)
    begun = values(itertools.islice(sought, 2))
    assert begun == expected[:2]
    sought.seek(4)
    state = sought.state_dict()
    assert values(sought) == expected[4:]
    sought.load_state_dict(state)
    assert values(sought) == expected[4:]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "stream" not in kind and "sequential" not in kind])
def test_an_earlier_step_is_sought(kind):
    whole, sought = loaders(kind)
    torch.manual_seed(2)
    expected = values(whole)
    torch.manual_seed(2)
    for _ in zip(range(4), sought, strict=False):
        pass
    sought.seek(1)
    assert values(sought) == expected[1:]


@given(CHAINS, st.integers(1, 4), st.booleans(), st.data())
def test_any_step_of_a_pipeline_is_sought(chain, batch, distributed, data):
    dataset = rows(chain)
    assume(has_random_access(dataset))
    loader = tdi.DataLoader(dataset, batch_size=batch, distributed=distributed or None, seed=4)
    expected = values(loader)
    loader.set_epoch(0)
    step = data.draw(st.integers(0, len(expected)))
    loader.seek(step)
    assert values(loader) == expected[step:]
    assert [loader.rows_of(0, at).tolist() for at in range(len(expected))] == expected


def seek_with_ranks(rank):
    fresh = tdi.DataLoader(Rows(), batch_size=2, shuffle=True, distributed=True)
    fresh.seek(1)
    assert len(values(fresh)) == len(fresh) - 1
    loader = tdi.DataLoader(Rows(), batch_size=2, shuffle=True, distributed=True)
    whole = values(loader)
    loader.set_epoch(0)
    loader.seek(1)
    return whole, values(loader)


def test_ranks_seek_together():
    for whole, rest in returned(run_ranks(seek_with_ranks, 3)):
        assert rest == whole[1:]


def test_a_step_beyond_the_end_is_refused():
    with pytest.raises(IndexError, match="seek: `step` must be at most 2"):
        tdi.DataLoader(range(4), batch_size=2).seek(3)


def test_a_stream_is_not_read_backwards():
    loader = tdi.DataLoader(Stream(), batch_size=2)
    for _ in zip(range(3), loader, strict=False):
        pass
    with pytest.raises(ValueError, match="seek: `step` must be at least 3"):
        loader.seek(1)
