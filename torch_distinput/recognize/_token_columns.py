# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Columns of tokens in Arrow's memory, and those of Hugging Face datasets, as arrays and bounds of documents."""

from typing import Any

from torch_distinput.recognize import _hugging_face as hugging_face
from torch_distinput.tables._arrow_checks import validated
from torch_distinput.tables._column_options import pyarrow_for


def is_column(tokens: Any) -> bool:
    """Whether `tokens` is a column of Arrow, or of a Hugging Face dataset."""
    return (
        hugging_face.is_column(tokens) or hasattr(tokens, "__arrow_c_stream__") or hasattr(tokens, "__arrow_c_array__")
    )


def arrays_of(op: str, tokens: Any) -> tuple[Any, Any]:
    """The tokens of a column as a numpy array, and the bounds of its documents; None for the bounds unless the column
    has lists. Shares Arrow's memory if the column is one chunk. Raises TypeError unless the column has integers or
    lists of them, and ValueError for nulls."""
    pyarrow = pyarrow_for(op)
    column = hugging_face.arrow_column(tokens) if hugging_face.is_column(tokens) else tokens
    types = pyarrow.types
    if not isinstance(column, pyarrow.ChunkedArray):
        column = pyarrow.chunked_array(column if hasattr(column, "__arrow_c_stream__") else [pyarrow.array(column)])
    kind = column.type
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if not types.is_integer(kind.value_type if is_list else kind):
        raise TypeError(f"{op}: a column of tokens must be integers, or lists of them, but is {kind}.")
    # The full check, because pyarrow copies by the offsets; it makes no pass over integers.
    validated(op, column, full=True)
    if is_list:
        column = column.cast(pyarrow.large_list(kind.value_type))  # 32-bit offsets may be too small for the sum
    whole = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    values = whole.values if is_list else whole
    if whole.null_count or values.null_count:
        raise ValueError(f"{op}: a column of tokens must have no nulls; fill them first.")
    return values.to_numpy(zero_copy_only=True), whole.offsets.to_numpy() if is_list else None
