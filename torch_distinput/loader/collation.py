# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Whether a collate_fn is torch's own, and what it makes of the structure of native elements.

Native batches come stacked already. What is left of `default_collate` is its habit to turn tuples into lists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils.data import default_collate, default_convert
from torch.utils.data._utils.collate import default_collate_fn_map

from torch_distinput._structure import children
from torch_distinput.spec import OpaqueSpec, StringSpec, TensorSpec

_REGISTRY = dict(default_collate_fn_map)

Convert = Callable[[Any], Any] | None


def is_stock_collate(collate_fn: Any) -> bool:
    """Whether `collate_fn` is torch's `default_collate`, and nobody has taught it other types."""
    return collate_fn is default_collate and default_collate_fn_map == _REGISTRY


def is_stock_convert(collate_fn: Any) -> bool:
    """Whether `collate_fn` is what torch does to samples that it does not batch."""
    return collate_fn is default_convert


def can_collate(spec: Any) -> bool:
    """Whether a native batch of elements of `spec` holds what `default_collate` would make of them."""
    parts = children(spec)
    if parts is not None:
        return all(map(can_collate, parts))
    return isinstance(spec, TensorSpec) or (isinstance(spec, StringSpec) and spec.shape == ())


def collated(spec: Any, in_sequence: bool = False) -> Convert:
    """What turns a native batch of rows of `spec` into `default_collate`'s; None where there is nothing to do.

    A leaf that is no StringSpec counts as dense.
    """
    if isinstance(spec, StringSpec):
        return tuple if in_sequence else None  # torch passes on what `zip` gave it
    return _rebuilt(spec, lambda part: collated(part, not isinstance(spec, dict)))


def converted(spec: Any) -> Convert:
    """What turns a native element of `spec` into what `default_convert` makes of it."""
    if isinstance(spec, OpaqueSpec):
        return default_convert
    return _rebuilt(spec, converted)


def _rebuilt(spec: Any, convert_part: Callable[[Any], Convert]) -> Convert:
    parts = children(spec)
    if parts is None:
        return None
    converts = [convert_part(part) for part in parts]
    plain = not any(converts)
    if isinstance(spec, dict):
        if plain:
            return None
        return lambda value: {
            key: part if convert is None else convert(part)
            for (key, part), convert in zip(value.items(), converts, strict=True)
        }
    if hasattr(spec, "_fields"):
        return None if plain else lambda value: type(value)(*_each(value, converts))
    if plain:
        return list if isinstance(spec, tuple) else None
    return lambda value: _each(value, converts)


def _each(value: Any, converts: list[Convert]) -> list[Any]:
    return [part if convert is None else convert(part) for part, convert in zip(value, converts, strict=True)]
