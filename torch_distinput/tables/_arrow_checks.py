# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Checks of pyarrow's objects before native code reads them.

Arrow's C interface does not pass the sizes of buffers, so only pyarrow can tell whether an array reaches beyond its
memory, and pyarrow does not check what it reads from streams and files of Arrow's own format. Its cheap validation
compares the sizes of buffers with lengths and last offsets. Native code checks the order of all offsets and the range
of indices and views. The full validation, which reads each byte of a text, would find no further danger.
"""

import sys
from collections.abc import Iterator
from typing import Any

from torch_distinput import _C


def validated(op: str, data: Any, full: bool = False) -> Any:
    """`data`, after checking the parts that pyarrow made; `full` checks offsets, indices and texts one by one, too.
    Raises InvalidArgumentError naming `op` for bad data."""
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
