# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Memory that one process writes batches to, again and again, and that devices copy from in another one.

So the system makes its pages once, and a process that reads maps and page-locks them once. Nobody else sees the batches
that lie in it: what is not copied to a device is copied out of it.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import weakref
from collections.abc import Callable
from typing import Any

import numpy
import torch

from torch_distinput import _C
from torch_distinput.base import _page_locks as page_locks
from torch_distinput.base._batch_format import Packed

_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW  # a mapping of it cannot lose its pages
_LEAST = 1 << 16  # bytes


class WrittenSlab:
    """A slab with room for `size` bytes or more, in the process that writes. `descriptor` ends with it. OSError where
    there is no memory."""

    def __init__(self, size: int):
        self.size = max(_LEAST, 1 << (size - 1).bit_length())
        self.descriptor = os.memfd_create("torch_distinput_slab", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.descriptor, self.size)
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, _SEALS | fcntl.F_SEAL_SEAL)
            self._memory = mmap.mmap(self.descriptor, self.size)
        except BaseException:
            os.close(self.descriptor)
            raise

    def write(self, packed: Packed) -> None:
        """Writes over what the slab holds; `packed` has room in it."""
        for begin, piece in packed.pieces():
            self._memory[begin : begin + piece.nbytes] = piece

    def __del__(self) -> None:
        if "_memory" in self.__dict__:
            os.close(self.descriptor)


class ReadSlab:
    """The mapping of a slab, page-locked where the accelerator can do that, until nothing needs it. Raises
    DistributedDatasetError for memory that `WrittenSlab` has not made."""

    def __init__(self, fd: int):
        try:
            self.size = os.fstat(fd).st_size
            if fcntl.fcntl(fd, fcntl.F_GET_SEALS) & _SEALS != _SEALS or self.size < _LEAST:
                raise _C.DistributedDatasetError("DataLoader: the slab of another process must be sealed, but is not.")
            self._memory = mmap.mmap(fd, self.size)
        except (OSError, ValueError) as error:
            raise _C.DistributedDatasetError(
                f"DataLoader: the batch of another process cannot be mapped: {error}"
            ) from None
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._locked_by = 0
        if page_locks.obstacle() is None and page_locks.lock(self._address, self.size):
            self._locked_by = os.getpid()

    def lent(self, free: Callable[[], Any]) -> torch.Tensor:
        """The memory as a tensor of bytes. `free` is called, in any thread, once nothing views it any more."""
        root = numpy.frombuffer(self._memory, numpy.uint8)
        weakref.finalize(root, _freed, free, self).atexit = False
        return torch.from_numpy(root)

    def __del__(self) -> None:
        if self.__dict__.get("_locked_by") == os.getpid():
            page_locks.unlock(self._address)


def _freed(free: Callable[[], Any], _: ReadSlab) -> None:
    free()
