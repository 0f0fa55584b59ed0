# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Checks arguments and converts them to the types that the native library takes.

pybind11 would refuse wrong types too, but its message names neither the op nor the parameter nor the value. Each
function raises TypeError for a value of another type and ValueError for a value that does not fit; both name all three.
"""

import operator
import os
from collections.abc import Callable
from typing import Any, TypeVar

import torch

T = TypeVar("T")
Path = str | bytes | os.PathLike

_INT64 = range(-(2**63), 2**63)


def integer(op: str, name: str, value: Any) -> int:
    """An int, or a value with `__index__`, such as numpy's integers; a bool is refused."""
    try:
        if isinstance(value, bool):
            raise TypeError
        result = operator.index(value)
    except TypeError:
        raise _wrong_type(op, name, "an int", value) from None
    if result not in _INT64:
        raise _too_large(op, name, value)
    return result


def count(op: str, name: str, value: Any, least: int = 0) -> int:
    """An int of at least `least`."""
    result = integer(op, name, value)
    if result < least:
        raise ValueError(f"{op}: `{name}` must be at least {least}, but is {result}.")
    return result


def optional_integer(op: str, name: str, value: Any) -> int | None:
    """As `integer`; None stays None."""
    return None if value is None else integer(op, name, value)


def number(op: str, name: str, value: Any) -> float:
    """A float, or a value with `__float__` or `__index__`; strings and bools are refused."""
    try:
        if isinstance(value, (bool, str, bytes, bytearray)):
            raise TypeError
        return float(value)
    except TypeError:
        raise _wrong_type(op, name, "a number", value) from None
    except OverflowError:
        raise _too_large(op, name, value) from None


def is_flag(value: Any) -> bool:
    """Whether `value` is a Python bool or a numpy bool; compares names, so that numpy need not be imported."""
    return type(value).__name__ in ("bool", "bool_")


def flag(op: str, name: str, value: Any) -> bool:
    """A bool, of Python or numpy."""
    if not is_flag(value):
        raise _wrong_type(op, name, "a bool", value)
    return bool(value)


def text(op: str, name: str, value: Any) -> str:
    """A `str` that UTF-8 can hold (ValueError for one with lone surrogates)."""
    if not isinstance(value, str):
        raise _wrong_type(op, name, "a str", value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{op}: `{name}` must be text, but is {value!r}.") from None
    return value


def device(op: str, name: str, value: Any) -> str:
    """The name of a device, such as "cuda:0", from a name or a torch.device."""
    if isinstance(value, torch.device):
        return str(value)
    return text(op, name, value)


def devices(op: str, value: Any) -> list[str]:
    """The names of devices, from a sequence of names and torch.devices. None gives an empty list: the strategy then
    takes the devices of the environment."""
    if isinstance(value, (str, torch.device)):
        raise _wrong_type(op, "devices", "a list of devices", value)
    return [] if value is None else sequence(op, "devices", value, device)


def optional_text(op: str, name: str, value: Any) -> str | None:
    """As `text`; None stays None."""
    return None if value is None else text(op, name, value)


def sequence(op: str, name: str, value: Any, check: Callable[[str, str, Any], T]) -> list[T]:
    """The entries of an iterable, each converted by `check(op, "name[index]", entry)`; a `str` is refused."""
    try:
        if isinstance(value, str):
            raise TypeError
        entries = list(value)
    except TypeError:
        raise _wrong_type(op, name, "a sequence", value) from None
    return [check(op, f"{name}[{index}]", entry) for index, entry in enumerate(entries)]


def instance(op: str, name: str, value: Any, kind: type[T]) -> T:
    """`value`, which must be an instance of `kind`."""
    if not isinstance(value, kind):
        raise TypeError(f"{op}: `{name}` must be of type {kind.__name__}, but is a {type(value).__name__}.")
    return value


def function(op: str, name: str, value: T) -> T:
    """`value`, which must be callable."""
    if not callable(value):
        raise TypeError(f"{op}: `{name}` must be callable, but is a {type(value).__name__}.")
    return value


def file_names(paths: Any, where: str) -> list[bytes]:
    """One path or several as file names in the file system's encoding. `where` begins the TypeError's message."""
    if isinstance(paths, (str, bytes, os.PathLike)):
        paths = [paths]
    try:
        return [os.fsencode(path) for path in paths]
    except TypeError:
        raise TypeError(f"{where} must be a path or paths, but is {paths!r}.") from None


def _wrong_type(op: str, name: str, kind: str, value: Any) -> TypeError:
    return TypeError(f"{op}: `{name}` must be {kind}, but is {value!r}.")


def _too_large(op: str, name: str, value: Any) -> ValueError:
    return ValueError(f"{op}: `{name}` must fit in 64 bits, but is {value!r}.")
