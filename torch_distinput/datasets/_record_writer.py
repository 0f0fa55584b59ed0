# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Writes TFRecord files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from torch_distinput import _C
from torch_distinput.base._arguments import Path, instance, optional_text
from torch_distinput.typing import Compression


def example(values: Mapping[str, Any]) -> bytes:
    """The serialized tf.train.Example of a dict.

    Integers and bools become an int64 list, other real numbers a float list (of float32), `str` and `bytes` a bytes
    list. Values may be single values, lists, tensors or arrays, which are flattened; an empty value has no list.

    Raises TypeError for values of another kind and ValueError for a nested dict and for integers of more than 63 bits.

    >>> tdi.example({"y": 3})
    b'\\n\\x0c\\n\\n\\n\\x01y\\x12\\x05\\x1a\\x03\\n\\x01\\x03'
    """
    return _C.example(dict(instance("example", "values", values, Mapping)))  # type: ignore[type-abstract]


class TFRecordWriter:
    """Writes a TFRecord file; as a context manager it closes the file at the end. One thread at a time.

    Args:
        path: the file, which is made or emptied.
        compression: None, "GZIP" or "ZLIB".

    Raises NotFoundError or OSError for a file that cannot be written.

    >>> with tdi.TFRecordWriter("written.tfrecord") as writer:
    ...     writer.write(b"one")
    ...     writer.write_example({"y": 3})
    >>> len(tdi.TFRecordDataset("written.tfrecord"))
    2
    """

    def __init__(self, path: Path, compression: Compression | None = None):
        op = "TFRecordWriter"
        try:
            name: Any = os.fsencode(path)  # shown as str in the stub, which also takes bytes
        except TypeError:
            raise TypeError(f"{op}: `path` must be a path, but is {path!r}.") from None
        self._native = _C.TFRecordWriter(name, optional_text(op, "compression", compression))

    def write(self, record: bytes | bytearray | memoryview) -> None:
        """Appends a record. OSError where the system refuses, FailedPreconditionError after `close`."""
        if not isinstance(record, bytes | bytearray | memoryview):
            raise TypeError(f"TFRecordWriter.write: `record` must be bytes, but is a {type(record).__name__}.")
        self._native.write(bytes(record))

    def write_example(self, values: Mapping[str, Any]) -> None:
        """Appends the record `example(values)`."""
        self._native.write(example(values))

    def close(self) -> None:
        """Writes what is buffered and closes the file; a second call does nothing."""
        self._native.close()

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
