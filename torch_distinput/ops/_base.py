# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The base of the families of ops, which are bases of `Dataset` themselves."""

from typing import Any, Generic, NamedTuple, TypeVar

from torch_distinput import _C

Dataset = TypeVar("Dataset", bound="Ops[Any]")  # the class that all families make up, so that its docstrings name it


class Call(NamedTuple):
    """The call that made a dataset: the name of an op or a class, and the arguments, input datasets among them."""

    op: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Ops(Generic[Dataset]):
    """What a family of ops needs of `Dataset`: its handle in C++, the call that made it, and a dataset of another
    handle."""

    _native: _C.Dataset
    _call: Call | None

    @classmethod
    def _wrapped(cls, native: _C.Dataset) -> Dataset:
        raise NotImplementedError


def native_of(dataset: Any) -> _C.Dataset:
    """The handle in C++ of `dataset`."""
    return dataset._native


def call_of(dataset: Any) -> Call | None:
    """The call that made `dataset`; None where native code made it."""
    return dataset._call


def remember(dataset: Any, call: Call) -> None:
    """`dataset` remembers that `call` made it."""
    dataset._call = call


def checked_native(op: str, name: str, value: Any) -> _C.Dataset:
    """The handle of an argument, which must be a dataset; else TypeError."""
    if not isinstance(value, Ops):
        raise TypeError(f"{op}: `{name}` must be of type Dataset, but is a {type(value).__name__}.")
    return value._native
