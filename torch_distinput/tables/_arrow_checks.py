# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Checks of pyarrow's objects before native code reads them.

Arrow's C interface tells no sizes of buffers, so that only pyarrow can say whether its arrays reach beyond their
memory; what it reads from streams and files of Arrow's own format it takes unchecked. Its cheap validation compares
the sizes of buffers with lengths and last offsets. Native code checks that all offsets are in order, and indices and
views in range, so that the full validation, which reads each byte of a text, would find nothing more that is dangerous.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from torch_distinput import _C


def validated(op: str, data: Any, full: bool = False) -> Any:
    """`data`, of which what pyarrow made has been checked; `full`: also offsets, indices and texts, one by one.
    InvalidArgumentError naming `op` where it is bad."""
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is None:
        return data
    if isinstance(data, (pyarrow.Table, pyarrow.RecordBatch, pyarrow.Array, pyarrow.ChunkedArray)):
        try:
            data.validate(full=full)
        except pyarrow.ArrowInvalid as error:
            raise _C.InvalidArgumentError(f"{op}: the data is damaged: {error}.") from None
    elif isinstance(data, pyarrow.RecordBatchReader):
        return pyarrow.RecordBatchReader.from_batches(data.schema, _batches(op, data))
    return data


def _batches(op: str, reader: Any) -> Iterator[Any]:
    for batch in reader:
        yield validated(op, batch)
