# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Batches as a description and blocks of bytes, which another process views without copying them.

The description is JSON: plain values as they are, and lists that begin with their kind. What it says of a block is
checked before the block is viewed. Nothing is unpickled; of classes, only named tuples are looked up, among those that
this process has imported, and none of their code runs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy
import torch

from torch_distinput import _C
from torch_distinput.base._arrow_blocks import arrow_block, arrow_kind, arrow_view
from torch_distinput.base._known_mappings import known_mapping
from torch_distinput.base._structure import children, is_plain

_LENGTH = 8  # bytes that hold the length of the description
_ALIGNMENT = 256  # bytes
_TOGETHER = 1 << 20  # bytes; smaller tensors lie behind one another, so that one copy brings them to a device
_MAX_NESTING = 100
_PLAIN = (type(None), bool, int, float, str)
_DTYPES = {str(value): value for value in vars(torch).values() if isinstance(value, torch.dtype)}
_ARRAY_KINDS = "biufcmMSU"  # numpy's kinds of dtypes that are their bytes


class Packed(NamedTuple):
    """`text`: the description. `blocks`: bytes with their places, behind one another in `size` bytes."""

    text: bytes
    blocks: list[tuple[int, memoryview]]
    size: int

    def behind(self, *notes: float | str) -> Packed:
        """A tuple of `notes` and the value."""
        return self._replace(text=b'["tuple",[%s,%s]]' % (json.dumps(notes)[1:-1].encode(), self.text))

    @property
    def whole_size(self) -> int:
        """Bytes of description and blocks in one piece of memory."""
        return aligned(_LENGTH + len(self.text)) + self.size

    def pieces(self) -> Iterator[tuple[int, memoryview]]:
        """Description and blocks, each with its place in that memory."""
        yield 0, memoryview(len(self.text).to_bytes(_LENGTH, "little") + self.text)
        begin = aligned(_LENGTH + len(self.text))
        for place, block in self.blocks:
            yield begin + place, block


def pack(value: Any, argument: str = "`share`", names: tuple[str, ...] = ()) -> Packed:
    """The description and the blocks of `value`, which must not change before they are read. Raises TypeError, naming
    the leaf and the `argument` of the loader that needs this, for what other processes cannot view. `names`: of the
    parts of `value`, a list; none: `value` is a batch."""
    packer = _Packer()
    try:
        described = packer.described(value, 0)
    except _Unshareable as leaf:
        root, *keys = [names[leaf.keys[0]], *leaf.keys[1:]] if names else ["batch", *leaf.keys]
        raise TypeError(
            f"DataLoader: with {argument}, batches go from process to process, but "
            f"{root}{''.join(f'[{key!r}]' for key in keys)} is a {leaf.kind}, which cannot: let the dataset or "
            "`collate_fn` make tensors in host memory, arrays, Arrow tables, numbers, texts or bytes of it, in dicts, "
            f"lists and tuples, or leave {argument} out."
        ) from None
    blocks, size = packer.placed()
    return Packed(json.dumps(described, separators=(",", ":")).encode(), blocks, size)


def joined(packed: Packed) -> bytearray:
    """Description and blocks, in one piece of memory."""
    memory = bytearray(packed.whole_size)
    for place, piece in packed.pieces():
        memory[place : place + piece.nbytes] = piece.cast("B")
    return memory


def view(memory: Any, slab: torch.Tensor | None = None) -> Any:
    """The value whose `Packed.pieces` lie in `memory`, a writable buffer that can be sliced. `slab` and errors as of
    `unpack`."""
    length = int.from_bytes(memory[:_LENGTH], "little")
    if length > len(memory) - _LENGTH:
        raise _C.DistributedDatasetError("DataLoader: the description of another process's batch must end within it.")
    return unpack(bytes(memory[_LENGTH : _LENGTH + length]), memory, aligned(_LENGTH + length), slab)


def unpack(text: bytes, memory: Any, begin: int, slab: torch.Tensor | None = None) -> Any:
    """The value of a description whose blocks begin at `begin` of `memory`, a writable buffer that can be sliced;
    tensors, arrays and Arrow's values are views of it. `slab`: all of it as one tensor; tensors are views of that, so
    that they can be copied together, and all else is copied. Raises DistributedDatasetError for a description that
    `pack` cannot have made."""
    try:
        return _Unpacker(memory, begin, slab).value(json.loads(text), 0)
    except (_Damaged, ValueError, TypeError, RecursionError) as rule:
        raise _C.DistributedDatasetError(
            f"DataLoader: the batch of another process breaks its format: {rule}"
        ) from None


def aligned(size: int) -> int:
    """`size`, rounded up to where a block may begin."""
    return -(-size // _ALIGNMENT) * _ALIGNMENT


class _Unshareable(Exception):
    def __init__(self, kind: str):
        self.kind = kind
        self.keys: list[Any] = []


class _Damaged(Exception):
    """The description breaks a rule."""


class _Packer:
    """Describes a value. Nodes of the description that have a block end with its place, once that was `placed`."""

    def __init__(self) -> None:
        self._together: list[tuple[list[Any], memoryview]] = []
        self._others: list[tuple[list[Any], memoryview]] = []

    def described(self, value: Any, depth: int) -> Any:
        if type(value) in _PLAIN:
            return value
        if type(value) is torch.Tensor and is_plain(value):
            flat = value.contiguous().reshape(-1).view(torch.uint8).numpy().data
            blocks = self._together if flat.nbytes <= _TOGETHER else self._others
            return self._node(["tensor", str(value.dtype), list(value.shape)], flat, blocks)
        if type(value) is bytes:
            return self._node(["bytes", len(value)], memoryview(value), self._others)
        if (type(value) is numpy.ndarray or isinstance(value, numpy.generic)) and value.dtype.kind in _ARRAY_KINDS:
            return self._array(value)
        if (arrow := arrow_kind(value)) is not None:
            block = arrow_block(value)
            return self._node(["arrow", arrow, block.nbytes], block, self._others)
        parts = children(value)
        if parts is None or depth > _MAX_NESTING:
            raise _Unshareable(_class_of(value))
        return self._structure(value, parts, depth + 1)

    def _array(self, value: Any) -> Any:
        kind = "array" if isinstance(value, numpy.ndarray) else "scalar"
        data = numpy.ascontiguousarray(value).reshape(-1).view(numpy.uint8).data if value.nbytes else memoryview(b"")
        return self._node([kind, value.dtype.str, list(value.shape)], data, self._others)

    def _structure(self, value: Any, parts: list[Any], depth: int) -> Any:
        kind = type(value)
        if kind is list or kind is tuple:
            return [kind.__name__, self._parts(range(len(parts)), parts, depth)]
        if isinstance(value, Mapping) and (kind is dict or known_mapping(_class_of(value)) is kind):
            keys = [self.described(key, depth) for key in value]
            return ["dict", "" if kind is dict else _class_of(value), keys, self._parts(value, parts, depth)]
        if _named_tuple(_class_of(value)) is not kind:
            raise _Unshareable(_class_of(value))
        return ["named", _class_of(value), self._parts(range(len(parts)), parts, depth)]

    def _parts(self, keys: Any, parts: list[Any], depth: int) -> list[Any]:
        found = []
        for key, part in zip(keys, parts):
            try:
                found.append(self.described(part, depth))
            except _Unshareable as leaf:
                leaf.keys.insert(0, key)
                raise
        return found

    @staticmethod
    def _node(node: list[Any], data: memoryview, blocks: list[tuple[list[Any], memoryview]]) -> list[Any]:
        node.append(0)
        if data.nbytes:
            blocks.append((node, data))
        return node

    def placed(self) -> tuple[list[tuple[int, memoryview]], int]:
        """The blocks with their places, and the bytes of all."""
        blocks, size = [], 0
        for node, data in self._together + self._others:
            place = aligned(size)
            node[-1] = place
            blocks.append((place, data))
            size = place + data.nbytes
        return blocks, size


class _Unpacker:
    def __init__(self, memory: Any, begin: int, slab: torch.Tensor | None):
        self._memory, self._begin, self._slab = memory, begin, slab

    def value(self, node: Any, depth: int) -> Any:
        if type(node) in _PLAIN:
            return node
        if type(node) is not list or not node or type(node[0]) is not str or depth > _MAX_NESTING:
            raise _Damaged("a value must be plain, or a list that begins with its kind")
        kind, *rest = node
        make: Any = _MAKERS.get((kind, len(rest)))
        if make is None:
            raise _Damaged(f"the kind of a value must be a known one, but is {kind[:40]!r}")
        return make(self, depth + 1, *rest)

    def _tensor(self, _: int, name: Any, shape: Any, place: Any) -> torch.Tensor:
        dtype = _DTYPES.get(name)
        if dtype is None:
            raise _Damaged(f"a tensor must have a dtype of torch, but has {str(name)[:40]!r}")
        count = _elements(shape)
        if count == 0:
            return torch.empty(shape, dtype=dtype)
        begin = self._at(place, count * dtype.itemsize)
        if self._slab is not None:
            return self._slab[begin : begin + count * dtype.itemsize].view(dtype).reshape(shape)
        return torch.frombuffer(self._memory, dtype=dtype, count=count, offset=begin).reshape(shape)

    def _array(self, _: int, name: Any, shape: Any, place: Any) -> numpy.ndarray:
        dtype = numpy.dtype(name if type(name) is str and len(name) < 20 else "V")
        if dtype.kind not in _ARRAY_KINDS:
            raise _Damaged(f"an array must have a plain dtype, but has {name!r}")
        count = _elements(shape)
        if count * dtype.itemsize == 0:
            return numpy.empty(shape, dtype)
        begin = self._at(place, count * dtype.itemsize)
        array = numpy.frombuffer(self._memory, dtype, count, begin).reshape(shape)
        return array if self._slab is None else array.copy()

    def _scalar(self, depth: int, name: Any, shape: Any, place: Any) -> Any:
        return self._array(depth, name, shape, place)[()]

    def _bytes(self, _: int, size: Any, place: Any) -> bytes:
        begin = self._at(place, _elements([size]))
        return bytes(self._memory[begin : begin + size])

    def _arrow(self, _: int, kind: Any, size: Any, place: Any) -> Any:
        begin = self._at(place, _elements([size]))
        memory = memoryview(self._memory)[begin : begin + size]
        return arrow_view(kind, memory if self._slab is None else memoryview(bytes(memory)))

    def _list(self, depth: int, nodes: Any) -> list[Any]:
        if type(nodes) is not list:
            raise _Damaged("the parts of a structure must be a list")
        return [self.value(node, depth) for node in nodes]

    def _tuple(self, depth: int, nodes: Any) -> tuple[Any, ...]:
        return tuple(self._list(depth, nodes))

    def _dict(self, depth: int, name: Any, keys: Any, nodes: Any) -> Any:
        kind = dict if name == "" else known_mapping(name)
        if kind is None:
            raise _Damaged(f"a mapping must be of a known class, but is a {str(name)[:80]!r}")
        return kind(zip(self._list(depth, keys), self._list(depth, nodes), strict=True))

    def _named(self, depth: int, name: Any, nodes: Any) -> Any:
        kind, parts = _named_tuple(name), self._list(depth, nodes)
        if kind is None or len(kind._fields) != len(parts):
            raise _Damaged(f"a named tuple must be of an imported class with its fields, but is a {str(name)[:80]!r}")
        return tuple.__new__(kind, parts)

    def _at(self, place: Any, size: int) -> int:
        """Where a block of `size` bytes begins in the memory."""
        if type(place) is not int or place < 0 or place % _ALIGNMENT:
            raise _Damaged("a block must begin at a place that is aligned")
        if size > len(self._memory) - self._begin - place:
            raise _Damaged(f"a block of {size} bytes must end within the memory")
        return self._begin + place


def _elements(shape: Any) -> int:
    if type(shape) is not list or any(type(size) is not int or size < 0 for size in shape):
        raise _Damaged("a shape must be a list of sizes")
    count = 1
    for size in shape:
        count *= size
    return count


def _class_of(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _named_tuple(name: Any) -> Any:
    """The class of named tuples of this name that this process has imported; None: there is none."""
    if type(name) is not str:
        return None
    module, _, known = name.rpartition(".")
    found = vars(sys.modules.get(module, object)).get(known)
    is_named = isinstance(found, type) and issubclass(found, tuple) and isinstance(vars(found).get("_fields"), tuple)
    return found if is_named else None


# How a value is made, by its kind and the number of what follows it.
_MAKERS = {
    ("tensor", 3): _Unpacker._tensor,
    ("array", 3): _Unpacker._array,
    ("scalar", 3): _Unpacker._scalar,
    ("bytes", 2): _Unpacker._bytes,
    ("arrow", 3): _Unpacker._arrow,
    ("list", 1): _Unpacker._list,
    ("tuple", 1): _Unpacker._tuple,
    ("dict", 3): _Unpacker._dict,
    ("named", 2): _Unpacker._named,
}
