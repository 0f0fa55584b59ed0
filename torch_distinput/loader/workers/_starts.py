# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""How the processes of workers are started.

Forked ones share the objects of this process. All others come from multiprocessing's server of forks, which has this
library loaded, so that they need not import it; what they have in common is pickled once. multiprocessing alone would
give each spawned process its own interpreter and its own pickle, and wait for one after the other to read it.
"""

import contextlib
import gc
import multiprocessing
import operator
import os
from collections.abc import Iterator
from typing import Any

from torch_distinput import _C
from torch_distinput.base._fork_server import start_server
from torch_distinput.base._start_method import start_explained
from torch_distinput.loader.workers._packed import Packed
from torch_distinput.loader.workers._process import Place, SharedMemory, run_worker

_SENT = "the dataset, `collate_fn` and `worker_init_fn`"
_FORK = '`multiprocessing_context="fork"` is passed'


class ForkStarts:
    """Starts workers by forking this process."""

    def __init__(self, context: Any, end: _C.ConsumerEnd):
        self._context, self._end = context, end

    def process(self, worker: int, loop: Any, arguments: tuple[Any, ...]) -> Any:
        """A process for `worker`, which will run torch's `loop`."""
        parts = (SharedMemory(self._end), worker, loop, arguments)
        return self._context.Process(target=run_worker, args=parts, daemon=True)

    def start(self, process: Any) -> None:
        """Starts `process`."""
        with _frozen():
            process.start()

    def close(self) -> None:
        """To be called when no more processes are started."""
        self._end.close_fd()


class ServerStarts:
    """Starts workers by multiprocessing's server of forks, for the methods "forkserver" and "spawn"."""

    def __init__(self, end: _C.ConsumerEnd, method: str):
        self._end, self._method = end, method
        # A spawned process has the environment of this moment, the server's processes that of the server.
        self._environment = dict(os.environ) if method == "spawn" else {}
        self._packed: Packed | None = None
        self._values: list[Any] = []
        start_server()  # it imports while the values are pickled

    def process(self, worker: int, loop: Any, arguments: tuple[Any, ...]) -> Any:
        """A process for `worker`, which will run torch's `loop`. Raises what pickling raises."""
        values = [loop, *(value for value in arguments if not _is_own(value))]
        own = tuple(value if _is_own(value) else Place.PACKED for value in arguments)
        parts = (SharedMemory(self._end), worker, self._pack(values), own, self._environment)
        return multiprocessing.get_context("forkserver").Process(target=run_worker, args=parts, daemon=True)

    def start(self, process: Any) -> None:
        """Starts `process`."""
        process.start()

    def close(self) -> None:
        """To be called when no more processes are started."""
        self._end.close_fd()
        self._packed, self._values = None, []

    def _pack(self, values: list[Any]) -> Packed:
        """`values`, pickled once as long as they are the same objects."""
        same = len(values) == len(self._values) and all(map(_are_same, values, self._values))
        if self._packed is None or not self._packed.is_shared or not same:
            with start_explained("a worker", _SENT, self._method, _FORK):
                self._packed, self._values = Packed(values), values
        return self._packed


def _are_same(one: Any, other: Any) -> bool:
    """Whether two arguments of torch's loop are one object. torch 2.14 gives each worker the dataset in a new list."""
    if type(one) is type(other) is list:
        return len(one) == len(other) and all(map(operator.is_, one, other))
    return one is other


def _is_own(value: Any) -> bool:
    """Whether `value` differs from worker to worker, or is as short as its place in the common pickle."""
    return value is None or isinstance(value, (bool, int, str, Place))


# Whether objects that the user has frozen were ever found. Counting them takes 0.1 s where there are 700,000.
_user_freezes = False


@contextlib.contextmanager
def _frozen() -> Iterator[None]:
    """Hides all objects from the garbage collector while this process is forked: a collection in the child would write
    to their pages, which it shares until then. Objects that the user has frozen stay so, and alone."""
    global _user_freezes
    _user_freezes = _user_freezes or gc.get_freeze_count() > 0
    if _user_freezes:
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
