# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`DataLoader(order="torch")`: exactly the batches and draws of torch's class, also of native rows."""

import numpy as np
import pytest
import torch
from torch.utils import data
from torch.utils.data import ConcatDataset, RandomSampler, StackDataset, Subset, TensorDataset

import torch_distinput as tdi

SIZE = 23
SOURCES = {
    "tensor": lambda: torch.arange(SIZE),
    "tensors": lambda: TensorDataset(torch.arange(SIZE), torch.rand(SIZE, 2, generator=torch.Generator())),
    "array": lambda: np.arange(SIZE, dtype=np.float32),
    "range": lambda: range(SIZE),
    "subset": lambda: Subset(TensorDataset(torch.arange(50)), list(range(3, 3 + SIZE))),
    "concatenated": lambda: ConcatDataset([TensorDataset(torch.arange(10)), TensorDataset(torch.arange(13))]),
    "stacked": lambda: StackDataset(a=torch.arange(SIZE), b=range(SIZE)),
    "Python": lambda: [torch.tensor(i) for i in range(SIZE)],
}
ARGUMENTS = {
    "plain": lambda: {},
    "drop_last": lambda: {"drop_last": True},
    "generator": lambda: {"generator": torch.Generator().manual_seed(5)},
    "threads": lambda: {"num_workers": 2},
    "threads and a generator": lambda: {"num_workers": 1, "generator": torch.Generator().manual_seed(5)},
    "ahead": lambda: {"prefetch_bytes": 1 << 20},
}


def text(batches):
    return [str(batch) for batch in batches]


def run(cls, source, options, epochs=2, **more):
    """Two epochs and one that is left, and the draws that the program makes then."""
    torch.manual_seed(3)
    if cls is data.DataLoader:
        options = {name: value for name, value in options.items() if name != "prefetch_bytes"} | {"num_workers": 0}
    loader = cls(source, batch_size=4, **options, **more)
    found = [text(loader) for _ in range(epochs)]
    iterator = iter(loader)
    found.append(text([next(iterator), next(iterator)]))
    generator = options.get("generator")
    own = None if generator is None else torch.rand(2, generator=generator).tolist()
    return found, torch.rand(2).tolist(), own


@pytest.mark.parametrize("arguments", ARGUMENTS)
@pytest.mark.parametrize("source", SOURCES)
def test_batches_and_draws_are_torchs(source, arguments):
    if source == "Python" and "ahead" in arguments:
        pytest.skip("there are no native rows to read ahead")
    rows = SOURCES[source]()
    ours = run(tdi.DataLoader, rows, ARGUMENTS[arguments](), shuffle=True, order="torch")
    assert ours == run(data.DataLoader, rows, ARGUMENTS[arguments](), shuffle=True)
    loader = tdi.DataLoader(rows, 4, shuffle=True, order="torch")
    assert source == "Python" or ("path: native" in loader.explain() and "in torch's order" in loader.explain())


def test_a_random_sampler_is_in_torchs_order_too():
    rows = TensorDataset(torch.arange(SIZE))
    for options in ({}, {"replacement": True}, {"num_samples": 40}, {"replacement": True, "num_samples": 7}):
        found = []
        for cls, order in ((tdi.DataLoader, {"order": "torch"}), (data.DataLoader, {})):
            sampler = RandomSampler(rows, generator=torch.Generator().manual_seed(2), **options)
            found.append(run(cls, rows, {}, sampler=sampler, **order))
        assert found[0] == found[1]


def test_without_a_shuffle_nothing_changes():
    assert text(tdi.DataLoader(torch.arange(5), 2, order="torch")) == text(data.DataLoader(torch.arange(5), 2))


@pytest.mark.parametrize("after", [0, 1, 3, 6])
@pytest.mark.parametrize("options", [{}, {"num_workers": 2}, {"generator": 5}])
def test_a_restored_loader_goes_on_in_torchs_order(options, after):
    def make(cls, **more):
        given = dict(options)
        if "generator" in given:
            given["generator"] = torch.Generator().manual_seed(5)
        if cls is data.DataLoader:
            given.pop("num_workers", None)
        return cls(TensorDataset(torch.arange(SIZE)), 4, shuffle=True, **given, **more)

    torch.manual_seed(3)
    theirs = make(data.DataLoader)
    expected = [text(theirs), text(theirs)]
    torch.manual_seed(3)
    loader = make(tdi.DataLoader, order="torch")
    iterator = iter(loader)
    begun = text([next(iterator) for _ in range(after)])
    state = loader.state_dict()
    torch.manual_seed(99)
    restored = make(tdi.DataLoader, order="torch")
    restored.load_state_dict(state)
    assert begun + text(restored) == expected[0]
    assert text(restored) == expected[1]


def test_a_state_belongs_to_the_order_that_it_was_saved_in():
    rows = TensorDataset(torch.arange(SIZE))
    torchs, ours = (tdi.DataLoader(rows, 4, shuffle=True, order=order) for order in ("torch", None))
    for here, there in ((torchs, ours), (ours, torchs)):
        next(iter(here))
        with pytest.raises(ValueError, match="load_state_dict: `order` must be the loader's, "):
            there.load_state_dict(here.state_dict())
    damaged = torchs.state_dict()
    del damaged["torch_distinput.DataLoader"]["order"]
    with pytest.raises(ValueError, match="load_state_dict: `order` must be the loader's, 'torch', but is None"):
        torchs.load_state_dict(damaged)


def test_what_has_no_order_of_torchs_is_refused():
    rows = TensorDataset(torch.arange(SIZE))
    with pytest.raises(ValueError, match="DataLoader: `order` must be None or \"torch\", but is 'tf'"):
        tdi.DataLoader(rows, order="tf")
    with pytest.raises(ValueError, match='`order="torch"` excludes `seed`'):
        tdi.DataLoader(rows, shuffle=True, seed=1, order="torch")
    with pytest.raises(ValueError, match='`order="torch"` excludes `distributed`'):
        tdi.DataLoader(rows, shuffle=True, distributed=True, order="torch")
    with pytest.raises(ValueError, match='`order="torch"` excludes a dataset of this library'):
        tdi.DataLoader(tdi.Dataset.range(5), order="torch")


def stacked(rows):
    return [torch.stack([value for (value,) in rows])]


PATHS = {
    "native": {},
    "native with threads": {"num_workers": 2},
    "Python": {"collate_fn": stacked},
    "workers": {"collate_fn": stacked, "num_workers": 2},
}


@pytest.mark.parametrize("generator", [None, 5])
@pytest.mark.parametrize("there", PATHS)
@pytest.mark.parametrize("here", PATHS)
def test_the_rest_of_an_epoch_keeps_the_order_that_it_began_with(here, there, generator):
    """Native rows and rows that Python makes are drawn by different permutations; a state may go from one to the
    other."""

    def make(path):
        own = None if generator is None else torch.Generator().manual_seed(generator)
        return tdi.DataLoader(TensorDataset(torch.arange(SIZE)), 4, shuffle=True, generator=own, **PATHS[path])

    for after in (1, 3):
        torch.manual_seed(3)
        expected = text(make(here))
        torch.manual_seed(3)
        loader = make(here)
        iterator = iter(loader)
        begun = text([next(iterator) for _ in range(after)])
        restored = make(there)
        restored.load_state_dict(loader.state_dict())
        iterator = iter(restored)
        begun += text([next(iterator)])
        again = make(here)
        again.load_state_dict(restored.state_dict())
        assert begun + text(again) == expected
        torch.manual_seed(4)
        later = torch.cat([batch for (batch,) in again])
        assert later.sort().values.tolist() == list(range(SIZE))


def test_a_state_of_an_older_version_has_the_permutation_of_the_path_that_loads_it():
    loader = tdi.DataLoader(TensorDataset(torch.arange(SIZE)), 4, shuffle=True)
    iterator = iter(loader)
    begun, state = text([next(iterator)]), loader.state_dict()
    fields = state["torch_distinput.DataLoader"]
    assert fields.pop("permutation") == "native"
    fields["version"] = 2
    rest = text(iterator)
    loader.load_state_dict(state)
    assert text(loader) == rest and len(begun + rest) == 6
    fields |= {"permutation": "tf", "version": 3}
    with pytest.raises(ValueError, match="load_state_dict: `permutation` must be "):
        loader.load_state_dict(state)
