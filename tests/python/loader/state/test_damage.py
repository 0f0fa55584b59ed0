# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Damaged states of a `DataLoader`, and states of another one: errors that name the field, never wrong rows."""

import copy
import functools
import itertools

import pytest
import torch
from resumable_data import (
    SIZE,
    CountingSampler,
    CountingStream,
    ResumingStream,
    Rows,
    StatefulRows,
    Stream,
    seeded,
    values,
)
from torch.utils import data
from torch.utils.data import TensorDataset

import torch_distinput as tdi

KEY = "torch_distinput.DataLoader"


STREAMS = tdi.Dataset.range(SIZE).flat_map(lambda row: tdi.Dataset.range(row, row + 1))
STREAMS = STREAMS.with_options(tdi.Options(auto_shard_policy=tdi.AutoShardPolicy.STREAMS))
LOADERS = {
    "native": lambda: tdi.DataLoader(TensorDataset(torch.arange(SIZE)), 2),
    "native shuffled": lambda: tdi.DataLoader(TensorDataset(torch.arange(SIZE)), 2, shuffle=True),
    "native with a generator": lambda: tdi.DataLoader(torch.arange(SIZE), 2, shuffle=True, generator=seeded(3)),
    "native with a seed": lambda: tdi.DataLoader(torch.arange(SIZE), 2, shuffle=True, seed=3),
    "native at indices": lambda: tdi.DataLoader(torch.arange(SIZE), 2, sampler=data.SubsetRandomSampler(range(SIZE))),
    "python": lambda: tdi.DataLoader(Rows(), 2),
    "python shuffled": lambda: tdi.DataLoader(Rows(), 2, shuffle=True),
    "stateful rows": lambda: tdi.DataLoader(StatefulRows(), 2),
    "stateful sampler": lambda: tdi.DataLoader(Rows(), 2, sampler=CountingSampler()),
    "stream": lambda: tdi.DataLoader(Stream(), 2),
    "stateful stream": lambda: tdi.DataLoader(ResumingStream(), 2),
    "pipeline": lambda: tdi.DataLoader(tdi.Dataset.range(SIZE).shuffle(), 2),
    "distributed": lambda: tdi.DataLoader(torch.arange(SIZE), 2, shuffle=True, distributed=True),
    "distributed rows": lambda: tdi.DataLoader(Rows(), 2, shuffle=True, distributed=True),
    "distributed streams": lambda: tdi.DataLoader(STREAMS, 2, distributed=True),
    "distributed stream": lambda: tdi.DataLoader(Stream(), 2, distributed=True),
}
WRONG = [-1, -(10**30), 10**30, 2.5, "x", "4", b"x", [], [0], (), object(), torch.zeros(3), torch.zeros(5056).byte()]
LACKS = object()


def saved(name, steps=2):
    loader = LOADERS[name]()
    list(itertools.islice(loader, steps))
    return loader.state_dict()


def fields(state, path=()):
    """The paths of all fields that the Python code of this library writes."""
    for name, value in state.items():
        yield (*path, name)
        if isinstance(value, dict) and name in ("distributed", "inner", KEY) and "kind" not in value:
            yield from fields(value, (*path, name))


def check_refused(name, state, path, value):
    loader = LOADERS[name]()
    with pytest.raises(ValueError) as error:
        loader.load_state_dict(state)
        list(loader)
    assert path[-1] in str(error.value) or "cannot load the state" in str(error.value), (path, value, str(error.value))


def may_be(name, old, value):
    """Whether a loader must accept `value` for a field that holds `old`, because it cannot know that it is wrong."""
    if name in ("dataset", "sampler", "stream", "native", "distributed", "workers"):  # states of other objects
        return value is not LACKS and (old is None) == (value is None)
    if name == "steps":  # older states lack it
        return value is None or value is LACKS
    if name in ("seed", "base_seed"):
        return value is None or (name == "base_seed" and type(value) is int and value == -1)
    if name == "num_batches" and (value is None or value is LACKS):  # states of the version before lack it
        return True
    if type(value) is bool:
        return type(old) is bool
    return value is None and old is None


@pytest.mark.parametrize("name", LOADERS)
def test_every_field_is_checked(name):
    good = saved(name)
    for path in fields(good[KEY]):
        for value in [*WRONG, None, True, LACKS]:
            state = copy.deepcopy(good)
            place = functools.reduce(dict.__getitem__, path[:-1], state[KEY])
            if isinstance(place[path[-1]], dict) and path[-1] in ("native", "distributed", "inner"):
                if value is not LACKS and not isinstance(value, dict):
                    place[path[-1]] = value
                    check_refused(name, state, path, value)
                continue
            if may_be(path[-1], place[path[-1]], value):
                continue
            if value is LACKS:
                del place[path[-1]]
            else:
                place[path[-1]] = value
            check_refused(name, state, path, value)


NATIVE = ["pipeline", "distributed", "distributed rows"]


def native_fields(state, path=()):
    """The paths of all fields that native code writes, and of the entries of lists."""
    for name, value in state.items() if isinstance(state, dict) else enumerate(state):
        yield (*path, name)
        if isinstance(value, (dict, list)):
            yield from native_fields(value, (*path, name))


def of_another_kind(old):
    junk = [None, True, 3, 2.5, "x", b"x", [], {}, [0], object(), torch.zeros(2), 10**30, {"a": {1, 2}}, slice(3)]
    return [value for value in junk if type(value) is not type(old) or value == 10**30]


@pytest.mark.parametrize("name", NATIVE)
def test_values_of_wrong_kinds_in_native_positions_are_found_when_a_state_is_loaded(name):
    field = "native" if name == "pipeline" else "distributed"
    good = saved(name)
    checked = 0
    for path in native_fields(good[KEY][field]):
        old = functools.reduce(lambda part, key: part[key], path, good[KEY][field])
        for value in of_another_kind(old):
            if path == ("seed",) and value is None:
                continue
            state = copy.deepcopy(good)
            functools.reduce(lambda part, key: part[key], path[:-1], state[KEY][field])[path[-1]] = value
            with pytest.raises(ValueError, match=f"load_state_dict: `{field}\\.{path[0]}"):
                LOADERS[name]().load_state_dict(state)
            checked += 1
    assert checked > 100


def test_a_native_position_that_holds_itself_is_refused_when_it_is_opened():
    state = saved("distributed")
    state[KEY]["distributed"]["input"] = state[KEY]["distributed"]
    loader = LOADERS["distributed"]()
    with pytest.raises(ValueError):
        loader.load_state_dict(state)
        next(iter(loader))


@pytest.mark.parametrize("native", [True, False])
def test_a_state_of_data_that_was_assigned_in_another_way_is_refused(native):
    def loader(native):
        collate = None if native else torch.stack
        return tdi.DataLoader(torch.arange(SIZE), 2, collate_fn=collate, distributed=True)

    words = {True: "whose rows native code copies", False: "whose rows Python makes"}
    message = f"the state is of data {words[native]}, but the loader has data {words[not native]}"
    before = loader(native)
    next(iter(before))
    state = before.state_dict()
    other = loader(not native)
    other.load_state_dict(state)  # there may still be a group before the first iterator
    with pytest.raises(ValueError, match=message):
        iter(other)
    other = loader(not native)
    other.explain()  # now the processes are known
    with pytest.raises(ValueError, match=message):
        other.load_state_dict(state)


def test_a_state_of_a_stream_is_refused_by_ranks_that_share_a_dataset_and_vice_versa():
    shared, stream = LOADERS["distributed"], LOADERS["distributed stream"]
    own = "that each rank reads from a stream or sampler of its own"
    for saved, loaded, message in [
        (stream, shared, f"the state is of data {own}, but the loader has data that the ranks share"),
        (shared, stream, f"the state is of data whose rows native code copies, but the loader has data {own}"),
    ]:
        with pytest.raises(ValueError, match=message):
            loaded().load_state_dict(saved().state_dict())


@pytest.mark.parametrize("name", LOADERS)
def test_fields_that_no_state_has_are_refused(name):
    state = saved(name)
    state[KEY]["drawn"] = 3
    with pytest.raises(ValueError, match="no state has a field 'drawn'"):
        LOADERS[name]().load_state_dict(state)


@pytest.mark.parametrize("rows", [-7, -1, SIZE + 1, 99])
@pytest.mark.parametrize("name", ["native", "native shuffled", "python", "python shuffled"])
def test_rows_are_those_of_the_dataset(name, rows):
    state = saved(name)
    state[KEY]["rows"] = rows
    with pytest.raises(ValueError, match=f"`rows` must be an integer from 0 to {SIZE}, but is {rows}"):
        LOADERS[name]().load_state_dict(state)


@pytest.mark.parametrize(
    ("name", "other", "field"),
    [
        ("native", "native shuffled", "rng"),
        ("native shuffled", "native", "rng"),
        ("native shuffled", "native with a generator", "rng"),
        ("native with a generator", "native shuffled", "rng"),
        ("native shuffled", "native with a seed", "rng"),
        ("native with a seed", "native", "seed"),
        ("python", "stateful rows", "dataset"),
        ("stateful rows", "python", "dataset"),
        ("stream", "stateful stream", "dataset"),
        ("stateful sampler", "native at indices", "sampler"),
    ],
)
def test_a_state_of_another_order_is_refused(name, other, field):
    with pytest.raises(ValueError, match=f"`{field}` must be"):
        LOADERS[other]().load_state_dict(saved(name))


@pytest.mark.both_pools
def test_states_of_workers_are_checked():
    loader = tdi.DataLoader(CountingStream(), 2, num_workers=2)
    next(iter(loader))
    good = loader.state_dict()
    wrong = (None, 10**9, [], [None], "xx", [1, 2])
    for field, value in itertools.product(("states", "begun", "ended", "last"), wrong):
        if (field, value) == ("states", [1, 2]):
            continue
        state = copy.deepcopy(good)
        state[KEY]["workers"][field] = value
        with pytest.raises(ValueError, match=f"`workers.{field}` must be"):
            tdi.DataLoader(CountingStream(), 2, num_workers=2).load_state_dict(state)
    state = copy.deepcopy(good)
    state[KEY]["num_workers"] = 10**9
    with pytest.raises(ValueError, match="`workers.states` must be a list of 1000000000 states"):
        tdi.DataLoader(CountingStream(), 2, num_workers=2).load_state_dict(state)


@pytest.mark.parametrize("state", [None, [], (), 0, "", 3])
def test_only_an_empty_dict_starts_afresh(state):
    with pytest.raises(ValueError, match="not a state of torch_distinput.DataLoader"):
        LOADERS["native"]().load_state_dict(state)


class Refuses:
    """An object whose state cannot be taken."""

    def state_dict(self):
        raise RuntimeError("no state now")

    def load_state_dict(self, state):
        pass


class RefusingRows(Refuses, Rows):
    pass


class RefusingStream(Refuses, Stream):
    pass


class RefusingSampler(Refuses, data.SequentialSampler):
    pass


class Unportable(RuntimeError):
    def __init__(self, number, text):
        super().__init__(text)
        self.number, self.lock = number, iter(())


class RefusesOddly(RefusingStream):
    def state_dict(self):
        raise Unportable(3, "no state now")


@pytest.mark.both_pools
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("distributed", [None, True])
@pytest.mark.parametrize("kind", ["rows", "stream", "odd stream", "sampler", "native sampler"])
def test_a_state_that_cannot_be_taken_is_an_error_when_it_is_saved(kind, workers, distributed):
    arguments = {"num_workers": workers, "distributed": distributed}
    loader = {
        "rows": lambda: tdi.DataLoader(RefusingRows(), 2, **arguments),
        "stream": lambda: tdi.DataLoader(RefusingStream(), 2, **arguments),
        "odd stream": lambda: tdi.DataLoader(RefusesOddly(), 2, **arguments),
        "sampler": lambda: tdi.DataLoader(Rows(), 2, sampler=RefusingSampler(range(SIZE)), **arguments),
        "native sampler": lambda: tdi.DataLoader(
            torch.arange(SIZE), 2, sampler=RefusingSampler(range(SIZE)), **arguments
        ),
    }[kind]()
    iterator = iter(loader)
    rows = values(next(iterator))
    if not (kind == "rows" and distributed):  # there the strategy knows the position
        with pytest.raises(RuntimeError, match="no state now"):
            loader.state_dict()
    rows += [row for batch in iterator for row in values(batch)]
    assert sorted(rows) == list(range(SIZE))


class FailsOnce(ResumingStream):
    failed = False

    def load_state_dict(self, state):
        if not self.failed:
            self.failed = True
            raise OSError("not yet")
        super().load_state_dict(state)


def test_a_state_that_could_not_be_loaded_is_still_there():
    loader = tdi.DataLoader(FailsOnce(), 2)
    taken = [values(batch) for batch in itertools.islice(loader, 2)]
    resumed = tdi.DataLoader(FailsOnce(), 2)
    resumed.load_state_dict(loader.state_dict())
    with pytest.raises(OSError, match="not yet"):
        iter(resumed)
    assert taken + [values(batch) for batch in resumed] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10]]
