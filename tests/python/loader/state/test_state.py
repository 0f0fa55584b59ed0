# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`DataLoader.state_dict` on every path: a loader that continues yields the batches that the first one had left."""

import io
import itertools

import pytest
import torch
import torch.distributed.checkpoint as checkpoint
from resumable_data import CountingStream, Stream, values
from torch.distributed.checkpoint.stateful import Stateful
from torch.utils import data
from torch.utils.data import BatchSampler, TensorDataset
from torch_datasets import Indices

import torch_distinput as tdi


class Squares(Indices):
    def __init__(self):
        super().__init__(23)
        self.read = []

    def __getitem__(self, index):
        self.read.append(index)
        return index


class StatefulSampler(data.Sampler):
    def __init__(self):
        self.at = 0

    def __iter__(self):
        while self.at < 23:
            self.at += 1
            yield 22 - (self.at - 1)
        self.at = 0

    def __len__(self):
        return 23

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


def rows():
    return TensorDataset(torch.arange(23))


def seeded():
    return torch.Generator().manual_seed(3)


LOADERS = {
    "native": lambda **kw: tdi.DataLoader(rows(), 4, shuffle=True, **kw),
    "native in turn": lambda **kw: tdi.DataLoader(rows(), 4, drop_last=True, **kw),
    "native with a generator": lambda **kw: tdi.DataLoader(rows(), 4, shuffle=True, generator=seeded(), **kw),
    "native with a seed": lambda **kw: tdi.DataLoader(rows(), 4, shuffle=True, seed=3, **kw),
    "native at indices": lambda **kw: tdi.DataLoader(
        rows(), 4, sampler=data.RandomSampler(range(23), replacement=True), **kw
    ),
    "native subset": lambda **kw: tdi.DataLoader(rows(), 4, sampler=data.SubsetRandomSampler(range(23)), **kw),
    "pipeline": lambda **kw: tdi.DataLoader(tdi.Dataset.range(23).shuffle(), 4, **kw),
    "pipeline stream": lambda **kw: tdi.DataLoader(tdi.Dataset.range(30).filter(lambda x: x != 7), 4, **kw),
    "pipeline of batches": lambda **kw: tdi.DataLoader(tdi.Dataset.range(23).shuffle().batch(4), batch_size=None, **kw),
    "pipeline and a function": lambda **kw: tdi.DataLoader(tdi.Dataset.range(23), 4, collate_fn=torch.stack, **kw),
    "python": lambda **kw: tdi.DataLoader(Squares(), 4, shuffle=True, **kw),
    "python with a generator": lambda **kw: tdi.DataLoader(Squares(), 4, shuffle=True, generator=seeded(), **kw),
    "python with a seed": lambda **kw: tdi.DataLoader(Squares(), 4, shuffle=True, seed=3, **kw),
    "python samples": lambda **kw: tdi.DataLoader(Squares(), batch_size=None, shuffle=True, **kw),
    "python weighted": lambda **kw: tdi.DataLoader(
        Squares(), 4, sampler=data.WeightedRandomSampler([1.0] * 23, 23), **kw
    ),
    "python batches": lambda **kw: tdi.DataLoader(
        Squares(), batch_sampler=[list(range(i, i + 1 + i % 3)) for i in range(15)], **kw
    ),
    "stateful sampler": lambda **kw: tdi.DataLoader(Squares(), 4, sampler=StatefulSampler(), **kw),
    "stateful batch sampler": lambda **kw: tdi.DataLoader(
        rows(), batch_sampler=BatchSampler(StatefulSampler(), 4, False), **kw
    ),
    "stream": lambda **kw: tdi.DataLoader(Stream(23), 4, **kw),
    "stateful stream": lambda **kw: tdi.DataLoader(CountingStream(23), 4, **kw),
}


def through_a_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    return torch.load(io.BytesIO(file.getvalue()), weights_only=True)


def check_resume(make, **kw):
    """Saves before the first batch and after each one, and restores each save in a new loader."""
    torch.manual_seed(5)
    loader = make(**kw)
    states, batches = [loader.state_dict()], []
    for batch in loader:
        batches.append(values(batch))
        states.append(through_a_file(loader.state_dict()))
    assert len(batches) > 4
    after, end = [values(batch) for batch in loader], None
    for taken, state in enumerate(states):
        torch.manual_seed(1000 + taken)
        resumed = make(**kw)
        resumed.load_state_dict(state)
        assert resumed.state_dict() is not None
        assert [values(batch) for batch in resumed] == batches[taken:], taken
        end = [values(batch) for batch in resumed]
    return after, end


@pytest.mark.parametrize("name", LOADERS)
def test_every_position_can_be_resumed(name):
    after, again = check_resume(LOADERS[name])
    if name in ("native with a generator", "native with a seed", "python with a generator", "stateful stream"):
        assert after == again


@pytest.mark.both_pools
@pytest.mark.parametrize(
    "name", ["native", "native subset", "pipeline", "python", "stream", "stateful stream", "stateful sampler"]
)
def test_every_position_can_be_resumed_with_workers(name):
    make = LOADERS[name]
    torch.manual_seed(5)
    loader = make(num_workers=2)
    iterator = iter(loader)
    taken = [values(next(iterator)) for _ in range(3)]
    state = through_a_file(loader.state_dict())
    left = [values(batch) for batch in iterator]
    resumed = make(num_workers=2)
    resumed.load_state_dict(state)
    assert [values(batch) for batch in resumed] == left
    assert taken + left != left


@pytest.mark.both_pools
@pytest.mark.parametrize("name", ["native", "python", "stateful stream"])
def test_a_loader_with_persistent_workers_can_go_back(name):
    loader = LOADERS[name](num_workers=1, persistent_workers=True)
    iterator = iter(loader)
    for _ in range(2):
        next(iterator)
    state = loader.state_dict()
    left = [values(batch) for batch in iterator]
    loader.load_state_dict(state)
    assert [values(batch) for batch in loader] == left
    assert len(list(loader)) == 6
    loader.close()


@pytest.mark.both_pools
@pytest.mark.parametrize("name", ["native", "python", "native at indices", "python weighted"])
def test_other_batch_sizes_and_workers_go_on_with_the_same_rows(name):
    torch.manual_seed(5)
    loader = LOADERS[name]()
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    state = loader.state_dict()
    left = [row for batch in iterator for row in values(batch)]
    for arguments in ({"num_workers": 2}, {}):
        other = LOADERS[name](**arguments)
        other.load_state_dict(state)
        assert [row for batch in other for row in values(batch)] == left
    dataset = loader.dataset
    sampler = None if name in ("native", "python") else loader.sampler
    other = tdi.DataLoader(dataset, 5, shuffle=sampler is None, sampler=sampler)
    other.load_state_dict(state)
    assert [row for batch in other for row in values(batch)] == left


@pytest.mark.parametrize("name", ["native with a generator", "pipeline", "python weighted", "stateful stream"])
@pytest.mark.filterwarnings("ignore")
def test_torchs_distributed_checkpoint_holds_states(name, tmp_path):
    loader, other = LOADERS[name](), LOADERS[name]()
    assert isinstance(loader, Stateful)
    iterator = iter(loader)
    for _ in range(2):
        next(iterator)
    checkpoint.save({"loader": loader}, checkpoint_id=tmp_path)
    checkpoint.load({"loader": other}, checkpoint_id=tmp_path)
    assert [values(batch) for batch in other] == [values(batch) for batch in iterator]


def test_python_skips_rows_without_loading_them():
    loader = LOADERS["python"]()
    for _ in itertools.islice(loader, 3):
        pass
    other = LOADERS["python"]()
    other.load_state_dict(loader.state_dict())
    list(other)
    assert len(other.dataset.read) == 11


@pytest.mark.parametrize("name", LOADERS)
def test_after_an_epoch_the_next_one_starts(name):
    loader = LOADERS[name]()
    count = len(list(loader))
    state = loader.state_dict()
    other = LOADERS[name]()
    other.load_state_dict(state)
    assert len(list(other)) == count
    inner = state["torch_distinput.DataLoader"]
    assert inner["finished"] and inner["epoch"] == 0
    assert other.state_dict()["torch_distinput.DataLoader"]["epoch"] == 1


def test_a_loop_that_was_left_keeps_its_position():
    loader = LOADERS["native"]()
    seen = []
    for batch in loader:
        seen += values(batch)
        if len(seen) == 8:
            break
    del batch
    other = LOADERS["native"]()
    other.load_state_dict(loader.state_dict())
    assert sorted(seen + [row for batch in other for row in values(batch)]) == list(range(23))


@pytest.mark.both_pools
def test_prefetched_batches_do_not_count():
    loader = LOADERS["python"](num_workers=2, prefetch_factor=4)
    iterator = iter(loader)
    next(iterator)
    assert loader.state_dict()["torch_distinput.DataLoader"]["batches"] == 1


def test_an_empty_state_starts_afresh():
    loader = LOADERS["native in turn"]()
    next(iter(loader))
    state = loader.state_dict()
    loader.load_state_dict(state)
    assert loader.state_dict() == state
    loader.load_state_dict({})
    assert len(list(loader)) == 5


@pytest.mark.parametrize("state", [{"_num_yielded": 3}, 3, {"torch_distinput.DataLoader": 4}])
def test_states_of_other_classes_are_refused(state):
    with pytest.raises(ValueError, match="not a state of torch_distinput.DataLoader"):
        LOADERS["native"]().load_state_dict(state)


@pytest.mark.both_pools
def test_states_of_newer_versions_and_other_data_are_refused():
    loader = LOADERS["native"]()
    next(iter(loader))
    state = loader.state_dict()
    newer = {"torch_distinput.DataLoader": state["torch_distinput.DataLoader"] | {"version": 99}}
    with pytest.raises(ValueError, match="version 99, but this library reads up to 3"):
        loader.load_state_dict(newer)
    other = tdi.DataLoader(TensorDataset(torch.arange(9)), 4, shuffle=True)
    with pytest.raises(ValueError, match="saved over 23 rows, but the dataset has 9"):
        other.load_state_dict(state)
    streams = LOADERS["stream"](num_workers=2)
    next(iter(streams))
    other = LOADERS["stream"](num_workers=1)
    with pytest.raises(ValueError, match="2 worker processes, but the loader has num_workers=1"):
        other.load_state_dict(streams.state_dict())


@pytest.mark.parametrize("manual", [1, 2])
@pytest.mark.parametrize(
    "make",
    [
        lambda **kw: tdi.DataLoader(tdi.Dataset.range(23).shuffle().batch(4), batch_size=None, **kw),
        lambda **kw: tdi.DataLoader(tdi.Dataset.range(23).shuffle(), 4, **kw),
        lambda **kw: tdi.DataLoader(tdi.Dataset.range(23).shuffle(), 4, collate_fn=torch.stack, **kw),
        lambda **kw: tdi.DataLoader(tdi.Dataset.range(23).shuffle(), 4, distributed=True, **kw),
    ],
    ids=["batches", "rows", "function", "distributed"],
)
def test_a_seed_orders_a_dataset_of_this_library(make, manual):
    torch.manual_seed(manual)
    loader = make(seed=5)
    orders = [[row for batch in loader for row in values(batch)] for _ in range(2)]
    rows = tdi.Dataset.range(23).shuffle()
    pipeline = rows if loader.collate_fn is torch.stack else rows.batch(4)  # an order depends on the op's place
    orders_of_5 = [list(pipeline._native.iterate(epoch=epoch, seed=5)) for epoch in range(2)]
    assert orders == [torch.hstack(order).tolist() for order in orders_of_5]


@pytest.mark.both_pools
@pytest.mark.parametrize("workers", [0, 2])
def test_the_seed_of_a_datasets_options_orders_it(workers):
    dataset = tdi.Dataset.range(23).shuffle().with_options(tdi.Options(seed=5))
    collate = torch.stack if workers else None
    loaders = [tdi.DataLoader(dataset, 4, collate_fn=collate, num_workers=workers) for _ in range(2)]
    first, second = ([values(batch) for _ in range(2) for batch in loader] for loader in loaders)
    assert first == second
    assert first[: len(first) // 2] != first[len(first) // 2 :]


def test_an_epoch_can_be_pinned_after_a_state_was_asked_for():
    for make in (LOADERS["native with a seed"], LOADERS["python with a seed"], LOADERS["stateful sampler"]):
        loader, other = make(), make()
        loader.state_dict()
        for each in (loader, other):
            each.set_epoch(5)
        assert [values(batch) for batch in loader] == [values(batch) for batch in other]
        assert loader.state_dict()["torch_distinput.DataLoader"]["epoch"] == 5


def test_torchs_workers_follow_a_pinned_epoch():
    dataset = tdi.Dataset.range(23).shuffle(seed=1)

    def epoch(number):
        dataset.set_epoch(number)
        return sorted(data.DataLoader(dataset, 4, num_workers=1, collate_fn=torch.stack), key=str)[0].tolist()

    assert epoch(1) == epoch(1) != epoch(2)


def test_states_of_samplers_do_not_pile_up():
    for dataset in (rows(), Squares()):
        loader = tdi.DataLoader(dataset, 1, sampler=StatefulSampler(), num_workers=0)
        iterator = iter(loader)
        for _ in range(20):
            next(iterator)
        assert len(iterator._position._sampler_states) == 0


def test_a_saved_state_does_not_change_any_more():
    class Live(StatefulSampler):
        def state_dict(self):
            return self.__dict__

    loader = tdi.DataLoader(Squares(), 4, sampler=Live())
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    left = [values(batch) for batch in iterator]
    resumed = LOADERS["stateful sampler"]()
    resumed.load_state_dict(state)
    assert [values(batch) for batch in resumed] == left


def test_frameworks_may_add_keys():
    loader = LOADERS["native"]()
    next(iter(loader))
    loader.load_state_dict(loader.state_dict() | {"_iterator_finished": False})
    assert len(list(loader)) == 5
