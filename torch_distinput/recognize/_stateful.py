# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""States of the user's datasets, samplers and iterators: the protocol `Stateful` of torch.distributed.checkpoint."""

import copy
from collections.abc import Callable
from typing import Any

from torch_distinput.recognize import _hugging_face as hugging_face


def has_state(value: Any) -> bool:
    """Whether `value` follows the `Stateful` protocol, and its states leave nothing out."""
    if not (callable(getattr(value, "state_dict", None)) and callable(getattr(value, "load_state_dict", None))):
        return False
    return not hugging_face.has_shuffle_buffer(value)


class Failed:
    """A state that could not be taken. Calling it raises the error, so that a loop which never saves does not fail."""

    def __init__(self, error: Exception):
        self.error = error

    def __call__(self) -> Any:
        raise self.error


class Taken:
    """A state that was taken. Calling it returns it; it must not be changed any more."""

    def __init__(self, state: Any):
        self._state = state

    def __call__(self) -> Any:
        return self._state


def take_state(stateful: Any) -> Taken | Failed:
    """The current state, copied, because the object that `state_dict` returns may change with its owner."""
    return attempt(lambda: copy.deepcopy(stateful.state_dict()))


def attempt(ask: Callable[[], Any]) -> Taken | Failed:
    """The result or the error of `ask`, for later."""
    try:
        return Taken(ask())
    except Exception as error:  # noqa: BLE001 - a function of the user's may raise anything
        return Failed(error)
