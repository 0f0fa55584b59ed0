# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The data that `from_tensors` and `from_tensor_slices` got, without holding it twice.

Native code shares the memory of tensors and of arrays of numbers, and copies everything else, such as lists of strings:
that is read from the dataset again.
"""

from collections.abc import Callable, Sized
from typing import Any

import numpy
import torch

from torch_distinput import _C
from torch_distinput.base._structure import children, rebuild
from torch_distinput.ops._description import Whole


def of_tensors(x: Any, native: _C.Dataset) -> Whole:
    """The argument of `from_tensors` that made `native`."""
    return _given(x, native.iterate)


def of_slices(x: Any, native: _C.Dataset) -> Whole:
    """The argument of `from_tensor_slices` that made `native`."""
    return _given(x, lambda **options: native.ragged_batch(native.cardinality()).iterate(**options))


def _given(x: Any, iterate: Callable[..., _C.DatasetIterator]) -> Whole:
    held = _without_copies(x)
    return Whole(lambda: _with_copies(held, next(iterate(epoch=0))) if _has_copies(held) else held)


class _Copied:
    """In the place of what native code has copied."""


_COPIED = _Copied()


def _is_structure(value: Any) -> bool:
    return type(value) is dict or isinstance(value, tuple)


def _without_copies(value: Any) -> Any:
    if _is_structure(value) and (parts := children(value)) is not None:
        return rebuild(value, map(_without_copies, parts))
    if isinstance(value, numpy.ndarray):
        return value if value.dtype.kind in "biufc" and value.dtype.isnative else _COPIED
    small = value is None or isinstance(value, (bool, int, float, complex, str, bytes))
    shared = isinstance(value, torch.Tensor) or small or (isinstance(value, Sized) and len(value) == 0)
    return value if shared else _COPIED


def _has_copies(held: Any) -> bool:
    if _is_structure(held) and (parts := children(held)) is not None:
        return any(map(_has_copies, parts))
    return held is _COPIED


def _with_copies(held: Any, data: Any) -> Any:
    """`held` with parts of `data`, which has the same structure, in the place of copies."""
    if _is_structure(held) and (parts := children(held)) is not None:
        return rebuild(held, [_with_copies(part, found) for part, found in zip(parts, children(data) or ())])
    return data if held is _COPIED else held
