# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The formats of files that have an index: how each one's is made, and whether one fits."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable

from torch_distinput import _C
from torch_distinput.tables._csv import CsvFiles
from torch_distinput.tables._json_lines import JsonLinesFiles

# Called with the bytes of a file that were read so far.
Report = Callable[[int], None]

# What the endings of names stand for. A shard may have its number after them: "train.tfrecord-00001-of-00100".
_ENDINGS = {
    "tfrecord": ("tfrecord", "tfrecords", "tfrec"),
    "text": ("txt", "text"),
    "tar": ("tar",),
    "csv": ("csv", "tsv"),
    "jsonl": ("jsonl", "ndjson"),
}
FORMATS = tuple(_ENDINGS)
_NEED_NONE = ("parquet", "npy", "npz", "safetensors")
_COMPRESSED = ("gz", "zz", "bz2", "xz", "zst")


class Kind(ABC):
    """A format. Methods are called from several threads; errors name the file."""

    stored: str  # the kind in the names of stored indexes

    @abstractmethod
    def make(self, file: bytes, report: Report) -> bytes:
        """The index of a file, by a pass over it."""

    @abstractmethod
    def count(self, file: bytes, index: bytes) -> int | None:
        """The records of an index; None unless it is that of the file as it is now."""


class Records(Kind):
    """What native code finds: "lines", "records" or "groups"."""

    def __init__(self, stored: str):
        self.stored = stored

    def make(self, file: bytes, report: Report) -> bytes:
        return _C.make_index(file, self.stored, report)

    def count(self, file: bytes, index: bytes) -> int | None:
        return _C.count_indexed(file, self.stored, index)


class Tables(Kind):
    """Rows of text."""

    def __init__(self, tables: CsvFiles | JsonLinesFiles):
        self._tables, self.stored = tables, tables.stored.kind

    def make(self, file: bytes, report: Report) -> bytes:
        return self._tables.make_stored(file, report)

    def count(self, file: bytes, index: bytes) -> int | None:
        return self._tables.count_stored(file, index)


def kind_of(format_: str, delimiter: str | None) -> Kind:
    """What is made of files of one of FORMATS. `delimiter`: of CSV."""
    if format_ == "csv":
        return Tables(CsvFiles("index", None, {}, True, delimiter or ","))
    if format_ == "jsonl":
        return Tables(JsonLinesFiles("index", None, {}, True))
    return Records({"tfrecord": "records", "text": "lines", "tar": "groups"}[format_])


def format_of(name: str) -> str | None:
    """The format that the ending of a name tells; None where it tells none of FORMATS."""
    file = _C.shown_url(name).rsplit("/", 1)[-1].lower()
    for ending in reversed(re.findall(r"\.([a-z0-9]+)(?=[.-]|$)", file)):
        if ending in _COMPRESSED:
            return None
        for format_, endings in _ENDINGS.items():
            if ending in endings:
                return format_
    return None


def why_not(name: str) -> str:
    """Why the ending of a name tells no format."""
    ending = _C.shown_url(name).rsplit(".", 1)[-1].lower()
    if ending in _NEED_NONE:
        return f"files that end with .{ending} need no index"
    if ending in _COMPRESSED:
        return "compressed files have no index: they are read in order"
    return f"its ending tells no format; give `--format`, one of {', '.join(FORMATS)}"
