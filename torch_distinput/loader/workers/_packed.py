# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Values that are pickled once, into shared memory, for all processes that are not forked from this one."""

import contextlib
import fcntl
import mmap
import os
import pickle
import time
from multiprocessing import context
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

import torch

# Seconds after which a process unpickles though others still do: users' code may wait for a file or a network there.
_PATIENCE = 2.0
_PAUSE = 0.005

_descriptors: list[int] = []  # of this process, for what it unpickles


class Packed:
    """A pickle of `value` that several processes may read, each once. `is_shared`: whether they may: a value with
    memory that torch shares with one reader at a time needs a pickle for each.

    Raises what pickling raises. To be passed to a process that is being started, which calls `open`.
    """

    def __init__(self, value: Any):
        # Pickling may put descriptors beside the pickle, which live as long as `value`.
        beside: Any = _Beside()
        self._value, self._beside = value, beside
        self._fd = os.memfd_create("torch_distinput_start")
        try:
            with open(self._fd, "wb", closefd=False) as file:
                pickler = _Pickler(file, pickle.HIGHEST_PROTOCOL)
                context.set_spawning_popen(self._beside)
                try:
                    pickler.dump(value)
                finally:
                    context.set_spawning_popen(None)
        except BaseException:
            self.close()
            raise
        self.is_shared = pickler.is_shared

    def close(self) -> None:
        """Frees the memory once no process reads it."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def __del__(self) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return Arrived, (DupFd(self._fd), [DupFd(fd) for fd in self._beside.descriptors])


class Arrived:
    """`Packed` in the process to which it was passed."""

    def __init__(self, fd: Any, beside: list[Any]):
        self._fd, self._beside = fd, beside

    def open(self) -> Any:
        """The value, as it was pickled."""
        global _descriptors
        _descriptors = [each.detach() for each in self._beside]
        fd = self._fd.detach()
        _take_turn(fd)
        try:
            with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as memory:
                return pickle.loads(memory)
        finally:
            os.close(fd)


def _take_turn(fd: int) -> None:
    """Waits while as many processes as there are CPUs unpickle `fd`: the first workers, whose batches are wanted first,
    would be as late as the last. The turn ends when `fd` is closed."""
    slots, end = len(os.sched_getaffinity(0)), time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        for slot in range(slots):
            with contextlib.suppress(OSError):  # taken
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, slot)
                return
        time.sleep(_PAUSE)


class _Beside:
    """Stands for the process that is being started while values are pickled, and collects their descriptors."""

    def __init__(self) -> None:
        self.descriptors: list[int] = []

    def duplicate_for_child(self, descriptor: int) -> int:
        self.descriptors.append(descriptor)
        return len(self.descriptors) - 1

    class DupFd:
        """A descriptor, by its place among those beside the pickle."""

        def __init__(self, place: int):
            self._place = place

        def detach(self) -> int:
            """The descriptor in this process."""
            return _descriptors[self._place]


class _Pickler(ForkingPickler):
    """multiprocessing's pickler, which notes what only one process may unpickle."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.is_shared = torch.multiprocessing.get_sharing_strategy() == "file_descriptor"

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, (torch.Tensor, torch.UntypedStorage)) and value.device.type != "cpu":
            self.is_shared = False
        return NotImplemented
