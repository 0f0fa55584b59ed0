# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Functions that pickle cannot find by name, such as lambdas."""

import functools
import sys
from types import FunctionType
from typing import Any


def has_name(function: FunctionType) -> bool:
    """Whether `function` is found by its name in its module, as pickle looks for it."""
    try:
        module = sys.modules.get(function.__module__)
        return functools.reduce(getattr, function.__qualname__.split("."), module) is function
    except AttributeError:
        return False


class Unnamed:
    """A function without such a name, for a pickle. pickle itself fails with a message in which the function is called
    `what`; picklers that write functions down by their code, such as cloudpickle, do so."""

    def __init__(self, function: FunctionType, what: str):
        self.function = function
        self._what = what

    def __reduce__(self) -> tuple[Any, ...]:
        given = self.function
        called = FunctionType(given.__code__, given.__globals__, given.__name__, given.__defaults__, given.__closure__)
        functools.update_wrapper(called, given)
        vars(called).clear()
        vars(called).update(vars(given))
        called.__kwdefaults__ = given.__kwdefaults__
        called.__qualname__ = f"{self._what}, which is not at the top level of a module,"
        return _with_name, (called, given.__qualname__)


def _with_name(function: FunctionType, name: str) -> FunctionType:
    function.__qualname__ = name
    return function
