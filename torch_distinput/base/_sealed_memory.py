# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A batch in memory of its own, which processes pass to each other by a descriptor.

The memory has no name in the file system, and ends with the last process that has it. It is sealed once it is written:
nobody can change what others have checked, and what a process writes to its batch later, only that process sees.
"""

import fcntl
import mmap
import os
from collections.abc import Callable
from typing import Any

from torch_distinput import _C
from torch_distinput.base._batch_format import Packed, pack, view

_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


def write_sealed(value: Any, names: tuple[str, ...] = ()) -> int:
    """A descriptor of memory that holds `value`, which the caller closes. `names` and TypeError as for `pack`; OSError
    where there is no memory."""
    return seal(pack(value, names=names))


def seal(packed: Packed) -> int:
    """`write_sealed` of what was packed."""
    fd = os.memfd_create("torch_distinput_batch", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, packed.whole_size)
        for place, piece in packed.pieces():
            _write(fd, piece, place)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS | fcntl.F_SEAL_SEAL)
    except BaseException:
        os.close(fd)
        raise
    return fd


def sealed_from(size: int, receive: Callable[[int], bytes]) -> int:
    """A descriptor of memory with the next `size` bytes that `receive` returns, which gets how many are left. Raises
    EOFError where they end before."""
    fd = os.memfd_create("torch_distinput_batch", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        place = 0
        while place < size:
            some = receive(size - place)
            if not some:
                raise EOFError
            _write(fd, memoryview(some), place)
            place += len(some)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS | fcntl.F_SEAL_SEAL)
    except BaseException:
        os.close(fd)
        raise
    return fd


def map_sealed(fd: int) -> mmap.mmap:
    """The memory behind `fd`, which this function closes: writes to it stay in this process. Raises
    DistributedDatasetError for memory that others could still change."""
    try:
        if fcntl.fcntl(fd, fcntl.F_GET_SEALS) & _SEALS != _SEALS:
            raise _C.DistributedDatasetError("DataLoader: the batch of another process must be sealed, but is not.")
        return mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    except (OSError, ValueError) as error:
        raise _C.DistributedDatasetError(
            f"DataLoader: the batch of another process cannot be mapped: {error}"
        ) from None
    finally:
        os.close(fd)


def read_sealed(fd: int) -> Any:
    """The value in the memory behind `fd`, which this function closes. Its tensors and arrays are views of the memory,
    which is freed with the last of them. Raises DistributedDatasetError for memory that `write_sealed` has not made."""
    return view(map_sealed(fd))


def _write(fd: int, data: memoryview, place: int) -> None:
    data = data.cast("B")
    while len(data):
        written = os.pwrite(fd, data, place)
        data, place = data[written:], place + written
