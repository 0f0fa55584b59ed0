# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The leaves of a batch, each with the dim along which it is cut."""

import numbers
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torch_distinput.base._structure import children

KEEP = (
    "Give `dim` in the structure of the batch, with None for leaves that stay whole, and name the bounds of packed "
    "documents in `documents`."
)

_UNNAMED = object()  # the dim of what `dims` has no entry for


@dataclass
class Leaf:
    """A leaf of a batch. `name`: its path, for errors. `key`: the last step of the path; None for a batch that is one
    leaf. `dim`: None where it stays whole."""

    name: str
    key: Any
    value: Any
    dim: Any

    def length(self) -> int:
        """The length of the sequences. REQUIRES: `dim` is not None."""
        return self.value.shape[self.dim]


def leaves_of(op: str, batch: Any, dims: Any, bounds: str | None) -> list[Leaf]:
    """The leaves of `batch` in the order of `map_leaves`.

    Args:
        dims: as `SequenceCut.dim`.
        bounds: the key of leaves that stay whole whatever `dims` says.

    Text, numbers and None stay whole under a dim, too. Raises TypeError for another leaf under a dim that is no dense
    tensor, and ValueError for one that has no such dim, and where the structures differ.
    """
    leaves = list(_walk(op, batch, dims, "", None))
    for leaf in leaves:
        leaf.dim = None if bounds is not None and leaf.key == bounds else _dim(op, leaf)
    return leaves


def _walk(op: str, value: Any, dims: Any, path: str, key: Any) -> Iterator[Leaf]:
    parts = children(value)
    if parts is None:
        yield Leaf(f"leaf {path}" if path else "the batch", key, value, dims)
        return
    keys = _keys(value, parts)
    entries = _entries(op, dims, keys, path)
    for step, part, entry in zip(keys, parts, entries):
        yield from _walk(op, part, entry, f"{path}[{step!r}]", step)


def _keys(value: Any, parts: list[Any]) -> list[Any]:
    return list(value) if isinstance(value, Mapping) else list(range(len(parts)))


def _entries(op: str, dims: Any, keys: list[Any], path: str) -> list[Any]:
    """The entry of `dims` for each of `keys`; one dim is that of all."""
    parts = children(dims)
    if parts is None:
        return [dims] * len(keys)
    named = dict(zip(_keys(dims, parts), parts))
    unknown = [f"{path}[{key!r}]" for key in named if key not in keys]
    if unknown:
        raise ValueError(f"{op}: `dim` has an entry for {', '.join(unknown)}, but the batch has none.")
    return [named.get(key, _UNNAMED) for key in keys]


def _dim(op: str, leaf: Leaf) -> int | None:
    dim, value = leaf.dim, leaf.value
    if dim is _UNNAMED:
        raise ValueError(f"{op}: `dim` has no entry for {leaf.name}. {KEEP}")
    if children(dim) is not None:
        raise ValueError(f"{op}: `dim` must be an int or None for {leaf.name}, but is {dim!r}.")
    if dim is None or isinstance(value, (str, bytes, numbers.Number)) or value is None:
        return None
    if not isinstance(value, Tensor) or value.layout is not torch.strided or value.is_nested:
        raise TypeError(f"{op}: {leaf.name} must be a dense tensor, but is {_kind(value)}. {KEEP}")
    if dim >= value.dim():
        raise ValueError(f"{op}: {leaf.name} must have a dim {dim}, but is of shape {list(value.shape)}. {KEEP}")
    return dim


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"of layout {'jagged' if value.is_nested else value.layout}"
    return f"a {type(value).__name__}"
