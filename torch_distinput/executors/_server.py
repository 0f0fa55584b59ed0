# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Answers requests in a worker, and reads the answers where they were asked for.

An answer is a value in the format of shared batches: nothing of it is unpickled. An error travels as the names of its
classes, its message, its notes and its traceback.
"""

from __future__ import annotations

import builtins
import json
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from torch_distinput import _C
from torch_distinput.base._batch_format import Packed, pack, view
from torch_distinput.executors._engine import Work

_MADE, _FAILED = "made", "failed"
_BYTES = b"\0"  # begins a request that is bytes, and no JSON


def encoded(request: Any) -> bytes:
    """A request, a bytearray or plain values that JSON holds, as it travels."""
    if isinstance(request, bytearray):
        return _BYTES + request
    return json.dumps(request, separators=(",", ":")).encode()


def decoded(request: bytes) -> Any:
    """What was `encoded`; bytes as a view of `request`."""
    return memoryview(request)[len(_BYTES) :] if request.startswith(_BYTES) else json.loads(request)


class Server:
    """Does `work`, which is opened at the first request, so that its errors are answers too."""

    def __init__(self, work: Work):
        self._work = work
        self._make: Callable[[Any], Any] | None = None

    def answer(self, request: bytes) -> Packed:
        """The answer, which must be copied before the next request."""
        began = time.perf_counter()
        try:
            if self._make is None:
                self._make = self._work.open()
            value = self._make(decoded(request))
            packed = value if isinstance(value, Packed) else pack(value, "`executor`")
            return packed.behind(_MADE, time.perf_counter() - began)
        except Exception as error:  # noqa: BLE001 - of the user's pipeline: who asked raises it
            return pack(described(error)).behind(_FAILED, time.perf_counter() - began)


class Made(NamedTuple):
    """A value, or the error that was raised instead, and the seconds that the worker took for it."""

    seconds: float
    value: Any
    error: Exception | None = None


def read_answer(memory: Any, slab: torch.Tensor | None = None) -> Made:
    """The answer in `memory`, of which the value's tensors are views. `slab` as of `Answer`. Raises
    DistributedDatasetError for memory that no `Server` has filled."""
    kind, seconds, value = _checked(view(memory, slab))
    return Made(seconds, value) if kind == _MADE else Made(seconds, None, rebuilt(value))


def _checked(answer: Any) -> tuple[str, float, Any]:
    if type(answer) is tuple and len(answer) == 3 and answer[0] in (_MADE, _FAILED) and type(answer[1]) is float:
        return answer
    raise _C.DistributedDatasetError("DataLoader: the answer of a worker of `executor` breaks its format.")


def described(error: Exception) -> list[Any]:
    """An error as texts."""
    kinds = [kind.__name__ for kind in type(error).__mro__]
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    notes = [str(note) for note in getattr(error, "__notes__", ())]
    return [kinds, str(error), notes, "".join(lines)]


def rebuilt(texts: Any) -> Exception:
    """A described error, of the nearest class that every process knows, whose cause shows the worker's traceback."""
    kinds, message, notes, text = texts
    error = next(filter(None, (_of_kind(kind, message) for kind in kinds)), RuntimeError(message))
    if hasattr(error, "add_note"):  # from Python 3.11 on
        for note in notes:
            error.add_note(note)
    error.__cause__ = RaisedInWorker(text)
    return error


def _of_kind(name: str, message: str) -> Exception | None:
    kind = getattr(builtins, name, None) or getattr(_C, name, None)
    if not isinstance(kind, type) or not issubclass(kind, Exception) or kind in (Exception, StopIteration):
        return None
    try:
        return kind(message)
    except TypeError:  # one whose arguments are others
        return None


class RaisedInWorker(Exception):
    """Shows the traceback of an exception in the worker that raised it."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'
