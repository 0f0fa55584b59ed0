# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""States of `DataLoader(distributed=True)`: whose they are, what they were made with, and where they may go on."""

import itertools

import pytest
import torch
import torch.distributed as dist
from distributed_loaders import Squares, make, rows_of
from ranks import returned, run_ranks
from torch.utils import data
from torch.utils.data import TensorDataset
from torch_datasets import Indices

import torch_distinput as tdi
from torch_distinput.loader.state._check import STATE


class Own(data.IterableDataset):
    """Rank r's own stream, of 6 or 20 numbers."""

    def __init__(self, rank):
        self.rank = rank

    def __iter__(self):
        return iter(range(100 * self.rank, 100 * self.rank + (6, 20)[self.rank % 2]))


def own_loader(rank, kind):
    if kind == "stream":
        return tdi.DataLoader(Own(rank), 2, distributed=True, peer_timeout=20)
    sampler = range(rank, 20, 2)
    return tdi.DataLoader(Squares(20), 2, sampler=sampler, distributed=True, peer_timeout=20)


def load_states(rank, kind, which, steps):
    loader = own_loader(rank, kind)
    before = [row for batch in itertools.islice(loader, steps) for row in rows_of(batch)]
    own = loader.state_dict()
    loader.close()
    states = [None] * dist.get_world_size()
    dist.all_gather_object(states, own)
    loader = own_loader(rank, kind)
    one = {} if rank else own
    loader.load_state_dict({"own": own, "of rank 0": states[0], "swapped": states[rank - 1], "one": one}[which])
    try:
        return before + [row for batch in loader for row in rows_of(batch)]
    except tdi.DistributedDatasetError as error:
        return str(error)


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("which", ["own", "of rank 0", "swapped", "one"])
@pytest.mark.parametrize("kind", ["stream", "sampler"])
def test_a_stream_goes_on_with_its_own_state_only(kind, which, steps):
    ranks = returned(run_ranks(load_states, 2, kind, which, steps))
    if which == "own":
        wanted = [*range(6), *range(100, 120)] if kind == "stream" else range(20)
        assert sorted(itertools.chain(*ranks)) == sorted(wanted)
        return
    assert ranks[0] == ranks[1]
    assert "the ranks must agree on state of a stream" in ranks[0]
    assert "Load on each rank the state that this rank saved" in ranks[0]


def state_of(kind, n=20, steps=2, **arguments):
    loader = make(kind, n, 0, batch_size=3, **arguments)
    rows = [row for batch in itertools.islice(loader, steps) for row in rows_of(batch)]
    return rows, loader.state_dict()


KINDS = ["native", "python"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("n", "saved", "loaded", "text"),
    [
        (21, {}, {}, "`size` must be the same: saved over 20 rows, but the dataset has 21"),
        (
            20,
            {"shuffle": True},
            {},
            "`shuffle` must be the loader's `shuffle`, False, but is True: it decides the order",
        ),
        (
            20,
            {"shuffle": True, "seed": 1},
            {"shuffle": True, "seed": 2},
            "`given_seed` must be the loader's `seed`, 2, but is 1: it decides the order",
        ),
    ],
)
def test_what_does_not_fit_is_named_as_the_user_knows_it(kind, n, saved, loaded, text):
    _, state = state_of(kind, **saved)
    with pytest.raises(ValueError, match=text):
        make(kind, n, 0, **loaded).load_state_dict(state)


def subset(first, dtype=torch.int64):
    return data.Subset(TensorDataset(torch.arange(20).to(dtype)), range(first, first + 10))


@pytest.mark.parametrize(
    ("saved", "loaded", "text"),
    [
        (subset(0), subset(5), r"saved over 10 rows \(indices \w+\) of 20 rows of .*, but the dataset has 10 rows"),
        (subset(0), subset(0, torch.float32), "torch.int64.*torch.float32"),
        (data.StackDataset(a=subset(0)), data.StackDataset(b=subset(0)), "'a': .*'b': "),
        (data.Subset(Squares(20), range(10)), data.Subset(Squares(20), range(5, 15)), "of 20 rows, but"),
    ],
)
def test_other_rows_are_named_as_the_user_knows_them(saved, loaded, text):
    loader = tdi.DataLoader(saved, 4, distributed=True)
    next(iter(loader))
    with pytest.raises(ValueError, match=f"`rows` must be the same: .*{text}"):
        tdi.DataLoader(loaded, 4, distributed=True).load_state_dict(loader.state_dict())


def test_a_class_may_move_to_another_module(monkeypatch):
    rows, state = state_of("python", shuffle=True)
    monkeypatch.setattr(Squares, "__module__", "package.data")
    loader = make("python", 20, 0, shuffle=True)
    loader.load_state_dict(state)
    assert sorted(rows + [row for batch in loader for row in rows_of(batch)]) == list(range(20))


def of_version_1(state):
    """What the last version without these fields wrote for the same position."""
    inner = {
        name: value for name, value in state[STATE].items() if name not in ("size", "rows", "shuffle", "given_seed")
    }
    position = dict(inner["distributed"])
    position.pop("rank", None)
    if inner["kind"] == "indices":
        position["pipeline"] = [position["pipeline"][0], "zip({'tests.Squares': *})", *position["pipeline"][1:]]
    return {STATE: inner | {"distributed": position, "version": 1}}


@pytest.mark.parametrize("kind", KINDS)
def test_states_of_the_version_before_are_read(kind):
    rows, state = state_of(kind, shuffle=True)
    loader = make(kind, 20, 0, shuffle=True)
    loader.load_state_dict(of_version_1(state))
    assert sorted(rows + [row for batch in loader for row in rows_of(batch)]) == list(range(20))


def test_a_stream_state_of_the_version_before_is_read():
    loader = tdi.DataLoader(Own(0), 2, distributed=True)
    first = next(iter(loader)).tolist()
    again = tdi.DataLoader(Own(0), 2, distributed=True)
    again.load_state_dict(of_version_1(loader.state_dict()))
    assert first + [row for batch in again for row in batch.tolist()] == list(range(6))


def saved_by_ranks(rank, kind):
    loader = make(kind, 20, rank, batch_size=2, shuffle=True)
    rows = [row for batch in itertools.islice(loader, 2) for row in rows_of(batch)]
    return rows, loader.state_dict()


def plain(kind, **arguments):
    if kind == "native":
        return tdi.DataLoader(TensorDataset(torch.arange(20), torch.zeros(20, 2)), 3, **arguments)
    return tdi.DataLoader(tdi.Dataset.range(20).shuffle() if kind == "pipeline" else Squares(20), 3, **arguments)


@pytest.mark.parametrize("kind", ["native", "python", "pipeline"])
def test_one_process_goes_on_where_ranks_stopped(kind):
    ranks = returned(run_ranks(saved_by_ranks, 3, kind))
    loader = plain(kind, **({} if kind == "pipeline" else {"shuffle": True}))
    loader.load_state_dict(ranks[0][1])
    rest = [row for batch in loader for row in rows_of(batch)]
    assert sorted(rest + [row for rows, _ in ranks for row in rows]) == list(range(20))
    assert loader.distributed is True and loader.last_info.epoch == 0
    assert sorted(row for batch in loader for row in rows_of(batch)) == list(range(20))  # the next epoch


def load_without_distributed(rank, state):
    with pytest.raises(ValueError, match="in a group of 2 processes, each would read all of the rest"):
        plain("native", shuffle=True).load_state_dict(state)


def test_each_of_several_processes_must_not_read_the_rest():
    _, state = state_of("native", shuffle=True)
    returned(run_ranks(load_without_distributed, 2, state))


ORDERS = {
    "rows": lambda: TensorDataset(torch.arange(23)),
    "python": lambda: Indices(23),
    "pipeline": lambda: tdi.Dataset.range(23).shuffle(),
}


def loader_of(kind, **arguments):
    shuffle = {} if kind == "pipeline" else {"shuffle": True}
    return tdi.DataLoader(ORDERS[kind](), batch_size=4, **shuffle, **arguments)


def epoch(loader):
    return [row for batch in loader for row in (batch[0] if isinstance(batch, list) else batch).tolist()]


def interrupted(loader, steps):
    """The state after `steps` steps of the second epoch, the rest of that, and two epochs more."""
    epoch(loader)
    seen, state = [], loader.state_dict() if steps == 0 else None
    for number, batch in enumerate(loader, 1):
        seen += (batch[0] if isinstance(batch, list) else batch).tolist() if state is not None else []
        if number == steps:
            state = loader.state_dict()
            torch.manual_seed(1)  # what a program does besides must not matter
    return state, [seen, epoch(loader), epoch(loader)]


def later_epochs(rank, kind, steps, arguments):
    torch.manual_seed(5)
    state, rest = interrupted(loader_of(kind, **arguments), steps)
    torch.manual_seed(100 + rank)
    resumed = loader_of(kind, **arguments)
    resumed.load_state_dict(state)
    return rest, [epoch(resumed) for _ in range(3)]


@pytest.mark.parametrize("kind", ORDERS)
@pytest.mark.parametrize("steps", [0, 2])
def test_one_process_goes_on_as_if_never_interrupted(kind, steps):
    rest, resumed = later_epochs(0, kind, steps, {})
    assert resumed == rest
    assert resumed[1] != resumed[2]


@pytest.mark.parametrize("kind", ORDERS)
@pytest.mark.parametrize("steps", [0, 2])
def test_ranks_go_on_as_if_never_interrupted(kind, steps):
    for rest, resumed in returned(run_ranks(later_epochs, 2, kind, steps, {"distributed": True})):
        assert resumed == rest
        assert resumed[1] != resumed[2]
