# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Datasets of the rows of tables whose libraries say which files have them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from torch_distinput import _C
from torch_distinput.base._arguments import file_names, optional_integer
from torch_distinput.datasets._column_files import Stack, columns_of
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.ops._base import Call, remember
from torch_distinput.ops._description import described
from torch_distinput.storage._options import CacheDir, Storage, StorageOptions, stored_names
from torch_distinput.tables._column_options import Nulls, column_options
from torch_distinput.tables._delta import delta_snapshot
from torch_distinput.tables._iceberg import iceberg_snapshot
from torch_distinput.tables._lance_rows import LanceRows, opened_lance
from torch_distinput.tables._snapshot import Snapshot, place_of
from torch_distinput.tables._snapshot_files import SnapshotFiles

# What a URL that is given to a source has for wildcards and braces.
_SPECIAL = re.compile(rb"[*?\[{]")


class DeltaDataset(Dataset):
    """The rows of one version of a Delta table, as dicts with one leaf for each column.

    deltalake (`pip install deltalake`) lists the Parquet files of the version and the rows that deletion vectors leave
    out; the rows are read as in `ParquetDataset`: random access, an exact length, O(1) resume, row groups as blocks.
    Files are in the order of their names, which other versions do not change.

    Args:
        table: the folder or URL of the table, or a `deltalake.DeltaTable`, which has its own options for stores.
        columns: the names of the columns to read, in this order; None: all.
        version: the version to read; None: the present one, now. A state says of which version it is, and another one
            is refused: give `version` to go on with a table that was written to. Pickling keeps what was listed.
        stack, nulls: as in `ParquetDataset`. Columns that a file lacks are null in its rows.
        storage_options, filesystem, cache_dir, cache_bytes: how URLs of data are read, as in `TextLineDataset`.

    Raises ImportError without deltalake or pyarrow, NotFoundError where there is no table, and InvalidArgumentError for
    one that cannot be listed; when rows are read, what `ParquetDataset` raises, also for columns whose parts have other
    names or types now than in a file.

    >>> import deltalake, pyarrow  # doctest: +SKIP
    >>> deltalake.write_deltalake("animals", pyarrow.table({"legs": [4, 2]}))  # doctest: +SKIP
    >>> list(tdi.DeltaDataset("animals"))  # doctest: +SKIP
    [{'legs': tensor(4)}, {'legs': tensor(2)}]
    """

    @described
    def __init__(
        self,
        table: Any,
        columns: Sequence[str] | None = None,
        version: int | None = None,
        stack: Stack = None,
        nulls: Nulls = "error",
        *,
        storage_options: StorageOptions = None,
        filesystem: Any = None,
        cache_dir: CacheDir = None,
        cache_bytes: int | None = None,
    ):
        op = "DeltaDataset"
        if not isinstance(table, Snapshot):
            table = delta_snapshot(table, optional_integer(op, "version", version))
        storage = Storage(storage_options, filesystem, cache_dir, cache_bytes)
        super().__init__(_native(op, table, columns, stack, nulls, storage))
        remember(self, Call(op, (table, columns, None, stack, nulls), vars(storage)))


class IcebergDataset(Dataset):
    """The rows of one snapshot of an Iceberg table, as dicts with one leaf for each column.

    pyiceberg (`pip install 'pyiceberg[pyarrow]'`) lists the Parquet files of the snapshot and the rows that position
    deletes and deletion vectors leave out; the rows are read as in `ParquetDataset`: random access, an exact length,
    O(1) resume, row groups as blocks. Files are in the order of their names, which other snapshots do not change.

    Args:
        table: a `pyiceberg.table.Table`, such as `load_catalog("prod").load_table("db.events")`, or the path or URL of
            a file of its metadata (`...metadata.json`).
        columns: the names of the columns to read, in this order; None: all.
        snapshot_id: the snapshot to read; None: the present one, now. A state says of which snapshot it is, and
            another one is refused: give `snapshot_id` to go on with a table that was written to. Pickling keeps what
            was listed.
        stack, nulls: as in `ParquetDataset`. Columns are found by their numbers, as Iceberg has it; one that a file
            lacks has its default in the file's rows, else null.
        storage_options, filesystem, cache_dir, cache_bytes: how URLs of data are read, as in `TextLineDataset`.

    Raises ImportError without pyiceberg or pyarrow, NotFoundError where there is no table, ValueError for a snapshot
    that it does not have, and InvalidArgumentError for equality deletes and files that are not Parquet; when rows are
    read, what `ParquetDataset` raises, also for columns whose parts have other names or types now than in a file.

    >>> from pyiceberg.catalog import load_catalog  # doctest: +SKIP
    >>> tdi.IcebergDataset(load_catalog("prod").load_table("db.events"))  # doctest: +SKIP
    """

    @described
    def __init__(
        self,
        table: Any,
        columns: Sequence[str] | None = None,
        snapshot_id: int | None = None,
        stack: Stack = None,
        nulls: Nulls = "error",
        *,
        storage_options: StorageOptions = None,
        filesystem: Any = None,
        cache_dir: CacheDir = None,
        cache_bytes: int | None = None,
    ):
        op = "IcebergDataset"
        if not isinstance(table, Snapshot):
            table = iceberg_snapshot(table, optional_integer(op, "snapshot_id", snapshot_id))
        storage = Storage(storage_options, filesystem, cache_dir, cache_bytes)
        super().__init__(_native(op, table, columns, stack, nulls, storage))
        remember(self, Call(op, (table, columns, None, stack, nulls), vars(storage)))


class LanceDataset(Dataset):
    """The rows of one version of a Lance table, as dicts with one leaf for each column.

    lance (`pip install pylance`) reads the rows of a batch with one `take`, whatever their order: random access without
    blocks, an exact length, O(1) resume. It reads URLs with its own options: open such a table with `lance.dataset`.

    Args:
        table: the folder or URL of the table, or a `lance.LanceDataset`.
        columns: the names of the columns to read, in this order; None: all.
        version: the version to read; None: the present one, now, or that of the `lance.LanceDataset`. A state says of
            which version it is, as in `DeltaDataset`.
        stack, nulls: as in `ParquetDataset`.

    Raises ImportError without lance or pyarrow, and NotFoundError where there is no table or no such version; when rows
    are read, InvalidArgumentError naming table and rows for what cannot be read and nulls without a rule, and
    FailedPreconditionError in a forked process, in which lance would hang.

    >>> import lance, pyarrow  # doctest: +SKIP
    >>> lance.write_dataset(pyarrow.table({"legs": [4, 2]}), "animals.lance")  # doctest: +SKIP
    >>> list(tdi.LanceDataset("animals.lance"))  # doctest: +SKIP
    [{'legs': tensor(4)}, {'legs': tensor(2)}]
    """

    @described
    def __init__(
        self,
        table: Any,
        columns: Sequence[str] | None = None,
        version: int | None = None,
        stack: Stack = None,
        nulls: Nulls = "error",
    ):
        op = "LanceDataset"
        opened = opened_lance(table, optional_integer(op, "version", version))
        names = columns_of(op, columns, stack)
        rows = LanceRows(opened, names, column_options(op, nulls, stack))
        arguments = _arguments(f"version={opened.version}", names, stack, nulls)
        super().__init__(_C.Dataset.from_rows(rows, opened.count_rows(), f"{op}({arguments})"))
        remember(self, Call(op, (table, columns, opened.version, stack, nulls), {}))


def _native(
    op: str, snapshot: Snapshot, columns: Sequence[str] | None, stack: Stack, nulls: Nulls, storage: Storage
) -> _C.Dataset:
    names = columns_of(op, columns, stack)
    places = [file.name if storage.filesystem is not None else place_of(op, file.name) for file in snapshot.files]
    stored = stored_names(op, file_names(places, f"{op}: the files"), storage)
    reader = SnapshotFiles(op, snapshot.chosen(op, names), dict(zip(stored, snapshot.files, strict=True)))
    arguments = _arguments(snapshot.version, names, stack, nulls)
    return _C.blocks([_literal(name) for name in stored], reader, op, arguments, column_options(op, nulls, stack), True)


def _arguments(version: str, names: list[str] | None, stack: Stack, nulls: Nulls) -> str:
    """What is part of saved states."""
    arguments = [version]
    arguments += [f"columns={names}"] if names else []
    arguments += [f"stack={dict(stack)}"] if stack else []
    arguments += [] if nulls == "error" else [f"nulls={nulls!r}"]
    return ", ".join(arguments)


def _literal(name: bytes) -> bytes:
    """A name whose wildcards and braces stand for themselves."""
    return _SPECIAL.sub(lambda found: b"[" + found[0] + b"]", name) if _C.names_object(name) else name
