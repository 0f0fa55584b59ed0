# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""How processes start."""

import contextlib
import multiprocessing
import pickle
from collections.abc import Iterator
from typing import Any

from torch_distinput.base._fork_server import start_server


def start_method(context: Any = None) -> str:
    """How `context` of multiprocessing starts processes; None: the default. `get_start_method()` alone would fix that
    for the whole program."""
    if context is not None:
        return context.get_start_method()
    return multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]


def default_context() -> Any:
    """The context of multiprocessing for processes that start by the default method. The server of forks, where they
    come from it, has this library loaded."""
    method = start_method()
    if method == "forkserver":
        start_server()
    return multiprocessing.get_context(method)


@contextlib.contextmanager
def start_explained(
    process: str, sent: str, method: str, fork: str = '`multiprocessing.set_start_method("fork")` was called'
) -> Iterator[None]:
    """Says of an error that it was raised by the start of a `process`, and what to do where pickle raised it, because
    it cannot write down what is `sent` there. `fork`: what lets processes share that without a pickle."""
    try:
        yield
    except Exception as error:
        if hasattr(error, "add_note"):  # from Python 3.11 on
            note = f"raised by the start of {process} by the method {method!r}"
            if method != "fork" and isinstance(error, (AttributeError, TypeError, pickle.PicklingError)):
                note += f", which pickles {sent}: functions and classes must be at the top level of a module, "
                note += f"unless {fork}"
            error.add_note(note)
        raise
