# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""States under policy STREAMS in parts, one for each stream; tests/frameworks has them in checkpoints of ranks."""

import itertools

import pytest
from ranks import returned, run_ranks

import torch_distinput as tdi
from torch_distinput.loader.state import _by_stream

STREAMS = tdi.Options(auto_shard_policy=tdi.AutoShardPolicy.STREAMS)
ROWS = 130


def loader_of(rows=ROWS, batch_size=3):
    halves = [tdi.Dataset.range(rows // 2), tdi.Dataset.range(rows // 2, rows)]
    mixed = tdi.Dataset.sample_from_datasets(halves, [1, 2], seed=1).filter(lambda row: True)
    return tdi.DataLoader(mixed.with_options(STREAMS), batch_size, distributed=True)


def goes_on(rank, parts, steps, batch_size):
    loader = loader_of(batch_size=batch_size)
    if parts:
        here = loader.state_dict()
        own = {name: parts[name] for name in _by_stream.parts_of(here)}
        loader.load_state_dict(_by_stream.state_of_parts(own, here))
    iterator = iter(loader)
    seen = [row for batch in itertools.islice(iterator, steps) for row in batch.tolist()]
    return seen, loader.stats().sampled, _by_stream.parts_of(loader.state_dict())


def test_ranks_go_on_in_the_parts_of_other_ranks():
    seen, parts = [], {}
    for world, steps, batch_size in ((3, 2, 3), (2, 5, 1), (1, 2, 4), (4, 3, 2), (3, None, 3)):
        results = returned(run_ranks(goes_on, world, parts, steps, batch_size))
        seen += [row for rows, *_ in results for row in rows]
        parts = {name: part for *_, of_rank in results for name, part in of_rank.items()}
    assert sorted(seen) == list(range(ROWS))
    assert [sum(counts) for counts in zip(*(sampled for _, sampled, _ in results), strict=True)] == [65, 65]


def after_steps(steps, rows=ROWS):
    loader = loader_of(rows)
    for _ in zip(range(steps), loader, strict=False):
        pass
    return loader.state_dict()


@pytest.mark.parametrize("steps", range(0, 45, 4))
def test_the_parts_of_a_rank_are_its_state(steps):
    state = after_steps(steps)
    one, two = loader_of(), loader_of()
    one.load_state_dict(state)
    two.load_state_dict(_by_stream.state_of_parts(_by_stream.parts_of(state), loader_of().state_dict()))
    assert [batch.tolist() for batch in one] == [batch.tolist() for batch in two]


def test_states_without_streams_have_no_parts():
    assert _by_stream.parts_of(tdi.DataLoader([1, 2, 3], distributed=True).state_dict()) is None
    assert _by_stream.parts_of(tdi.DataLoader([1, 2, 3]).state_dict()) is None


def refusal(parts, here):
    with pytest.raises(ValueError) as refused:
        _by_stream.state_of_parts(parts, here)
    return str(refused.value)


def test_parts_that_do_not_fit_are_refused():
    here = loader_of().state_dict()
    parts = _by_stream.parts_of(after_steps(7))
    last = max(parts)
    assert f"must have the key '{last}'" in refusal({name: parts[name] for name in parts if name != last}, here)
    assert "must have the key 'all_streams'" in refusal({}, here)
    longer = _by_stream.parts_of(after_steps(1, rows=200))
    assert "saved of 12 streams, but here the data has 8" in refusal(longer, here)
    other = tdi.DataLoader([1, 2, 3], distributed=True).state_dict()
    assert "saved under policy STREAMS, but it is not applied here" in refusal(parts, other)


@pytest.mark.parametrize(
    "damage",
    [
        {"stream_0": None},
        {"stream_0": {}},
        {"stream_0": {"ended": False, "rank": {}}},
        {"stream_1": {"ended": False, "begun": {"turn": "2"}}},
        {"all_streams": []},
        {"all_streams": {"count": 8, "distributed": None}},
    ],
)
def test_damaged_parts_are_refused(damage):
    here, parts = loader_of().state_dict(), _by_stream.parts_of(after_steps(7))
    assert "the state is damaged" in refusal(parts | damage, here)
