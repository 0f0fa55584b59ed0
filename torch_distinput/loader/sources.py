# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Datasets whose rows native code can copy by itself: tensors, numpy arrays and torch's wrappers of them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import ConcatDataset, StackDataset, Subset, TensorDataset

from torch_distinput import _C
from torch_distinput._structure import children

_MOST = 2**63 - 1


@dataclass(frozen=True)
class Source:
    """The rows of a dataset.

    `watched`: tensors that the rows lie in; a write to one is seen in its version. `steady`: rows change in no other
    way while they are read ahead.
    """

    native: _C.Dataset
    spec: Any
    watched: tuple[torch.Tensor, ...]
    steady: bool


class NotNative(Exception):
    """Why native code cannot copy the rows of a dataset."""


def source_of(dataset: Any) -> Source:
    """The rows of `dataset`; raises NotNative that says why not. Only exact types count: subclasses may do anything."""
    kind = type(dataset)
    make = _MAKERS.get(kind)
    if make is None:
        raise NotNative(f"rows of a {kind.__name__} are made by Python")
    if kind in _STOCK and _functions_of(kind) != _STOCK[kind]:
        raise NotNative(f"{kind.__name__} has been given other functions")
    if "__getitems__" in getattr(dataset, "__dict__", ()):
        raise NotNative("the dataset has been given a `__getitems__`")
    return make(dataset)


def _functions_of(kind: type) -> tuple[Any, Any]:
    return kind.__getitem__, getattr(kind, "__getitems__", None)


def _slices(value: Any, watched: tuple[torch.Tensor, ...], steady: bool) -> Source:
    try:
        native = _C.Dataset.from_tensor_slices(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise NotNative(str(error)) from None
    return Source(native, native.element_spec, watched, steady)


def _check_tensor(tensor: Any) -> None:
    if type(tensor) is not torch.Tensor:
        raise NotNative(f"a {type(tensor).__name__} is not exactly a tensor")
    if tensor.device.type != "cpu" or tensor.layout != torch.strided or tensor.is_nested or tensor.is_quantized:
        raise NotNative("a tensor is not a dense one on the CPU")
    if tensor.dim() == 0:
        raise NotNative("a tensor has no rows")
    if tensor.requires_grad:
        raise NotNative("a tensor requires gradients, which flow through its rows")
    if tensor.is_conj() or tensor.is_neg() or (len(tensor) > 0 and not tensor[0].is_contiguous()):
        raise NotNative("the rows of a tensor are not contiguous")


def _is_watchable(tensor: torch.Tensor) -> bool:
    return not tensor.is_inference()


def _tensor(tensor: torch.Tensor) -> Source:
    _check_tensor(tensor)
    return _slices(tensor, (tensor,) * _is_watchable(tensor), _is_watchable(tensor))


def _tensor_dataset(dataset: TensorDataset) -> Source:
    tensors = dataset.tensors
    for tensor in tensors:
        _check_tensor(tensor)
    watched = tuple(filter(_is_watchable, tensors))
    return _slices(tuple(tensors), watched, len(watched) == len(tensors))


def _array(array: np.ndarray) -> Source:
    """An array; writes to one cannot be seen, so only one that is read-only is steady."""
    if array.ndim == 0 or array.dtype.kind not in "biufc" or not array.dtype.isnative or array.dtype == np.uint64:
        raise NotNative(f"an array of {array.dtype} and {array.ndim} dimensions is not made of numbers that torch has")
    if len(array) > 0 and not array[:1].flags.c_contiguous:
        raise NotNative("the rows of an array are not contiguous")
    return _slices(array, (), not _is_writable(array))


def _is_writable(array: Any) -> bool:
    """Whether the memory can be written to, through the array or what it is a view of."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return True
        array = array.base
    return False


def _range(numbers: range) -> Source:
    if not all(-_MOST <= number <= _MOST for number in (numbers.start, numbers.stop)):
        raise NotNative("a range has numbers of more than 64 bits")
    native = _C.Dataset.range(numbers.start, numbers.stop, numbers.step)
    return Source(native, native.element_spec, (), True)


def _subset(subset: Subset) -> Source:
    source = source_of(subset.dataset)
    size = source.native.cardinality()
    try:
        indices = torch.as_tensor(subset.indices)
    except (TypeError, ValueError, RuntimeError) as error:
        raise NotNative(f"the indices of a Subset are no numbers: {error}") from None
    if len(indices) == 0:
        indices = indices.long()
    if indices.dtype != torch.int64 or indices.dim() != 1 or indices.device.type != "cpu":
        raise NotNative("the indices of a Subset are not a sequence of integers")
    # A copy, because the caller's may change while rows are read.
    indices = torch.where(indices < 0, indices + size, indices)
    try:
        return Source(source.native.select(indices), source.spec, source.watched, source.steady)
    except IndexError as error:
        raise NotNative(str(error)) from None


def _concatenated(dataset: ConcatDataset) -> Source:
    sources = [source_of(part) for part in dataset.datasets]
    first = sources[0]
    if any(source.spec != first.spec for source in sources):
        raise NotNative("the parts of a ConcatDataset have rows of several types")
    if dataset.cumulative_sizes != list(itertools.accumulate(source.native.cardinality() for source in sources)):
        raise NotNative("parts of a ConcatDataset have changed their length")
    native = first.native
    for source in sources[1:]:
        native = native.concatenate(source.native)
    return Source(native, first.spec, *_together(sources))


def _stacked(dataset: StackDataset) -> Source:
    parts = children(dataset.datasets)
    if not parts:
        raise NotNative("a StackDataset has no parts")
    sources = [source_of(part) for part in parts]
    if {source.native.cardinality() for source in sources} != {len(dataset)}:
        raise NotNative("parts of a StackDataset have changed their length")
    natives = [source.native for source in sources]
    structure = dict(zip(dataset.datasets, natives)) if isinstance(dataset.datasets, dict) else tuple(natives)
    native = _C.Dataset.zip(structure)
    return Source(native, native.element_spec, *_together(sources))


def _together(sources: list[Source]) -> tuple[tuple[torch.Tensor, ...], bool]:
    return tuple(tensor for source in sources for tensor in source.watched), all(source.steady for source in sources)


_MAKERS = {
    torch.Tensor: _tensor,
    TensorDataset: _tensor_dataset,
    np.ndarray: _array,
    np.memmap: _array,
    range: _range,
    Subset: _subset,
    ConcatDataset: _concatenated,
    StackDataset: _stacked,
}
# As torch wrote them; somebody may replace them later.
_STOCK = {kind: _functions_of(kind) for kind in (TensorDataset, Subset, ConcatDataset, StackDataset)}
