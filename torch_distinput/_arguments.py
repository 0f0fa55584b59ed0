# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Plain arguments as the native library takes them.

It would refuse others too, but by a text that names neither the op nor the parameter nor the value. Each function
raises TypeError for a value of another type and ValueError for a number that does not fit; both name all of them.
"""

import operator
from collections.abc import Callable
from typing import Any, TypeVar

import torch

T = TypeVar("T")

_INT64 = range(-(2**63), 2**63)


def integer(op: str, name: str, value: Any) -> int:
    """An int, or what stands for one (`__index__`: numpy's integers); a bool does not."""
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
    return None if value is None else integer(op, name, value)


def number(op: str, name: str, value: Any) -> float:
    """A float, or what stands for one (`__float__` or `__index__`); strings and bools do not."""
    try:
        if isinstance(value, (bool, str, bytes, bytearray)):
            raise TypeError
        return float(value)
    except TypeError:
        raise _wrong_type(op, name, "a number", value) from None
    except OverflowError:
        raise _too_large(op, name, value) from None


def is_flag(value: Any) -> bool:
    """Whether it is a bool of Python's, or of any numpy's, without importing that."""
    return type(value).__name__ in ("bool", "bool_")


def flag(op: str, name: str, value: Any) -> bool:
    if not is_flag(value):
        raise _wrong_type(op, name, "a bool", value)
    return bool(value)


def text(op: str, name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong_type(op, name, "a str", value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{op}: `{name}` must be text, but is {value!r}.") from None
    return value


def device(op: str, name: str, value: Any) -> str:
    """The name of a device, such as "cuda:0", from one or from a torch.device."""
    if isinstance(value, torch.device):
        return str(value)
    return text(op, name, value)


def devices(op: str, value: Any) -> list[str]:
    """None and no device: those of the environment."""
    if isinstance(value, (str, torch.device)):
        raise _wrong_type(op, "devices", "a list of devices", value)
    return [] if value is None else sequence(op, "devices", value, device)


def optional_text(op: str, name: str, value: Any) -> str | None:
    return None if value is None else text(op, name, value)


def sequence(op: str, name: str, value: Any, check: Callable[[str, str, Any], T]) -> list[T]:
    """What an iterable holds, each through `check`, for which entry 0 is `name[0]`."""
    try:
        if isinstance(value, str):
            raise TypeError
        entries = list(value)
    except TypeError:
        raise _wrong_type(op, name, "a sequence", value) from None
    return [check(op, f"{name}[{index}]", entry) for index, entry in enumerate(entries)]


def instance(op: str, name: str, value: Any, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"{op}: `{name}` must be of type {kind.__name__}, but is a {type(value).__name__}.")
    return value


def function(op: str, name: str, value: T) -> T:
    if not callable(value):
        raise TypeError(f"{op}: `{name}` must be callable, but is a {type(value).__name__}.")
    return value


def _wrong_type(op: str, name: str, kind: str, value: Any) -> TypeError:
    return TypeError(f"{op}: `{name}` must be {kind}, but is {value!r}.")


def _too_large(op: str, name: str, value: Any) -> ValueError:
    return ValueError(f"{op}: `{name}` must fit in 64 bits, but is {value!r}.")
