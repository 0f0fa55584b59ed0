# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Versions of Delta tables, as the package `deltalake` lists them."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import unquote

from torch_distinput import _C
from torch_distinput.tables._column_options import pyarrow_for
from torch_distinput.tables._snapshot import Column, DataFile, Snapshot, deleted_rows, sorted_files

_OP = "DeltaDataset"
# How a table whose columns were renamed says where files have them.
_NAME, _NUMBER = b"delta.columnMapping.physicalName", b"delta.columnMapping.id"


def delta_snapshot(table: Any, version: int | None) -> Snapshot:
    """Version `version`, or the present one, of a table: a path, URL, or `DeltaTable`, which is left at its version.

    Raises ImportError that says what to install, NotFoundError where there is no table, and InvalidArgumentError where
    it cannot be listed; messages name the table.
    """
    pyarrow = pyarrow_for(_OP)
    try:
        import deltalake
    except ImportError as error:
        raise ImportError(f"{_OP} needs deltalake: pip install deltalake.") from error
    if isinstance(table, deltalake.DeltaTable):
        if version is not None and version != table.version():
            raise ValueError(
                f"{_OP}: `version` is {version}, but the DeltaTable is at version {table.version()}; "
                "load_as_version takes it to another one."
            )
        opened, shown = table, table.table_uri
    else:
        shown = os.fspath(table)
        opened = _opened(deltalake, shown, version)
    try:
        return _listed(pyarrow, opened)
    except deltalake.exceptions.DeltaError as error:
        raise _C.InvalidArgumentError(f"{_OP}: {shown}: {error}") from None


def _opened(deltalake: Any, path: str, version: int | None) -> Any:
    try:
        return deltalake.DeltaTable(path, version=version)
    except deltalake.exceptions.TableNotFoundError as error:
        raise _C.NotFoundError(f"{_OP}: {path}: there is no Delta table: {error}") from None
    except (deltalake.exceptions.DeltaError, OSError) as error:
        raise _C.InvalidArgumentError(f"{_OP}: {path}: {error}") from None


def _listed(pyarrow: Any, table: Any) -> Snapshot:
    root = table.table_uri.rstrip("/") + "/"
    deleted = {
        unquote(row["filepath"]): deleted_rows([_false(row["selection_vector"])])
        for batch in pyarrow.RecordBatchReader.from_stream(table.deletion_vectors())
        for row in _rows(batch)
    }
    actions = pyarrow.table(table.get_add_actions())
    partitions = actions.column("partition") if "partition" in actions.column_names else None
    files = []
    for row, path in enumerate(actions.column("path").to_pylist()):
        location = unquote(path if "://" in path else root + path)
        constants = {} if partitions is None else partitions[row].as_py()
        files.append(DataFile(location, deleted.pop(location, deleted_rows([])), constants))
    if deleted:
        raise _C.InvalidArgumentError(
            f"{_OP}: {table.table_uri}: the table deletes rows of {next(iter(deleted))}, which is none of its files."
        )
    schema = pyarrow.schema(table.schema().to_arrow())
    mode = table.metadata().configuration.get("delta.columnMapping.mode") if _maps_columns(table) else None
    columns = [_column(field, mode) for field in schema]
    return Snapshot(f"version={table.version()}", tuple(columns), sorted_files(files))


def _rows(batch: Any) -> Any:
    for path, kept in zip(batch.column("filepath"), batch.column("selection_vector"), strict=True):
        yield {"filepath": path.as_py(), "selection_vector": kept.values}


def _false(kept: Any) -> Any:
    import numpy as np

    return np.flatnonzero(~kept.to_numpy(zero_copy_only=False))


def _maps_columns(table: Any) -> bool:
    """Whether the protocol of a table has names of columns that differ from those in its files. The table may be
    configured for them without."""
    protocol = table.protocol()
    return protocol.min_reader_version == 2 or "columnMapping" in (protocol.reader_features or ())


def _column(field: Any, mode: str | None) -> Column:
    metadata = field.metadata or {} if mode in ("name", "id") else {}
    number = int(metadata[_NUMBER]) if mode == "id" and _NUMBER in metadata else None
    stored = metadata.get(_NAME, field.name.encode()).decode()
    return Column(field.remove_metadata(), number, (stored,))
