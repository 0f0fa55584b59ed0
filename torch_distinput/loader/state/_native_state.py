# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The types of values in the states of native iterators, which native code checks only when an iterator is opened."""

from collections.abc import Callable
from typing import Any

Rule = tuple[str, Callable[[Any], bool]]

_PLAIN = (type(None), bool, int, float, str)
_LEAST, _MOST = -(2**63), 2**64 - 1


def _is_integer(value: Any) -> bool:
    return type(value) is int and _LEAST <= value <= _MOST


_INTEGER: Rule = ("an integer", _is_integer)
_SEED: Rule = ("None or an integer", lambda value: value is None or _is_integer(value))
_FLAG: Rule = ("a bool", lambda value: type(value) is bool)
_DICT: Rule = ("a dict", lambda value: type(value) is dict)
_TEXT: Rule = ("a text", lambda value: type(value) is str)
_TEXTS: Rule = ("a list of texts", lambda value: type(value) is list and all(type(text) is str for text in value))

_FIELDS: dict[str, Rule] = {
    "kind": _TEXT,
    "version": _INTEGER,
    "epoch": _INTEGER,
    "seed": _SEED,
    "permutation": _INTEGER,
    "pipeline": _TEXTS,
    "used": _FLAG,
    "elements_since": _INTEGER,
    "position": _DICT,
    "step": _INTEGER,
    "row": _INTEGER,
    "split": _TEXT,
    "cursor": _DICT,
}
_CURSOR = {"element": _INTEGER, "part": _INTEGER, "part_rows": _INTEGER, "row": _INTEGER, "ended": _FLAG}
_PLACE = {"path": _TEXT, "position": _INTEGER, "row": _INTEGER}  # of the random-access path


def reads_in_order(state: dict[str, Any]) -> bool:
    """Whether the iterator that has `state`, after an element or step, reads its data in order, not by position."""
    return "input" in state or ("position" in state and "path" not in state["position"])


def wrong_kind(state: dict[str, Any]) -> tuple[str, str, Any] | None:
    """The first value in a native state that has a wrong type: its place, the rule, the value; None if all types are
    right. Whether numbers fit the data is checked when the iterator is opened."""
    if "kind" not in state:
        return "kind", "a text", None
    found = _of_rules(state, _FIELDS, "")
    if found is None and "cursor" in state:
        found = _of_rules(state["cursor"], _CURSOR, "cursor.")
    if found is None and "path" in state.get("position", ()):
        found = _of_rules(state["position"], _PLACE, "position.")
    return found or _not_plain(state)


def _of_rules(state: dict[str, Any], rules: dict[str, Rule], prefix: str) -> tuple[str, str, Any] | None:
    for name, (words, holds) in rules.items():
        if name in state and not holds(state[name]):
            return prefix + name, words, state[name]
    return None


def _not_plain(state: dict[str, Any]) -> tuple[str, str, Any] | None:
    """A value of a type that no state holds. Without recursion, because a damaged state may be deeply nested."""
    left: list[tuple[str, Any]] = [("", state)]
    seen: set[int] = set()
    while left:
        place, value = left.pop()
        if isinstance(value, (dict, list, tuple)):
            if id(value) not in seen:  # it may hold itself
                seen.add(id(value))
                entries = value.items() if isinstance(value, dict) else enumerate(value)
                left += [(f"{place}.{key}" if place else str(key), entry) for key, entry in entries]
        elif type(value) not in _PLAIN:
            return place, "a dict, list, number, text, bool or None", value
    return None
