# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Columns in memory as sources of a `Dataset`."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch_distinput.ops._base import Dataset, Ops
from torch_distinput.ops._description import described
from torch_distinput.recognize._arrow_source import native_arrow
from torch_distinput.tables._column_options import Nulls, column_options


class ColumnOps(Ops[Dataset]):
    """The sources that read columns."""

    @classmethod
    @described
    def from_arrow(
        cls, stream: Any, nulls: Nulls = "error", stack: Mapping[str, Sequence[str]] | None = None
    ) -> Dataset:
        """The rows of a table, as dicts with one leaf for each column; through the Arrow C data interface.

        Args:
            stream: anything with `__arrow_c_stream__` or `__arrow_c_array__`: tables and record batches of pyarrow,
                frames of polars and pandas, relations of duckdb; also datasets of Hugging Face and `pyarrow.dataset`.
                Data with a length is read now and has random access; numbers, and strings with 64-bit offsets, are not
                copied, and a memory-mapped table stays in its file. A reader without a length is a stream, which is
                opened anew for each iterator; a `RecordBatchReader` can be read only once.
            nulls: what a null becomes: "error" raises when the row is read in; a number or str is put in its place, in
                columns of numbers or strings, while an absent list becomes an empty one; "mask" adds a leaf
                `<column>_valid` (bool) beside each column, and puts zero or an empty string in its place. A dict gives
                a rule to single columns, `{"a": 0, "b": "mask"}`.
            stack: leaves made of several columns of numbers, `{"x": ["f0", "f1"]}`: shape [2] a row, in a dtype that
                holds all. These columns then have no leaves of their own.

        Integers, floats and booleans keep their dtype. Dates (in days), times, timestamps and durations (in their unit)
        become int64. Lists of a fixed size become tensors [size], other lists tensors [L] whose length varies from row
        to row (see `padded_batch` and `ragged_batch`); structs become dicts; values in dictionaries are looked up.

        Raises TypeError naming the column for decimals, unions, maps, intervals, lists of lists that vary in length,
        and lists of varying length that hold strings or structs; ValueError for wrong `nulls` and `stack`;
        InvalidArgumentError naming column and row for nulls without a rule and for arrays that contradict themselves.

        >>> table = pyarrow.table({"a": [1, 2], "name": ["x", "y"]})  # doctest: +SKIP
        >>> list(tdi.Dataset.from_arrow(table))  # doctest: +SKIP
        [{'a': tensor(1), 'name': 'x'}, {'a': tensor(2), 'name': 'y'}]
        """
        return cls._wrapped(native_arrow(stream, column_options("from_arrow", nulls, stack)))
