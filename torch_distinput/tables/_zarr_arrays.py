# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Zarr arrays as tables: rows lie along the first axis, and the rows of a chunk are a block."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from torch_distinput import _C


@dataclass(frozen=True)
class _Arrays:
    """Arrays by name, of `rows` rows each, which are read `step` at a time. An array that stands alone is named ""."""

    arrays: dict[str, Any]
    rows: int
    step: int

    @property
    def is_group(self) -> bool:
        return "" not in self.arrays


class ZarrArrays:
    """Reads blocks of rows with zarr; calls come from any thread. Files, names as bytes, are arrays or groups of them,
    which are opened once. Errors are InvalidArgumentError, NotFoundError or OSError (RemoteError for objects), and name
    op and file."""

    def __init__(self, op: str):
        self._op = op
        self._lock = threading.Lock()
        self._opened: dict[bytes, _Arrays] = {}

    def __reduce__(self) -> Any:
        raise TypeError(f"{self._op}: a reader of files cannot be pickled.")

    def count_rows(self, files: list[bytes]) -> list[list[int]]:
        """Rows in each block of each file."""
        return [[len(block) for block in _blocks(self._arrays(file))] for file in files]

    def lacks_index(self, files: list[bytes]) -> bool:
        """As in `BlockFiles`: shapes say how many rows there are."""
        return False

    def will_read(self, file: bytes, blocks: list[int], most: int) -> list[int]:
        """As in `BlockFiles`; zarr asks for the chunks of a block side by side when it reads them."""
        return []

    def schema(self, file: bytes) -> Any:
        """The Arrow type of the rows: a schema for a group, a field for an array."""
        import pyarrow

        found = self._arrays(file)
        fields = [pyarrow.field(name, _type(array), nullable=False) for name, array in found.arrays.items()]
        return pyarrow.schema(fields) if found.is_group else fields[0]

    def read(self, file: bytes, block: int) -> Any:
        """One block, as a table of one chunk for a group, as an array for an array."""
        import pyarrow

        found = self._arrays(file)
        rows = _blocks(found)[block]
        with self._errors(file, f"rows {rows.start} to {rows.stop - 1}: "):
            columns = [_column(array[rows.start : rows.stop]) for array in found.arrays.values()]
        if not found.is_group:
            return pyarrow.chunked_array(columns)
        return pyarrow.Table.from_arrays(columns, schema=self.schema(file))

    def _arrays(self, file: bytes) -> _Arrays:
        with self._lock:
            known = self._opened.get(file)
        if known is None:
            with self._errors(file):
                known = self._open(file)
            with self._lock:
                self._opened[file] = known
        return known

    def _open(self, file: bytes) -> _Arrays:
        import zarr

        found = zarr.open(store_of(self._op, os.fsdecode(file)), mode="r")
        if isinstance(found, zarr.Array):
            arrays = {"": found}
        elif found.store.supports_listing or found.metadata.consolidated_metadata is not None:
            arrays = dict(sorted(found.arrays()))
        else:
            raise ValueError("a group at a URL needs consolidated metadata: zarr.consolidate_metadata writes it")
        if not arrays:
            raise ValueError("the group has no arrays")
        for name, array in arrays.items():
            fault = _fault(array)
            if fault:
                raise ValueError(f"array {name!r} {fault}" if name else f"the array {fault}")
        lengths = {name: array.shape[0] for name, array in arrays.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the arrays of a group must have the same number of rows, but have {lengths}")
        step = max(array.chunks[0] for array in arrays.values())
        return _Arrays(arrays, next(iter(lengths.values())), step)

    @contextlib.contextmanager
    def _errors(self, file: bytes, place: str = "") -> Iterator[None]:
        shown = _C.shown_url(file) if _C.names_object(file) else os.fsdecode(file)
        try:
            yield
        except (_C.InvalidArgumentError, _C.NotFoundError, _C.RemoteError):
            raise
        except FileNotFoundError:
            raise _C.NotFoundError(f"{self._op}: {shown}: there is no zarr array or group.") from None
        except OSError as error:
            if error.errno:  # an error of the system
                raise
            raise _C.InvalidArgumentError(f"{self._op}: {shown}: {place}{error}.") from None
        except Exception as error:  # noqa: BLE001 - codecs raise errors of many kinds for damaged chunks
            raise _C.InvalidArgumentError(f"{self._op}: {shown}: {place}{error}.") from None


def _blocks(arrays: _Arrays) -> list[range]:
    return [range(begin, min(begin + arrays.step, arrays.rows)) for begin in range(0, arrays.rows, arrays.step)]


def _fault(array: Any) -> str:
    """Why the rows of an array are no tensors; empty where they are."""
    if not array.shape:
        return "has no axis, but rows lie along the first one"
    if 0 in array.shape[1:]:
        return f"has rows without values: its shape is {array.shape}"
    if not isinstance(array.dtype, np.dtype) or array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        return f"has values of type {array.dtype}, but only booleans, integers and floats are read"
    return ""


def _type(array: Any) -> Any:
    import pyarrow

    type_ = pyarrow.from_numpy_dtype(array.dtype.newbyteorder("="))
    for size in reversed(array.shape[1:]):
        type_ = pyarrow.list_(pyarrow.field("item", type_, nullable=False), size)
    return type_


def _column(values: Any) -> Any:
    """Rows as Arrow has them; numbers are not copied."""
    import pyarrow

    values = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
    column = pyarrow.array(values.reshape(-1))
    for size in reversed(values.shape[1:]):
        item = pyarrow.field("item", column.type, nullable=False)
        column = pyarrow.FixedSizeListArray.from_arrays(column, type=pyarrow.list_(item, size))
    return column


def store_of(op: str, name: str) -> Any:
    """What zarr opens for a path or URL."""
    if not _C.names_object(name.encode()):
        return name
    from torch_distinput.tables._zarr_store import ObjectStore

    return ObjectStore(op, name)
