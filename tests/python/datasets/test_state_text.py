# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A state that Python writes as JSON loads in C++, and the other way round."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

import torch_distinput as tdi
from torch_distinput import _C

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
