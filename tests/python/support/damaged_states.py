# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Random damage to saved positions of iterators, and what must come of it."""

import copy
import math

import torch

import torch_distinput as tdi

MUTATIONS = 120


def deep(levels):
    value = 1
    for level in range(levels):
        value = {"a": value} if level % 2 else [value]
    return value


def itself():
    value = {}
    value["input"] = [value, value]
    return value


# The words for some fields in error messages.
PHRASES = {
    "kind": "a state of",
    "permutation": "of the shuffle order",
    "offset": "at byte",  # a byte at which no record begins
    "draws": "the saved `elements` must be in",  # they bound the number of draws
    "input": "the dataset must have 12 elements",  # assert_cardinality's own error
}
DEEP = [deep(50_000), deep(900), itself()]
HUGE = [2**k + d for k in (20, 31, 40, 48, 53, 62) for d in (-1, 0, 1)] + [2**63 - 1, 10**9]
JUNK = [None, True, False, -1, -5, -(2**31), -(2**63), 2**63, math.nan, math.inf, 1.5, "", "text", b"bytes", [], {}]
JUNK += [[None] * 3, [1, "a"], {"a": 1}, "\ud800", torch.zeros(1)]


def places(value, path=()):
    """The path of every entry below `value`."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield (*path, key)
        yield from places(entry, (*path, key))


def lookup(state, path):
    for key in path:
        state = state[key]
    return state


def mutate(draw, state):
    """A damaged copy of `state`, and the fields that an error may name."""
    state = copy.deepcopy(state)
    paths = [path for path in places(state) if path[0] != "pipeline"]
    path = draw.choice(paths)
    parent, key, old = lookup(state, path[:-1]), path[-1], lookup(state, path)
    fields = {name for place in [path, *places(old, path)] for name in place if isinstance(name, str)}
    kind = draw.random()
    if kind < 0.15:
        del parent[key]
    elif kind < 0.3:
        parent[key] = copy.deepcopy(lookup(state, draw.choice(paths)))
    elif kind < 0.35:
        parent[key] = draw.choice(DEEP)
    elif type(old) is int and kind < 0.9:
        parent[key] = draw.choice([draw.choice(HUGE), -draw.choice(HUGE), old + draw.choice([-2, -1, 1, 2])])
    else:
        parent[key] = draw.choice(JUNK)
    return state, fields


def numbers(value):
    """How many numbers and texts an element holds."""
    if isinstance(value, torch.Tensor):
        return value.values().numel() if value.is_nested else value.numel()
    if isinstance(value, tdi.PerReplica):
        return sum(map(numbers, value.values))
    return 1 if isinstance(value, (str, bytes)) else sum(map(numbers, value))


def count(iterator, most):
    """How many numbers are left; stops counting beyond `most`."""
    left = 0
    for element in iterator:
        left += numbers(element)
        if left > most:
            break
    return left


def check(draw, fresh, most):
    """Loads damaged states: each is refused with an error that names a field, or yields at most `most` numbers."""
    states = [iter_state(fresh(), steps) for steps in range(5)]
    iterator = fresh()
    refused = 0
    for _ in range(MUTATIONS):
        state, fields = mutate(draw, draw.choice(states))
        try:
            iterator.load_state_dict(state)
            left = count(iterator, most)
        except (ValueError, TypeError, tdi.FailedPreconditionError) as error:
            refused += 1
            words = {*fields, *(PHRASES[field] for field in fields & set(PHRASES)), "saved position"}
            assert any(word in str(error) for word in words), (str(error), fields, state)
        else:
            assert left <= most, state
    assert refused > MUTATIONS / 4
    # Refused states have changed nothing.
    for step, state in enumerate(states):
        iterator.load_state_dict(state)
        assert iterator.state_dict() == state, step


def iter_state(iterator, steps):
    for _ in range(steps):
        if next(iterator, None) is None:
            break
    return iterator.state_dict()
