# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Values as bytes for other processes, and back.

Any program that reaches the group's store can write to it, so bytes of another process are never run: nothing is
unpickled, and no class is looked up by a name that was sent. The format is the length of a description, in 8 bytes; the
description, in JSON, of the lists, tuples, dicts and named tuples that hold tensors and plain values; and the tensors,
in the library's checked format.
"""

from __future__ import annotations

import collections
import copy
import json
import keyword
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from torch_distinput import _C
from torch_distinput.base._known_mappings import known_mapping
from torch_distinput.base._structure import children, rebuild

# Ends errors about texts of other processes.
STRANGER = "Did another program, or another version of the library, write to the group's store?"

_LENGTH = 8  # bytes that hold the length of the description
_MAX_NESTING = 100
_MAX_ROW = 2**30  # elements in one row of an example
_PLAIN = (type(None), bool, int, float, str)


class _Damaged(Exception):
    """The bytes break a rule of the format."""


def encode(value: Any) -> bytes:
    """`value` as bytes for `decode`. Instead of a part that cannot be sent, the name of its class is sent."""
    return _Writer(whole=False).encode(value)


def decode(data: bytes, whose: str, like: Any) -> Any:
    """The value in `data`. A structure of a user's class gets the class of an equal structure in `like`, this process's
    own value; else it is a tuple or a dict. In place of a value that could not be sent stands an object of an empty
    class of that name.

    Raises DistributedDatasetError, which begins with `whose`, for bytes that `encode` cannot have made.
    """
    return _read(data, whose, dict(_classes(like)))


def encode_whole(value: Any) -> bytes:
    """As `encode`, but raises ValueError for a part that another process cannot rebuild."""
    return _Writer(whole=True).encode(value)


def decode_example(data: bytes, whose: str) -> Any:
    """The batch without rows in `data`, which `encode_whole` wrote; its named tuples have the right fields, but classes
    made here. Errors as in `decode`."""
    return _read(data, whose, {}, example=True)


def _read(data: bytes, whose: str, classes: dict[tuple, Any], example: bool = False) -> Any:
    try:
        description, tensors = _parsed(data), _C.decode_tensors(data[_end(data) :], whose)
        if example and any(tensor.shape[1:].numel() > _MAX_ROW for tensor in tensors):
            raise _Damaged(f"a row of an example must have at most {_MAX_ROW} elements")
        return _Reader(tensors, classes).value(description)
    except _Damaged as rule:
        raise _C.DistributedDatasetError(f"{whose}: {rule}. {STRANGER}") from None


def _end(data: bytes) -> int:
    """Where the description in `data` ends."""
    end = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    if len(data) < _LENGTH or len(data) < end:
        raise _Damaged(f"the description must end within the {len(data)} bytes that are there")
    return end


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data[_LENGTH : _end(data)])
    except (ValueError, RecursionError) as error:
        raise _Damaged(f"the description must be JSON, but {type(error).__name__} was raised: {error}") from None


def _class_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _signature(value: Any) -> tuple[str, tuple | None] | None:
    """Name and keys or fields of a structure whose class is not list, tuple or dict; None for every other value."""
    if type(value) in (list, tuple, dict) or children(value) is None:
        return None
    if isinstance(value, Mapping):
        return _class_name(value), tuple(value)
    return _class_name(value), getattr(value, "_fields", None)


def _classes(value: Any) -> Iterator[tuple[tuple, Any]]:
    signature = _signature(value)
    if signature is not None:
        yield signature, value
    for part in children(value) or ():
        yield from _classes(part)


class _Writer:
    """Makes a description and collects the tensors that it names. `whole`: raise ValueError for what another process
    cannot rebuild."""

    def __init__(self, whole: bool):
        self._whole = whole
        self._tensors: list[torch.Tensor] = []

    def encode(self, value: Any) -> bytes:
        text = json.dumps(self._described(value, 0), separators=(",", ":")).encode()
        return len(text).to_bytes(_LENGTH, "little") + text + _C.encode_tensors(self._tensors)

    def _described(self, value: Any, depth: int) -> Any:
        if depth > _MAX_NESTING:
            raise ValueError(f"values for other processes must be nested at most {_MAX_NESTING} deep.")
        if type(value) in _PLAIN:
            return value
        if isinstance(value, torch.Tensor) and _C.can_be_encoded(value):
            self._tensors.append(value.detach())
            return ["tensor", len(self._tensors)]
        if type(value) is bytes:
            return ["bytes", value.decode("latin-1")]
        parts = children(value)
        if parts is None:
            return ["other", self._cannot(value)]
        parts = [self._described(part, depth + 1) for part in parts]
        if type(value) is dict:
            return ["dict", [self._described(key, depth + 1) for key in value], parts]
        if type(value) in (list, tuple):
            return [type(value).__name__, parts]
        return self._of_a_class(value, parts, depth)

    def _of_a_class(self, value: Any, parts: list[Any], depth: int) -> Any:
        if isinstance(value, Mapping):
            if known_mapping(_class_name(value)) is not type(value):
                self._cannot(value)
            return ["mapping", _class_name(value), [self._described(key, depth + 1) for key in value], parts]
        fields = getattr(value, "_fields", None)
        if fields is None:
            self._cannot(value)
        return ["class", _class_name(value), fields, parts]

    def _cannot(self, value: Any) -> str:
        if self._whole:
            raise ValueError(f"a {type(value).__name__} cannot be sent to another process.")
        return type(value).__name__


class _Reader:
    """Makes the value of a description. `classes`: values whose classes may be used, by their signatures."""

    def __init__(self, tensors: list[torch.Tensor], classes: dict[tuple, Any]):
        self._tensors, self._classes = tensors, classes

    def value(self, node: Any, depth: int = 0) -> Any:
        if depth > _MAX_NESTING:
            raise _Damaged(f"a value must be nested at most {_MAX_NESTING} deep")
        if type(node) in _PLAIN:
            return node
        if type(node) is not list or not node or type(node[0]) is not str:
            raise _Damaged("a value must be plain, or a list that begins with its kind")
        kind, *rest = node
        make: Any = _MAKERS.get((kind, len(rest)))
        if make is None:
            raise _Damaged(f"the kind of a value must be a known one, but is {kind[:40]!r}")
        return make(self, depth + 1, *rest)

    def _tensor(self, _: int, index: Any) -> torch.Tensor:
        if type(index) is not int or not 1 <= index <= len(self._tensors):
            raise _Damaged(f"the number of a tensor must be in [1, {len(self._tensors)}]")
        return self._tensors[index - 1]

    def _bytes(self, _: int, text: Any) -> bytes:
        if type(text) is not str or any(character > "\xff" for character in text):
            raise _Damaged("bytes must be a text of characters below 256")
        return text.encode("latin-1")

    def _parts(self, depth: int, nodes: Any) -> list[Any]:
        if type(nodes) is not list:
            raise _Damaged("the parts of a structure must be a list")
        return [self.value(node, depth) for node in nodes]

    def _tuple(self, depth: int, nodes: Any) -> tuple:
        return tuple(self._parts(depth, nodes))

    def _dict(self, depth: int, key_nodes: Any, nodes: Any) -> dict:
        keys, parts = self._parts(depth, key_nodes), self._parts(depth, nodes)
        try:
            items = dict(zip(keys, parts, strict=True))
        except (TypeError, ValueError):  # a key that has no hash; another number of keys
            raise _Damaged("a dict must have one key for each part") from None
        if len(items) != len(keys):
            raise _Damaged("the keys of a dict must differ")
        return items

    def _other(self, _: int, name: Any) -> Any:
        return type(self._name(name), (), {})()

    def _mapping(self, depth: int, name: Any, key_nodes: Any, nodes: Any) -> Any:
        items = self._dict(depth, key_nodes, nodes)
        own = self._classes.get((self._name(name), tuple(items)))
        known = known_mapping(name)
        if own is not None:
            return rebuild(own, items.values())
        return items if known is None else known(items)

    def _of_a_class(self, depth: int, name: Any, fields: Any, nodes: Any) -> Any:
        parts = self._parts(depth, nodes)
        if fields is not None:
            self._check_fields(fields, parts)
        own = self._classes.get((self._name(name), None if fields is None else tuple(fields)))
        if own is not None and len(children(own) or ()) == len(parts):
            return _like(own, parts)
        if fields is None:
            return tuple(parts)
        return collections.namedtuple(self._field(name.rpartition(".")[2]), fields)(*parts)

    def _check_fields(self, fields: Any, parts: list[Any]) -> None:
        if type(fields) is not list or len(fields) != len(parts) or len({*map(self._field, fields)}) != len(parts):
            raise _Damaged("a named tuple must have one field for each part")

    @staticmethod
    def _field(name: Any) -> str:
        if type(name) is not str or not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
            raise _Damaged("a field of a named tuple must be an identifier")
        return name

    @staticmethod
    def _name(name: Any) -> str:
        if type(name) is not str or len(name) > 1000 or not name.isprintable():
            raise _Damaged("the name of a class must be a short text")
        return name


def _like(own: Any, parts: list[Any]) -> Any:
    """A structure of the class of `own`, which is not a mapping, with `parts`."""
    if isinstance(own, list):
        own = copy.copy(own)
        own[:] = parts
        return own
    return rebuild(own, parts)


# How a value is made, by its kind and the number of its arguments.
_MAKERS = {
    ("tensor", 1): _Reader._tensor,
    ("bytes", 1): _Reader._bytes,
    ("list", 1): _Reader._parts,
    ("tuple", 1): _Reader._tuple,
    ("dict", 2): _Reader._dict,
    ("other", 1): _Reader._other,
    ("mapping", 3): _Reader._mapping,
    ("class", 3): _Reader._of_a_class,
}
