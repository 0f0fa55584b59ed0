# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""JSON lines."""

from typing import Any

from torch_distinput import _C
from torch_distinput.tables import _stored_index
from torch_distinput.tables._text_blocks import Records
from torch_distinput.tables._text_records import Lines, Source, after_mark
from torch_distinput.tables._text_tables import BLOCK_BYTES, TextTables


class JsonLinesFiles(TextTables):
    """One JSON object a line."""

    format = Lines()
    stored = _stored_index.Format("jsonl", "\n", BLOCK_BYTES)

    def first_record(self, file: Source) -> int:
        return after_mark(file)

    def is_broken(self, record: bytes, index: Records) -> bool:
        import pyarrow

        return self._fails(record, index, pyarrow.schema([])) is not None

    def parse(self, data: Any, index: Records, schema: Any) -> Any:
        import pyarrow
        from pyarrow import json as reader

        self._check_objects(data)
        if schema is None:
            schema, unexpected = pyarrow.schema(self._declared), "infer"
        else:
            unexpected = "ignore"
        return reader.read_json(
            pyarrow.BufferReader(data),
            reader.ReadOptions(use_threads=False, block_size=len(data) + 1),
            reader.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
        )

    def _check_objects(self, data: bytes) -> None:
        """Raises ArrowInvalid unless each line is one object: pyarrow's parser crashes on a line `null` and on objects
        that are nested too deeply."""
        import pyarrow

        fault = _C.json_fault(data)
        if fault is None:
            return
        begin, end, rule = fault
        line = data[begin:end]
        if rule == "too deep":
            raise pyarrow.ArrowInvalid(
                f"objects and arrays lie deeper within one another than {_C.MAX_JSON_DEPTH} levels"
            )
        if rule == "not UTF-8":
            raise pyarrow.ArrowInvalid("the text is not UTF-8")
        # pyarrow's message says more about a last line that is cut off.
        if rule == "no object" or begin > 0 or line[-1:] == b"\n":
            raise pyarrow.ArrowInvalid(
                f"a line must hold one record, but this is {line[:60]!r}; a record is one JSON object"
            )
