# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Objects that hold Arrow data, or can give it, as native datasets."""

import sys
from typing import Any

from torch_distinput import _C
from torch_distinput.recognize import _hugging_face as hugging_face
from torch_distinput.tables._arrow_checks import validated
from torch_distinput.tables._column_options import pyarrow_for


def native_arrow(x: Any, options: _C.ColumnOptions) -> _C.Dataset:
    """The rows of `x`; TypeError where it has no Arrow data."""
    if hugging_face.is_table(x):
        table, indices = hugging_face.table_of(x, "from_arrow")
        rows = _C.arrow_table(table, options)
        return rows if indices is None else rows.select(indices)
    if not hasattr(x, "__arrow_c_stream__"):
        x = _with_stream(x)
    if hasattr(x, "__len__"):
        return _C.arrow_table(validated("from_arrow", x), options)
    name = type(x).__name__
    schema = getattr(x, "schema", None)
    if not hasattr(schema, "__arrow_c_schema__"):
        schema = pyarrow_for("from_arrow").RecordBatchReader.from_stream(x).schema
    return _C.arrow_streams(_Streams(x), schema, name, options)


class _Streams:
    """Opens a stream anew for each iterator; a reader, which cannot go back, only once."""

    def __init__(self, x: Any):
        self._x = x
        self._once = hasattr(x, "read_next_batch") or hasattr(x, "__next__")
        self._opened = False

    def __call__(self) -> Any:
        if self._once and self._opened:
            raise _C.FailedPreconditionError(
                f"from_arrow: a {type(self._x).__name__} can be read once, and the stream was read already; give "
                "a table, or an object that opens a reader in `__arrow_c_stream__`."
            )
        self._opened = True
        return validated("from_arrow", self._x)


class _Scans:
    """A dataset or scanner of `pyarrow.dataset` as a stream."""

    def __init__(self, source: Any):
        self._is_scanner = hasattr(source, "to_reader")
        self.schema, self._source = source.projected_schema if self._is_scanner else source.schema, source

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        scanner = self._source if self._is_scanner else self._source.scanner(use_threads=True)
        return validated("from_arrow", scanner.to_reader()).__arrow_c_stream__(requested_schema)


def _with_stream(x: Any) -> Any:
    if hasattr(x, "__arrow_c_array__"):
        pyarrow = pyarrow_for("from_arrow")
        return pyarrow.chunked_array([pyarrow.array(x)])
    module = sys.modules.get("pyarrow.dataset")
    if module is not None and isinstance(x, (module.Dataset, module.Scanner)):
        return _Scans(x)
    raise TypeError(
        f"from_arrow: the data must have `__arrow_c_stream__` or `__arrow_c_array__`, but is a {type(x).__name__}."
    )
