# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Arrow tables and record batches as bytes, in Arrow's format of streams, which are viewed without a copy.

Nothing of it is unpickled. What the bytes say of themselves is checked before they are read.
"""

from __future__ import annotations

import sys
from typing import Any

_KINDS = ("Table", "RecordBatch")


def arrow_kind(value: Any) -> str | None:
    """The name of the class of `value`, a table or record batch; None for anything else."""
    pyarrow = sys.modules.get("pyarrow")
    name = type(value).__name__
    return name if pyarrow is not None and name in _KINDS and type(value) is getattr(pyarrow, name) else None


def arrow_block(value: Any) -> memoryview:
    """The bytes of a table or record batch."""
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, value.schema) as writer:
        writer.write(value)
    return memoryview(sink.getvalue())


def arrow_view(kind: Any, memory: memoryview) -> Any:
    """The value of an `arrow_kind` whose `arrow_block` is `memory`, and which holds that. Raises ValueError for bytes
    that no value has, and where this process has no pyarrow."""
    try:
        import pyarrow
    except ImportError as error:
        raise ValueError(f"a value of Arrow needs pyarrow here, too: {error}") from None
    if kind not in _KINDS:
        raise ValueError(f"a value of Arrow must be one of {', '.join(_KINDS)}, but is {str(kind)[:40]!r}")
    try:
        with pyarrow.ipc.open_stream(pyarrow.py_buffer(memory)) as reader:
            found = reader.read_all() if kind == "Table" else reader.read_next_batch()
        found.validate(full=True)
    except (pyarrow.ArrowException, OSError, EOFError, StopIteration) as error:
        raise ValueError(f"Arrow cannot read it: {error}") from None
    return found
