# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Subclasses written for torch's class, with attributes, properties and methods that have the names of our own."""

import copy
import json
import pickle

import pytest
import torch
from torch.utils import data
from torch.utils.data import TensorDataset
from torch_datasets import IndexStream, IndexTensors

import torch_distinput as tdi
from torch_distinput.frameworks._distribute import distributed_copy
from torch_distinput.monitoring import Meter

SIZE = 10
ARGUMENTS = [
    "distributed",
    "global_batch_size",
    "device",
    "split",
    "tail",
    "seed",
    "with_info",
    "prefetch_bytes",
    "peer_timeout",
    "snapshot_every_n_steps",
]
OURS = sorted(name for name in vars(tdi.DataLoader) if not name.startswith("_"))
TORCHS = set(vars(data.DataLoader)) | set(vars(data.DataLoader(range(2))))
NEW = [name for name in OURS if name not in TORCHS]


LOADERS = {
    "native": lambda: (torch.arange(SIZE), {"shuffle": True}),
    "native ahead": lambda: (TensorDataset(torch.arange(SIZE)), {"prefetch_bytes": 1000}),
    "at indices": lambda: (torch.arange(SIZE), {"sampler": data.SubsetRandomSampler(range(SIZE))}),
    "python": lambda: (IndexTensors(SIZE), {"shuffle": True, "seed": 3}),
    "workers": lambda: (IndexTensors(SIZE), {"num_workers": 1}),
    "stream": lambda: (IndexStream(SIZE), {}),
    "pipeline": lambda: (tdi.Dataset.range(SIZE).shuffle(), {"seed": 4}),
    "distributed": lambda: (torch.arange(SIZE), {"shuffle": True, "distributed": True}),
    "distributed rows": lambda: (IndexTensors(SIZE), {"shuffle": True, "distributed": True, "tail": "merge"}),
    "distributed stream": lambda: (IndexStream(SIZE), {"distributed": True}),
    "distributed pipeline": lambda: (tdi.Dataset.range(SIZE), {"distributed": True}),
}


class Forbidden:
    """A name that must not be read: also an attribute of a subclass, such as a property that needs its constructor."""

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, loader, owner):
        if loader is None:
            return self
        raise AssertionError(f"the library read `{self.name}`")


def rows_of(loader):
    return sorted(int(row) for batch in loader for row in (batch[0] if isinstance(batch, list) else batch))


def test_the_names_beside_torchs_are_these():
    assert set(ARGUMENTS) < set(NEW)
    assert {"stats", "explain", "verdict", "close", "cardinality", "global_valid", "last_info"} < set(NEW)


@pytest.mark.parametrize("kind", LOADERS)
def test_the_library_reads_none_of_its_public_names(kind):
    dataset, arguments = LOADERS[kind]()
    theirs = type("Theirs", (tdi.DataLoader,), {name: Forbidden() for name in NEW})
    loader = theirs(dataset, batch_size=4, **arguments)
    assert rows_of(loader) == list(range(SIZE))
    assert rows_of(copy.copy(loader)) == list(range(SIZE))
    tdi.DataLoader.explain(loader), tdi.DataLoader.cardinality(loader), tdi.DataLoader.verdict(loader)
    position = tdi.DataLoader.state_dict(loader)
    tdi.DataLoader.load_state_dict(loader, position)
    assert rows_of(loader) == list(range(SIZE))
    tdi.DataLoader.close(loader)


@pytest.mark.parametrize("name", NEW)
@pytest.mark.parametrize("kind", ["native", "workers", "distributed rows"])
def test_an_attribute_set_before_the_constructor_stays(kind, name):
    class Theirs(tdi.DataLoader):
        def __init__(self, dataset, value, **arguments):
            setattr(self, name, value)
            super().__init__(dataset, batch_size=4, **arguments)

    dataset, arguments = LOADERS[kind]()
    loader = Theirs(dataset, "theirs", **arguments)
    assert getattr(loader, name) == "theirs"
    assert rows_of(loader) == list(range(SIZE))
    assert getattr(copy.copy(loader), name) == "theirs"


@pytest.mark.parametrize("name", NEW)
@pytest.mark.parametrize("kind", ["native", "workers", "distributed rows"])
def test_an_attribute_set_after_the_constructor_stays(kind, name):
    class Theirs(tdi.DataLoader):
        def __init__(self, dataset, value, **arguments):
            super().__init__(dataset, batch_size=4, **arguments)
            setattr(self, name, value)

    dataset, arguments = LOADERS[kind]()
    loader = Theirs(dataset, "theirs", **arguments)
    assert getattr(loader, name) == "theirs"
    assert rows_of(loader) == list(range(SIZE))
    with loader:
        assert rows_of(loader) == list(range(SIZE))


@pytest.mark.parametrize("name", NEW)
def test_a_property_or_a_class_attribute_of_a_subclass_stays(name):
    for value in (property(lambda self: "theirs"), "theirs"):
        kind = type("Theirs", (tdi.DataLoader,), {name: value})
        loader = kind(IndexTensors(SIZE), batch_size=4, shuffle=True, seed=3)
        assert getattr(loader, name) == "theirs"
        assert rows_of(loader) == list(range(SIZE))


def test_a_subclass_with_its_own_seed_has_the_order_of_the_argument():
    class Theirs(tdi.DataLoader):
        seed = 99

    orders = [[batch.tolist() for batch in kind(range(SIZE), 4, True, seed=3)] for kind in (Theirs, tdi.DataLoader)]
    assert orders[0] == orders[1]


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_are_shown_and_found_among_the_attributes(name):
    loader = tdi.DataLoader(range(SIZE), 4, shuffle=True, distributed=True, seed=3, tail="padded")
    assert vars(loader)[name] == getattr(loader, name)
    assert (loader.seed, loader.tail, loader.split, loader.peer_timeout) == (3, "padded", "balanced", 300.0)


def test_a_subclass_whose_constructor_is_torchs_has_the_defaults():
    class Theirs(tdi.DataLoader):
        def __init__(self, dataset):
            data.DataLoader.__init__(self, dataset, 4)

    loader = Theirs(range(SIZE))
    assert (loader.seed, loader.tail, loader.device, loader.distributed) == (None, "zero_rows", None, None)
    assert rows_of(loader) == list(range(SIZE))


class Kept(tdi.DataLoader):
    def __init__(self, dataset, split):
        self.split = split
        super().__init__(dataset, batch_size=4)
        self.device = torch.device("meta")


def test_a_pickle_keeps_what_is_the_subclasss():
    loader = pickle.loads(pickle.dumps(Kept(torch.arange(SIZE), "train")))
    assert (loader.split, loader.device, loader.tail) == ("train", torch.device("meta"), "zero_rows")
    assert rows_of(loader) == list(range(SIZE))


def test_what_a_subclass_makes_of_iterators_is_kept_with_distributed():
    class Doubling(tdi.DataLoader):
        def _get_iterator(self):
            return (2 * batch for batch in super()._get_iterator())

    for distributed in (None, True):
        loader = Doubling(torch.arange(SIZE), 4, distributed=distributed)
        assert rows_of(loader) == list(range(0, 2 * SIZE, 2))


def test_a_state_is_taken_before_the_first_batch_of_a_subclass_with_its_own_iterator():
    class Numbered(tdi.DataLoader):
        def __iter__(self):
            yield from enumerate(super().__iter__())

    loader = Numbered(torch.arange(SIZE), 4)
    assert loader.state_dict()["torch_distinput.DataLoader"]["batches"] == 0
    assert [number for number, _ in loader] == [0, 1, 2]


def test_a_distributed_copy_for_a_framework_keeps_what_is_the_subclasss():
    loader = Kept(torch.arange(SIZE), "train")
    result = distributed_copy(loader, True, None, device="cpu")
    assert (result.split, result.device, result.tail) == ("train", torch.device("meta"), "merge")
    assert result.distributed is True and loader.distributed is None
    assert rows_of(result) == list(range(SIZE))


def test_what_asks_loaders_for_their_counters_asks_for_this_librarys(tmp_path):
    class Theirs(tdi.DataLoader):
        def stats(self):
            return "mean and deviation"

    loader = Theirs(torch.arange(SIZE), 4)
    loader.explain = loader.verdict = {"their": "own"}
    with tdi.trace(tmp_path / "run.json", loader):
        list(loader)
    told = json.loads((tmp_path / "run.json").read_text())["otherData"]
    assert told["stats"]["batches"] == 3 and told["explain"] and told["verdict"]["advice"]
    meter = Meter(loader)
    list(loader)
    assert meter.look().batches_per_second > 0


PRIVATE = ("_config", "_feed", "_memory", "_order", "_path", "_progress", "_sampler", "_share", "_shuffle", "_skip")


@pytest.mark.parametrize("kind", ["native", "workers", "distributed rows"])
def test_private_attributes_of_a_subclass_are_its_own(kind):
    class Theirs(tdi.DataLoader):
        def __init__(self, dataset, **arguments):
            self.__dict__.update({name: name.upper() for name in PRIVATE})
            super().__init__(dataset, batch_size=4, **arguments)

    dataset, arguments = LOADERS[kind]()
    loader = Theirs(dataset, **arguments)
    assert rows_of(loader) == list(range(SIZE))
    loader.load_state_dict(loader.state_dict())
    assert rows_of(loader) == list(range(SIZE)) and loader.stats().batches
    assert [getattr(loader, name) for name in PRIVATE] == [name.upper() for name in PRIVATE]
