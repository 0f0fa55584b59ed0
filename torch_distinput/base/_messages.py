# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""How the values of a message between a process and its workers are pickled where native code does not take them.

The memory of tensors, numpy arrays and all else that has buffers in pickle's protocol 5 travels beside the pickle.
"""

import ctypes
import io
import pickle
import sys
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch

from torch_distinput.base._structure import is_plain

_INLINE = 256  # bytes; smaller buffers stay in the pickle


def pickle_value(value: Any, buffers: list[Any] | None) -> bytes:
    """`value` as bytes. Buffers of at least `_INLINE` bytes are appended to `buffers`, unless that is None."""
    target = io.BytesIO()
    callback = None if buffers is None else lambda buffer: _put_beside(buffer, buffers)
    _Pickler(target, pickle.HIGHEST_PROTOCOL, True, callback).dump(value)
    return target.getvalue()


def unpickle_value(text: bytes, buffers: list[Any] | None) -> Any:
    """The counterpart of `pickle_value`; the value shares the memory of `buffers`."""
    return pickle.loads(text, buffers=buffers)


def _put_beside(buffer: pickle.PickleBuffer, buffers: list[Any]) -> bool:
    memory = buffer.raw()
    if memory.nbytes < _INLINE:
        return True
    buffers.append(memory)
    return False


class _Pickler(ForkingPickler):
    """multiprocessing's pickler, by which torch shares all memory that is not plain CPU memory."""

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if kind is torch.Tensor and is_plain(value):
            place = (value.storage_offset(), tuple(value.shape), value.stride())
            return _tensor, (value.untyped_storage(), value.dtype, *place)
        if kind is torch.UntypedStorage and value.device.type == "cpu":
            memory = (ctypes.c_ubyte * value.nbytes()).from_address(value.data_ptr()) if value.nbytes() else b""
            return _storage, (pickle.PickleBuffer(memory),)
        if kind is getattr(sys.modules.get("numpy"), "ndarray", None):
            # As from torch's workers, which do not use protocol 5, arrays arrive writable and in native byte order.
            if not value.dtype.isnative:
                return value.astype(value.dtype.newbyteorder("=")).__reduce_ex__(pickle.HIGHEST_PROTOCOL)
            if not value.flags.writeable and not value.dtype.hasobject:
                return _writable(value).__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        return NotImplemented


def _writable(array: Any) -> Any:
    """A writable array of the same values, in the same memory if that is contiguous. Nothing writes to it here, but
    pickle passes the flag on."""
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
