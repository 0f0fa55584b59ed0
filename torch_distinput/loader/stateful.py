# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Datasets, samplers and iterators of the user's that follow the `Stateful` protocol."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any


def has_state(value: Any) -> bool:
    """Whether `value` follows the `Stateful` protocol."""
    return callable(getattr(value, "state_dict", None)) and callable(getattr(value, "load_state_dict", None))


class Failed:
    """Stands for a state that could not be had. The error is raised when somebody asks for it: a loop does not."""

    def __init__(self, error: Exception):
        self.error = error

    def __call__(self) -> Any:
        raise self.error


class Taken:
    """A state that may not change any more."""

    def __init__(self, state: Any):
        self._state = state

    def __call__(self) -> Any:
        return self._state


def take_state(stateful: Any) -> Taken | Failed:
    """The state of now, for later; what the user hands out may be what he goes on to write to."""
    return attempt(lambda: copy.deepcopy(stateful.state_dict()))


def attempt(ask: Callable[[], Any]) -> Taken | Failed:
    """What `ask` returns or raises, for later."""
    try:
        return Taken(ask())
    except Exception as error:  # noqa: BLE001: anything may be raised by a function of the user's
        return Failed(error)
