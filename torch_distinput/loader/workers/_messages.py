# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""How the values of a message between a DataLoader and its workers are pickled where native code does not take them.

Progress travels beside the pickle: of tensors, numpy arrays and whatever else has buffers in pickle's protocol 5.
"""

from __future__ import annotations

import ctypes
import io
import pickle
import sys
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch._utils import ExceptionWrapper

from torch_distinput.base._tensors import is_plain

_INLINE = 256  # bytes; a buffer of less is not worth a place of its own


def pickle_value(value: Any, buffers: list[Any] | None) -> bytes:
    """`value` as bytes. Progress of `_INLINE` bytes and more is appended to `buffers`; None: the bytes hold it too."""
    target = io.BytesIO()
    callback = None if buffers is None else lambda buffer: _put_beside(buffer, buffers)
    _Pickler(target, pickle.HIGHEST_PROTOCOL, True, callback).dump(value)
    return target.getvalue()


def unpickle_value(text: bytes, buffers: list[Any] | None) -> Any:
    """The counterpart of `pickle_value`; the value shares the memory of `buffers`."""
    return pickle.loads(text, buffers=buffers)


def unreadable(error: Exception) -> ExceptionWrapper:
    """What stands for the result of a task that cannot be unpickled."""
    return ExceptionWrapper((type(error), error, error.__traceback__), "when a DataLoader read a worker's result")


def _put_beside(buffer: pickle.PickleBuffer, buffers: list[Any]) -> bool:
    memory = buffer.raw()
    if memory.nbytes < _INLINE:
        return True
    buffers.append(memory)
    return False


class _Pickler(ForkingPickler):
    """multiprocessing's, which knows how torch shares what is not plain memory of the CPU."""

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if kind is torch.Tensor and is_plain(value):
            place = (value.storage_offset(), tuple(value.shape), value.stride())
            return _tensor, (value.untyped_storage(), value.dtype, *place)
        if kind is torch.UntypedStorage and value.device.type == "cpu":
            memory = (ctypes.c_ubyte * value.nbytes()).from_address(value.data_ptr()) if value.nbytes() else b""
            return _storage, (pickle.PickleBuffer(memory),)
        if kind is getattr(sys.modules.get("numpy"), "ndarray", None):
            # Without protocol 5, which torch's workers do not use, it arrives writable and in the machine's byte order.
            if not value.dtype.isnative:
                return value.astype(value.dtype.newbyteorder("=")).__reduce_ex__(pickle.HIGHEST_PROTOCOL)
            if not value.flags.writeable and not value.dtype.hasobject:
                return _writable(value).__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        return NotImplemented


def _writable(array: Any) -> Any:
    """An array of the same values that may be written to, with the same memory where that lies in one piece: nobody
    writes here, but pickle passes on whether one may."""
    if array.nbytes == 0 or not array.flags.forc:
        return array.copy()
    memory = (ctypes.c_ubyte * array.nbytes).from_address(array.ctypes.data)
    return type(array)(array.shape, array.dtype, memory, order="C" if array.flags.c_contiguous else "F")


def _tensor(storage: Any, dtype: torch.dtype, offset: int, shape: Any, stride: Any) -> torch.Tensor:
    return torch.empty(0, dtype=dtype).set_(storage, offset, shape, stride)


def _storage(memory: Any) -> torch.UntypedStorage:
    if not len(memory := memoryview(memory)):
        return torch.UntypedStorage(0)
    return torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()
