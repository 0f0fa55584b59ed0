# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""One version of a table whose library says which files have its rows: what is read, without the library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch_distinput import _C

# Schemes of other programs for the stores that this library reads.
_SAME_STORE = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_READ = ("s3", "gs", "az", "hf", "http", "https")


@dataclass(frozen=True)
class Column:
    """A column of a table: `field` of Arrow, whose metadata has the numbers of parts that are fields themselves, and
    how files name it: by the number `number` where their fields have numbers, else by one of `stored`. `missing`: its
    value in the rows of files that lack it."""

    field: Any
    number: int | None
    stored: tuple[str, ...]
    missing: Any = None


@dataclass(frozen=True)
class DataFile:
    """A Parquet file of a table. `deleted`: the numbers (int64, ascending) of its rows that the table no longer has.
    `constants`: the values of columns that the file need not store, because all its rows
    have the same, by name."""

    name: str
    deleted: Any
    constants: Mapping[str, Any]


@dataclass(frozen=True)
class Snapshot:
    """`version`: how the table names it, such as `version=3`. Files are sorted, because a table tells them in any
    order. It can be pickled."""

    version: str
    columns: tuple[Column, ...]
    files: tuple[DataFile, ...]

    def chosen(self, op: str, names: Sequence[str] | None) -> Snapshot:
        """With these columns alone, in this order. Raises ValueError that names `op` for a name that is none."""
        if names is None:
            return self
        known = {column.field.name: column for column in self.columns}
        for name in names:
            if name not in known:
                raise ValueError(f"{op}: `columns` has {name!r}, but the columns of the table are {list(known)}.")
        return replace(self, columns=tuple(known[name] for name in names))


def sorted_files(files: Iterable[DataFile]) -> tuple[DataFile, ...]:
    """In the order in which their rows are read."""
    return tuple(sorted(files, key=lambda file: file.name))


def deleted_rows(positions: Iterable[Any]) -> Any:
    """The numbers of rows in several arrays, as `DataFile` has them."""
    import numpy as np

    parts = [np.asarray(part, np.int64) for part in positions]
    return np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)


def place_of(op: str, location: str) -> str:
    """The path or URL of a file as this library reads it. Raises InvalidArgumentError for another scheme."""
    scheme, separator, rest = location.partition("://")
    if not separator:
        return location.removeprefix("file:")
    if scheme == "file":
        return "/" + rest.partition("/")[2]
    scheme = _SAME_STORE.get(scheme, scheme)
    if scheme not in _READ:
        raise _C.InvalidArgumentError(
            f"{op}: the table has a file at {_C.shown_url(location.encode())}, but files are read from paths and "
            f"{', '.join(_READ)}; give a `filesystem` of fsspec for others."
        )
    return f"{scheme}://{rest}"
