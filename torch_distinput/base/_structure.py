# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Nested structures: lists, tuples, named tuples and mappings. Everything else is a leaf, tensors above all."""

import copy
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any

from torch import Tensor, strided


def children(value: Any) -> list[Any] | None:
    """The values directly inside `value`, or None for a leaf (a torch.Size is a leaf)."""
    kind = type(value)
    if kind is dict:
        return list(value.values())
    if kind is tuple or kind is list:
        return list(value)
    if isinstance(value, Tensor):  # before the test for an ABC on the next line, which costs ten times as much
        return None
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, list):
        return list(value)
    if isinstance(value, tuple) and (hasattr(value, "_fields") or hasattr(value, "n_sequence_fields")):
        return list(value)
    return None


def rebuild(value: Any, parts: Iterable[Any]) -> Any:
    """A structure of the type and keys of `value` with `parts` as its children."""
    if type(value) is dict:
        return dict(zip(value, parts))
    if isinstance(value, Mapping):
        return _rebuild_mapping(value, dict(zip(value, parts)))
    if isinstance(value, tuple):
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return list(parts)


def map_leaves(function: Callable[[Any], Any], value: Any) -> Any:
    """The structure of `value` with `function(leaf)` in place of each leaf."""
    parts = children(value)
    return function(value) if parts is None else rebuild(value, [map_leaves(function, part) for part in parts])


def is_plain(tensor: Tensor) -> bool:
    """Whether `tensor` is its bytes in host memory, their type and their strides, and nothing else."""
    return (
        tensor.device.type == "cpu"
        and tensor.layout is strided
        and not (tensor.requires_grad or tensor.is_conj() or tensor.is_neg() or tensor.is_quantized or tensor.is_nested)
    )


def _rebuild_mapping(value: Any, items: dict) -> Any:
    if not isinstance(value, MutableMapping):
        return type(value)(items)
    result = copy.copy(value)
    for key, item in items.items():
        result[key] = item
    return result
