# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Saved positions: plain containers, JSON, and refusals."""

import copy
import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_distinput as tdi
from torch_distinput import _C


def pipeline(rows=12, seed=3):
    return tdi.Dataset.range(rows).shuffle(seed=seed).batch(2)


def after(dataset, steps):
    iterator = iter(dataset)
    for _ in range(steps):
        next(iterator)
    return iterator


def plain(value):
    if type(value) is dict:
        return all(type(key) is str and plain(item) for key, item in value.items())
    if type(value) is list:
        return all(map(plain, value))
    return value is None or type(value) in (bool, int, float, str)


@pytest.mark.parametrize("stream", [False, True])
def test_a_state_goes_through_json(stream):
    dataset = pipeline().filter(lambda x: True) if stream else pipeline()
    iterator = after(dataset, 2)
    state = iterator.state_dict()
    assert plain(state)
    rest = [batch.tolist() for batch in iterator]
    resumed = iter(dataset)
    resumed.load_state_dict(json.loads(json.dumps(state)))
    assert [batch.tolist() for batch in resumed] == rest
    assert len(rest) == 4


def test_a_state_goes_through_torch_save(tmp_path):
    iterator = after(pipeline(), 1)
    torch.save(iterator.state_dict(), tmp_path / "state.pt")
    resumed = iter(pipeline())
    resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert torch.equal(next(resumed), next(iterator))


def test_tuples_are_read_as_lists():
    state = iter(pipeline()).state_dict()

    def with_tuples(value):
        if isinstance(value, dict):
            return {key: with_tuples(item) for key, item in value.items()}
        return tuple(map(with_tuples, value)) if isinstance(value, list) else value

    iter(pipeline()).load_state_dict(with_tuples(state))


def test_a_state_does_not_change_afterwards():
    iterator = after(pipeline(), 2)
    state = iterator.state_dict()
    kept = copy.deepcopy(state)
    next(iterator)
    assert state == kept


def test_a_closed_iterator_still_tells_its_position():
    iterator = after(pipeline(), 2)
    state = iterator.state_dict()
    iterator.close()
    assert iterator.state_dict() == state


@pytest.mark.parametrize(
    ("entry", "error", "word"),
    [
        (torch.zeros(1), TypeError, r"state\['position'\]: is a Tensor"),
        ({3: 4}, TypeError, r"state\['position'\]: keys must be str, but found a key of type int"),
        ([0, {1}], TypeError, r"state\['position'\]\[1\]: is a set"),
        (2**70, ValueError, r"state\['position'\]: is an int beyond 64 bits"),
    ],
)
def test_what_no_state_can_hold_is_named(entry, error, word):
    with pytest.raises(error, match=word):
        iter(pipeline()).load_state_dict({**iter(pipeline()).state_dict(), "position": entry})


@pytest.mark.parametrize("state", [{}, [], None, "text", {"epoch": 1}])
def test_a_state_of_another_class_is_refused(state):
    with pytest.raises(ValueError, match="state"):
        iter(pipeline()).load_state_dict(state)


def test_the_state_of_another_pipeline_is_refused():
    state = after(pipeline(), 1).state_dict()
    for other in (pipeline(rows=13), pipeline(seed=4), tdi.Dataset.range(12).batch(2)):
        with pytest.raises(ValueError, match="pipeline"):
            iter(other).load_state_dict(state)


def test_a_newer_version_is_refused():
    state = iter(pipeline()).state_dict()
    with pytest.raises(ValueError, match=f"version {state['version'] + 1}"):
        iter(pipeline()).load_state_dict({**state, "version": state["version"] + 1})


def test_stats_count_what_was_handed_out():
    stats = after(tdi.Dataset.range(10).batch(4), 2).stats()
    assert (stats["batches"], stats["rows"], stats["bytes"]) == (2, 8, 64)
    assert {"batches", "rows", "bytes", "waits", "allocations", "skipped", "rounds"} < set(stats)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(values)
def test_both_languages_write_the_same_text_and_read_any_layout(state):
    text = json.dumps(state, sort_keys=True)
    assert _C.testing.state_to_text(state) == text
    assert _C.testing.state_from_text(text) == state
    assert _C.testing.state_from_text(json.dumps(state, indent=1, ensure_ascii=False)) == state
    assert _C.testing.state_from_text(json.dumps(state, separators=(",", ":"))) == state


def test_the_position_of_an_iterator_goes_through_c_plus_plus():
    dataset = tdi.Dataset.range(20).shuffle(seed=3).batch(3)
    iterator = iter(dataset)
    next(iterator)
    restored = iter(dataset)
    restored.load_state_dict(_C.testing.state_from_text(_C.testing.state_to_text(iterator.state_dict())))
    assert [b.tolist() for b in restored] == [b.tolist() for b in iterator]
