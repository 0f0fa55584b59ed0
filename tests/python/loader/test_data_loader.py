# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`DataLoader`: paths, arguments and attributes. test_parity.py compares it with torch's."""

import copy
import inspect
import pickle

import numpy as np
import pytest
import torch
from torch.utils import data
from torch.utils.data import ConcatDataset, StackDataset, Subset, TensorDataset
from torch_datasets import Indices

import torch_distinput as tdi
from torch_distinput.loader.paths._batches import rows_of
from torch_distinput.loader.paths._native import OnDevice


class Squares(Indices):
    def __getitem__(self, index):
        return torch.tensor(index * index), index


class Batched(Squares):
    def __getitems__(self, indices):
        return [self[index] for index in indices]


def pairs(size=10):
    return TensorDataset(torch.arange(size), torch.arange(size * 2.0).reshape(size, 2))


def numbers(loader):
    """The first leaf of all rows."""
    return [row for batch in loader for row in (batch[0] if isinstance(batch, list) else batch).tolist()]


def test_the_signature_begins_with_torchs():
    ours = inspect.signature(tdi.DataLoader).parameters
    theirs = inspect.signature(data.DataLoader).parameters
    assert [name for name in ours if name in theirs] == list(theirs)
    for name, parameter in theirs.items():
        assert (ours[name].kind, ours[name].default) == (parameter.kind, parameter.default)
    assert all(parameter.kind == parameter.KEYWORD_ONLY for name, parameter in ours.items() if name not in theirs)


def test_it_is_torchs_class_with_torchs_attributes():
    loader = tdi.DataLoader(pairs(), 4)
    assert isinstance(loader, data.DataLoader)
    assert tdi.DataLoader[int]
    assert vars(data.DataLoader(pairs(), 4)).keys() <= vars(loader).keys()
    assert loader.batch_sampler.sampler is loader.sampler
    for name in inspect.signature(tdi.DataLoader).parameters:
        if name != "shuffle":
            assert hasattr(loader, name)


@pytest.mark.parametrize("name", ["batch_size", "sampler", "batch_sampler", "drop_last", "dataset", "seed"])
def test_what_is_fixed_cannot_be_set_later(name):
    loader = tdi.DataLoader(pairs(), shuffle=True)
    with pytest.raises(ValueError, match=f"{name} attribute should not be set after DataLoader is initialized"):
        setattr(loader, name, None)


@pytest.mark.parametrize(
    ("dataset", "path", "why"),
    [
        (pairs(), "native", "rows of a TensorDataset are copied at the time of the request"),
        (torch.arange(3), "native", "because a write to them leaves no trace; with `num_workers` or `prefetch_bytes`"),
        (np.arange(3), "native", "at the time of the request, because a write to them leaves no trace"),
        (Subset(pairs(), [1, 2]), "native", "rows of a Subset"),
        (ConcatDataset([pairs(), pairs()]), "native", "rows of a ConcatDataset"),
        (StackDataset(a=pairs(), b=torch.arange(10)), "native", "rows of a StackDataset"),
        (range(5), "native", "rows of a range are copied ahead by threads"),
        (tdi.Dataset.range(5), "native", "a pipeline of this library"),
        (Squares(), "per-sample Python", "rows of a Squares are made by Python; in the caller's thread"),
        (Batched(), "batched Python", "rows of a Batched are made by Python"),
        (Subset(Squares(), [1]), "batched Python", "rows of a Squares are made by Python"),
        (TensorDataset(torch.zeros(3, requires_grad=True)), "per-sample Python", "gradients"),
        (ConcatDataset([pairs(), torch.arange(3)]), "per-sample Python", "of several types"),
    ],
)
def test_explain_names_the_path(dataset, path, why):
    text = tdi.DataLoader(dataset).explain()
    assert f"path: {path}\n" in text and why in text


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"collate_fn": list}, "`collate_fn` is not torch's default"),
        ({"num_workers": 1, "worker_init_fn": print}, "`worker_init_fn` runs in worker processes; in 1 worker"),
        ({"num_workers": 2, "timeout": 5}, "`timeout` is about worker processes"),
        ({"num_workers": 1, "multiprocessing_context": "fork"}, "`multiprocessing_context` is about"),
        ({"batch_size": None}, "samples are not batched"),
    ],
)
def test_arguments_that_only_python_can_honour_choose_its_path(arguments, why):
    text = tdi.DataLoader(pairs(), **arguments).explain()
    assert "Python" in text and why in text


def test_types_that_were_added_to_torchs_collate_are_honoured():
    registry = data._utils.collate.default_collate_fn_map
    loader = tdi.DataLoader(torch.arange(4), 2)
    before = dict(registry)
    registry[torch.Tensor] = lambda batch, collate_fn_map: "mine"
    try:
        assert list(loader) == ["mine", "mine"]
    finally:
        registry.clear()
        registry.update(before)
    assert numbers(loader) == [0, 1, 2, 3]


def test_functions_that_were_replaced_are_honoured(monkeypatch):
    dataset = pairs()
    loader = tdi.DataLoader(Subset(dataset, [1, 2]), 2)
    monkeypatch.setattr(TensorDataset, "__getitem__", lambda self, index: f"mine {index}")
    assert list(loader) == [["mine 1", "mine 2"]]
    monkeypatch.undo()
    assert numbers(loader) == [1, 2]
    dataset.__getitems__ = lambda indices: ["whole"] * len(indices)
    assert list(tdi.DataLoader(dataset, 5)) == [["whole"] * 5] * 2


def test_with_native_rows_workers_are_threads():
    loader = tdi.DataLoader(pairs(1000), 10, num_workers=2)
    iterator = iter(loader)
    assert list(iterator._workers) == []
    assert numbers(iterator) == list(range(1000))


@pytest.mark.parametrize("workers", [0, 2])
def test_persistent_iterators_are_reset(workers):
    loader = tdi.DataLoader(pairs(), 3, num_workers=workers, persistent_workers=workers > 0)
    first, second = iter(loader), iter(loader)
    assert (first is second) == (workers > 0)
    for _ in range(3):
        assert numbers(loader) == list(range(10))


def test_writes_to_the_rows_are_seen_by_the_next_batch():
    rows = torch.zeros(1000)
    for step, batch in enumerate(tdi.DataLoader(TensorDataset(rows), 10)):
        assert batch[0].eq(step).all()
        rows += 1


def test_writes_to_an_array_are_seen_by_the_next_batch():
    rows = np.zeros(1000)
    for step, batch in enumerate(tdi.DataLoader(rows, 10)):
        assert batch.eq(step).all()
        rows += 1


def test_replaced_tensors_are_read_in_the_next_epoch():
    dataset = pairs()
    loader = tdi.DataLoader(dataset, 5)
    assert numbers(loader) == list(range(10))
    dataset.tensors = (torch.arange(3), torch.zeros(3))
    assert numbers(loader) == [0, 1, 2]


def test_the_same_seed_of_torch_gives_the_same_order_and_each_epoch_another():
    def orders():
        torch.manual_seed(7)
        loader = tdi.DataLoader(pairs(100), 8, shuffle=True)
        return [numbers(loader) for _ in range(3)]

    first, second = orders(), orders()
    assert first == second
    assert len({tuple(order) for order in first}) == 3
    assert all(sorted(order) == list(range(100)) for order in first)


@pytest.mark.parametrize("dataset", [pairs(50), Squares(50)])
def test_an_own_seed_orders_rows_by_epoch_alone(dataset):
    def epochs():
        return [numbers(loader) for loader in [tdi.DataLoader(dataset, 8, shuffle=True, seed=3)] for _ in range(2)]

    first, second = epochs(), epochs()
    assert first == second and first[0] != first[1]
    loader = tdi.DataLoader(dataset, 8, shuffle=True, seed=3)
    loader.set_epoch(1)
    assert numbers(loader) == first[1]


def test_native_and_python_rows_have_one_order_under_a_seed():
    def order(dataset):
        return [row for batch in tdi.DataLoader(dataset, 8, shuffle=True, seed=3) for row in batch[1].tolist()]

    assert order(TensorDataset(torch.zeros(50), torch.arange(50))) == order(Squares(50))


def test_datasets_of_this_library():
    ds = tdi.Dataset.from_tensor_slices({"x": torch.arange(10), "s": [str(i) for i in range(10)]}).shuffle()
    loader = tdi.DataLoader(ds, 4)
    assert len(loader) == 3 and loader.cardinality() == 3
    batches = list(loader)
    assert sorted(int(x) for batch in batches for x in batch["x"]) == list(range(10))
    assert [len(batch["s"]) for batch in batches] == [4, 4, 2]
    assert [batch["s"] for batch in loader] != [batch["s"] for batch in loader]
    assert numbers(tdi.DataLoader(tdi.Dataset.range(5).batch(2), batch_size=None)) == list(range(5))
    assert type(next(iter(tdi.DataLoader(tdi.Dataset.zip((ds, ds)), 2)))) is list


def test_a_batched_dataset_needs_no_batch_size():
    with pytest.raises(ValueError, match="has batches of 4 rows already; pass `batch_size=None`"):
        tdi.DataLoader(tdi.Dataset.range(9).batch(4))
    with pytest.raises(ValueError, match="expected unspecified shuffle option"):
        tdi.DataLoader(tdi.Dataset.range(9), shuffle=True)


def test_a_dataset_of_this_library_follows_torchs_seed():
    ds = tdi.Dataset.range(50).shuffle()

    def order():
        torch.manual_seed(1)
        return numbers(tdi.DataLoader(ds, 7))

    assert order() == order()


def doubled_and_itself(x):
    return x * 2, x


def doubled_numbers(rows):
    return [x.item() for x, _ in rows]


@pytest.mark.both_pools
@pytest.mark.parametrize("workers", [0, 2])
def test_python_pipelines_and_functions_work(workers):
    ds = tdi.Dataset.range(20).map(doubled_and_itself)
    loader = tdi.DataLoader(ds, 4, num_workers=workers)
    assert numbers(loader) == list(range(0, 40, 2))
    shares = tdi.DataLoader(ds, 4, num_workers=workers, collate_fn=doubled_numbers)
    assert sorted(x for batch in shares for x in batch) == list(range(0, 40, 2))


def test_a_seed_without_anything_to_order_is_refused():
    with pytest.raises(ValueError, match="`seed` orders the rows of `shuffle=True`"):
        tdi.DataLoader(pairs(), seed=3)
    with pytest.raises(ValueError, match="`prefetch_bytes` needs `num_workers` here, where Python makes the rows"):
        iter(tdi.DataLoader(Squares(), prefetch_bytes=100))


def test_cardinality():
    assert tdi.DataLoader(pairs(), 3).cardinality() == 4
    assert tdi.DataLoader(tdi.Dataset.range(3).repeat()).cardinality() == tdi.INFINITE
    assert tdi.DataLoader(tdi.Dataset.range(3).filter(lambda x: True)).cardinality() == tdi.UNKNOWN


def test_copies_and_pickles_are_loaders_of_their_own():
    loader = tdi.DataLoader(pairs(), 3, shuffle=True, seed=1)
    first = numbers(loader)
    iterator = iter(loader)
    next(iterator)
    for other in (copy.copy(loader), pickle.loads(pickle.dumps(loader))):
        assert numbers(other) not in (first, [])
    clone = object.__new__(tdi.DataLoader)
    clone.__dict__.update(loader.__dict__)
    assert len(numbers(clone)) == 10
    with pytest.raises(NotImplementedError):
        pickle.dumps(iterator)


def test_profilers_see_the_loader():
    with torch.profiler.profile() as profile:
        list(tdi.DataLoader(pairs(), 5))
        list(tdi.DataLoader(Squares(), 5))
    names = [event.name for event in profile.events() if event.name.startswith("enumerate(DataLoader)#")]
    assert names == ["enumerate(DataLoader)#RowsIter.__next__"] * 3 + ["enumerate(DataLoader)#CallerIter.__next__"] * 3


def test_pinning_without_an_accelerator_warns_as_torch_does():
    with pytest.warns(UserWarning, match="'pin_memory' argument is set as true but no accelerator is found"):
        assert numbers(tdi.DataLoader(pairs(), 5, pin_memory=True)) == list(range(10))


@pytest.mark.both_pools
@pytest.mark.parametrize("dataset", [pairs(1000), Squares(1000), tdi.Dataset.range(1000)])
@pytest.mark.parametrize("arguments", [{}, {"num_workers": 1}, {"distributed": True}])
def test_close_and_the_context_manager(dataset, arguments):
    with tdi.DataLoader(dataset, 5, **arguments) as loader:
        iterator = iter(loader)
        next(iterator)
    with pytest.raises((StopIteration, tdi.FailedPreconditionError)):
        next(iterator)
    assert sum(len(batch) if isinstance(batch, torch.Tensor) else len(batch[0]) for batch in loader) == 1000


def test_batches_can_go_through_a_device():
    """The path of accelerators, on the CPU, the one device that every machine has."""
    source = tdi._C.Dataset.from_tensor_slices((torch.arange(10),)).batch(4)
    steps = OnDevice(source, torch.device("cpu"), epoch=0, seed=None)
    assert [next(steps)[0].tolist() for _ in range(3)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    with pytest.raises(StopIteration):
        next(steps)


def test_a_device_that_does_not_exist_is_refused():
    assert tdi.DataLoader(pairs(), device="cpu").device == "cpu"
    for distributed in (None, True):
        with pytest.raises(ValueError, match="^DataLoader: `device` is 'cuda:7': device 'cuda:7' does not exist"):
            tdi.DataLoader(pairs(), device="cuda:7", distributed=distributed)
    with pytest.raises(TypeError, match=r"^DataLoader: `device` must be a torch.device or its name, but is \[1\]"):
        tdi.DataLoader(pairs(), device=[1])


def test_the_rows_of_a_batch_without_tensors_are_those_of_its_first_list():
    assert rows_of({"names": ["a", "b", "c"], "x": 1}) == 3
    assert rows_of(torch.Size([2, 3])) == 2
    assert rows_of("abc") == 1
