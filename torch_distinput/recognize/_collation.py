# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Whether a collate_fn is torch's own, and what it does to the structure of native elements.

Native batches are stacked already; the rest of `default_collate` turns tuples into lists.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch.utils.data import default_collate, default_convert
from torch.utils.data._utils.collate import default_collate_fn_map

from torch_distinput._C import OpaqueSpec, StringSpec, TensorSpec
from torch_distinput.base._structure import children

_REGISTRY = dict(default_collate_fn_map)

Convert = Callable[[Any], Any] | None


@dataclass(frozen=True)
class Images:
    """The spec of decoded images whose native batches are not quite those of torch.

    `numbered`: they are tuples of images [B, 3, H, W] and numbers, which are left out. `grey`: the three channels are
    equal, and one is wanted: [B, 1, H, W], or [B, H, W] where `flat`.
    """

    grey: bool = False
    flat: bool = False
    numbered: bool = False

    def of_batch(self, batch: Any) -> Any:
        images = batch[0] if self.numbered else batch
        if not self.grey:
            return images
        return (images[:, 0] if self.flat else images[:, :1]).contiguous()


def is_stock_collate(collate_fn: Any) -> bool:
    """Whether `collate_fn` is torch's `default_collate`, without types that were registered since this import."""
    return collate_fn is default_collate and default_collate_fn_map == _REGISTRY


def is_stock_convert(collate_fn: Any) -> bool:
    """Whether `collate_fn` is torch's `default_convert`, which torch applies to samples that it does not batch."""
    return collate_fn is default_convert


def can_collate(spec: Any) -> bool:
    """Whether a native batch of elements of `spec` has the values that `default_collate` would make."""
    parts = children(spec)
    if parts is not None:
        return all(map(can_collate, parts))
    return isinstance(spec, TensorSpec) or (isinstance(spec, StringSpec) and spec.shape == ())


def collated(spec: Any, in_sequence: bool = False) -> Convert:
    """A function that turns a native batch of rows of `spec` into that of `default_collate`; None where both are equal.

    A leaf counts as dense unless it is a StringSpec.
    """
    if isinstance(spec, Images):
        return spec.of_batch
    if isinstance(spec, StringSpec):
        return tuple if in_sequence else None  # torch transposes sequences by `zip` and returns its tuples of strings
    return _rebuilt(spec, lambda part: collated(part, not isinstance(spec, dict)))


def converted(spec: Any) -> Convert:
    """A function that turns a native element of `spec` into that of `default_convert`; None where both are equal."""
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
