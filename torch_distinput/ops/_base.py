# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The base of the families of ops, which are bases of `Dataset` themselves."""

from typing import Any, Generic, TypeVar

from torch_distinput import _C

Dataset = TypeVar("Dataset", bound="Ops[Any]")  # the class that all families make up, so that its docstrings name it


class Ops(Generic[Dataset]):
    """What a family of ops needs of `Dataset`: its handle in C++, and a dataset of another handle."""

    _native: _C.Dataset

    @classmethod
    def _wrapped(cls, native: _C.Dataset) -> Dataset:
        raise NotImplementedError


def native_of(dataset: Any) -> _C.Dataset:
    """The handle in C++ of `dataset`."""
    return dataset._native


def checked_native(op: str, name: str, value: Any) -> _C.Dataset:
    """The handle of an argument, which must be a dataset; else TypeError."""
    if not isinstance(value, Ops):
        raise TypeError(f"{op}: `{name}` must be of type Dataset, but is a {type(value).__name__}.")
    return value._native
