# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Datasets whose rows native code can copy: tensors, numpy arrays and torch's wrappers of them."""

import functools
import itertools
import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch.utils.data import ConcatDataset, StackDataset, Subset, TensorDataset

from torch_distinput import _C
from torch_distinput.base._structure import children
from torch_distinput.recognize import _hugging_face as hugging_face
from torch_distinput.recognize._native_source import Check, NotNative, Source
from torch_distinput.recognize._table_rows import table_source
from torch_distinput.recognize._torchvision import image_source, is_image_folder

_MOST = 2**63 - 1


def source_of(dataset: Any) -> Source:
    """The rows of `dataset`. Raises NotNative with the reason where native code cannot copy them.

    Only exact types are accepted, because a subclass may override anything.
    """
    kind = type(dataset)
    if hugging_face.is_plain_table(dataset):
        return table_source(dataset)
    make = image_source if is_image_folder(kind) else _MAKERS.get(kind)
    if make is None:
        raise NotNative(f"rows of a {kind.__name__} are made by Python")
    if kind in _STOCK and _functions_of(kind) != _STOCK[kind]:
        raise NotNative(f"{kind.__name__} has been given other functions")
    if "__getitems__" in getattr(dataset, "__dict__", ()):
        raise NotNative("the dataset has been given a `__getitems__`")
    return make(dataset)


def _functions_of(kind: Any) -> tuple[Any, Any]:
    return kind.__getitem__, getattr(kind, "__getitems__", None)


def _slices(value: Any, is_current: Check) -> Source:
    try:
        native = _C.Dataset.from_tensor_slices(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise NotNative(str(error)) from None
    return Source(native, native.element_spec, is_current)


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


def _tensor(tensor: Any) -> Source:
    _check_tensor(tensor)
    return _slices(tensor, _keep_their_memory([tensor]))


def _tensor_dataset(dataset: TensorDataset) -> Source:
    tensors = dataset.tensors
    for tensor in tensors:
        _check_tensor(tensor)
    kept = _keep_their_memory(tensors)
    return _slices(tuple(tensors), lambda: dataset.tensors is tensors and kept())


def _keep_their_memory(tensors: Iterable[torch.Tensor]) -> Check:
    """A function that checks whether the tensors still have their present storages and shapes, which `set_`, `.data =`
    and `resize_` change. A detached tensor shares the storage: its address follows a move of the storage, but not
    `set_`."""
    seen = [(tensor, tensor.detach(), tensor.shape, tensor.stride()) for tensor in tensors]

    def is_current() -> bool:
        for tensor, neighbour, shape, strides in seen:
            if tensor.data_ptr() != neighbour.data_ptr() or tensor.shape != shape or tensor.stride() != strides:
                return False
            if tensor.requires_grad:
                return False
        return True

    return is_current


def _array(array: np.ndarray) -> Source:
    if array.ndim == 0 or array.dtype.kind not in "biufc" or not array.dtype.isnative or array.dtype == np.uint64:
        raise NotNative(f"an array of {array.dtype} and {array.ndim} dimensions is not made of numbers that torch has")
    if len(array) > 0 and not array[:1].flags.c_contiguous:
        raise NotNative("the rows of an array are not contiguous")
    place = _place_of(array)
    return _slices(array, lambda: _place_of(array) == place)


def _place_of(array: np.ndarray) -> tuple[Any, ...]:
    """Address, shape, strides and dtype of an array; None for an array that does not own its memory, and so cannot
    move."""
    address = array.__array_interface__["data"] if array.flags.owndata else None
    return address, array.shape, array.strides, array.dtype


def _range(numbers: range) -> Source:
    if not all(-_MOST <= number <= _MOST for number in (numbers.start, numbers.stop)):
        raise NotNative("a range has numbers of more than 64 bits")
    native = _C.Dataset.range(numbers.start, numbers.stop, numbers.step)
    return Source(native, native.element_spec, lambda: True, steady=True)


def _subset(subset: Subset) -> Source:
    inner, chosen, whole = source_of(subset.dataset), subset.indices, subset.dataset
    size = inner.native.cardinality()
    try:
        native = inner.native.select(_indices(chosen, size))
    except (TypeError, ValueError, RuntimeError, IndexError) as error:
        raise NotNative(f"the indices of a Subset are not those of rows: {error}") from None

    def is_current() -> bool:
        return subset.dataset is whole and subset.indices is chosen and inner.is_current()

    def choose(positions: torch.Tensor) -> _C.Dataset:
        return inner.at(_indices(_looked_up(subset.indices, positions), size))

    frozen = isinstance(chosen, (range, tuple)) and inner.choose is None
    return Source(native, inner.spec, is_current, inner.steady and frozen, None if frozen else choose)


def _indices(indices: Any, size: int) -> torch.Tensor:
    """`indices` as an int64 tensor without negative ones. Raises TypeError, or the errors of torch and numpy."""
    indices = tensor_of(indices)
    if len(indices) == 0:
        indices = indices.long()
    if indices.dtype != torch.int64 or indices.dim() != 1 or indices.device.type != "cpu":
        raise TypeError("they are not a sequence of integers")
    return torch.where(indices < 0, indices + size, indices)


def tensor_of(indices: Any) -> torch.Tensor:
    """`indices` as a tensor; through numpy for a list, which takes a fifth of torch's time."""
    return torch.from_numpy(np.array(indices)) if isinstance(indices, (list, tuple)) else torch.as_tensor(indices)


def _looked_up(indices: Any, positions: torch.Tensor) -> Any:
    if isinstance(indices, (torch.Tensor, np.ndarray)):
        return torch.as_tensor(indices)[positions]
    wanted = positions.tolist()
    if len(wanted) == 1:
        return [indices[wanted[0]]]
    return operator.itemgetter(*wanted)(indices)


def _concatenated(dataset: ConcatDataset) -> Source:
    parts, sizes = list(dataset.datasets), list(dataset.cumulative_sizes)
    sources = [source_of(part) for part in parts]
    first = sources[0]
    if any(source.spec != first.spec for source in sources):
        raise NotNative("the parts of a ConcatDataset have rows of several types")
    if sizes != list(itertools.accumulate(source.native.cardinality() for source in sources)):
        raise NotNative("parts of a ConcatDataset have changed their length")
    native = first.native
    for source in sources[1:]:
        native = native.concatenate(source.native)

    def is_current() -> bool:
        return _are(dataset.datasets, parts) and dataset.cumulative_sizes == sizes and _all_current(sources)

    def choose(positions: torch.Tensor) -> _C.Dataset:
        return _of_parts(sources, sizes, positions)

    frozen = all(source.choose is None for source in sources)
    return Source(native, first.spec, is_current, _all_steady(sources), None if frozen else choose)


def _of_parts(sources: list[Source], ends: list[int], positions: torch.Tensor) -> _C.Dataset:
    """The rows at `positions` of the concatenated sources, which end at `ends`."""
    positions = torch.where(positions < 0, positions + ends[-1], positions)
    if (positions < 0).any():
        raise IndexError("positions before the first row")
    part_of = torch.bucketize(positions, torch.tensor(ends), right=True)
    found, order = [], []
    for part in part_of.unique().tolist():
        places = (part_of == part).nonzero()[:, 0]
        found.append(sources[part].at(positions[places] - (ends[part - 1] if part else 0)))
        order.append(places)
    return functools.reduce(_C.Dataset.concatenate, found).select(torch.cat(order).argsort())


def _stacked(dataset: StackDataset) -> Source:
    stack = dataset.datasets
    keys = list(stack) if isinstance(stack, dict) else None
    parts = children(stack)
    if not parts:
        raise NotNative("a StackDataset has no parts")
    sources = [source_of(part) for part in parts]
    if {source.native.cardinality() for source in sources} != {len(dataset)}:
        raise NotNative("parts of a StackDataset have changed their length")

    def together(natives: list[_C.Dataset]) -> _C.Dataset:
        return _C.Dataset.zip(tuple(natives) if keys is None else dict(zip(keys, natives, strict=True)))

    def is_current() -> bool:
        if keys is not None and list(dataset.datasets) != keys:
            return False
        return dataset.datasets is stack and _are(children(stack), parts) and _all_current(sources)

    def choose(positions: torch.Tensor) -> _C.Dataset:
        return together([source.at(positions) for source in sources])

    native = together([source.native for source in sources])
    specs = [source.spec for source in sources]
    spec = tuple(specs) if keys is None else dict(zip(keys, specs, strict=True))
    frozen = all(source.choose is None for source in sources)
    return Source(native, spec, is_current, _all_steady(sources), None if frozen else choose)


def _are(now: Any, parts: Any) -> bool:
    return len(now) == len(parts) and all(part is before for part, before in zip(now, parts, strict=True))


def _all_current(sources: list[Source]) -> bool:
    return all(source.is_current() for source in sources)


def _all_steady(sources: list[Source]) -> bool:
    return all(source.steady for source in sources)


_MAKERS: dict[type, Callable[[Any], Source]] = {
    torch.Tensor: _tensor,
    TensorDataset: _tensor_dataset,
    np.ndarray: _array,
    np.memmap: _array,
    range: _range,
    Subset: _subset,
    ConcatDataset: _concatenated,
    StackDataset: _stacked,
}
# The functions as torch defines them; a program may replace them later.
_STOCK = {kind: _functions_of(kind) for kind in (TensorDataset, Subset, ConcatDataset, StackDataset)}
