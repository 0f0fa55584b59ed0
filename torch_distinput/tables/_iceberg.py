# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Snapshots of Iceberg tables, as the package `pyiceberg` lists them."""

from __future__ import annotations

import itertools
import os
from typing import Any

from torch_distinput import _C
from torch_distinput.tables._column_options import pyarrow_for
from torch_distinput.tables._snapshot import Column, DataFile, Snapshot, deleted_rows, sorted_files

_OP = "IcebergDataset"


def iceberg_snapshot(table: Any, snapshot_id: int | None) -> Snapshot:
    """Snapshot `snapshot_id`, or the present one, of a table: a `pyiceberg.table.Table`, or the path or URL of a file
    of its metadata. Reads its manifests, and the files that say which rows are deleted.

    Raises ImportError that says what to install, NotFoundError where there is no such file, ValueError for a snapshot
    that the table does not have, and InvalidArgumentError for rows that are deleted by their values, and for data that
    is not Parquet; messages name the table.
    """
    pyarrow_for(_OP)
    try:
        from pyiceberg.table import StaticTable, Table
    except ImportError as error:
        raise ImportError(f"{_OP} needs pyiceberg: pip install 'pyiceberg[pyarrow]'.") from error
    if not isinstance(table, Table):
        path = os.fspath(table)
        try:
            table = StaticTable.from_metadata(path)
        except FileNotFoundError as error:
            raise _C.NotFoundError(f"{_OP}: {path}: {error}.") from None
    return _Listing(table).snapshot(snapshot_id)


class _Listing:
    """What a table says of one of its snapshots."""

    def __init__(self, table: Any):
        self._table, self._shown = table, table.metadata_location

    def snapshot(self, snapshot_id: int | None) -> Snapshot:
        if snapshot_id is not None and self._table.snapshot_by_id(snapshot_id) is None:
            known = [snapshot.snapshot_id for snapshot in self._table.snapshots()]
            raise ValueError(f"{_OP}: `snapshot_id` is {snapshot_id}, but the table {self._shown} has {known}.")
        scan = self._table.scan(snapshot_id=snapshot_id)
        schema = scan.projection()
        tasks = list(self._planned(scan))
        deletes = {file.file_path: file for task in tasks for file in task.delete_files}
        deleted = {path: self._positions(file) for path, file in sorted(deletes.items())}
        files = [self._file(task, deleted, schema) for task in tasks]
        return Snapshot(_version(scan.snapshot(), schema), tuple(self._columns(schema)), sorted_files(files))

    def _planned(self, scan: Any) -> Any:
        try:
            yield from scan.plan_files()
        except (ValueError, NotImplementedError) as error:
            if "equality" not in str(error).lower():
                raise
            raise _C.InvalidArgumentError(
                f"{_OP}: {self._shown}: the table deletes rows by their values (equality deletes), which does not say "
                "which rows of a file are left; compact it first, so that it deletes by position or not at all."
            ) from None

    def _positions(self, file: Any) -> dict[str, Any]:
        """The numbers of deleted rows that a file of deletes has, as arrays by data file."""
        from pyiceberg.manifest import FileFormat

        with self._table.io.new_input(file.file_path).open() as opened:
            content = opened.read()
        if file.file_format == FileFormat.PUFFIN:
            from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
            from pyiceberg.table.puffin import PuffinFile

            vectors = deletion_vectors_from_puffin_file(PuffinFile(content))
            return {vector.referenced_data_file: vector.to_vector().to_numpy() for vector in vectors}
        if file.file_format == FileFormat.PARQUET:
            return _positions_of_parquet(content)
        raise self._fault(file, "deleted rows")

    def _file(self, task: Any, deleted: dict[str, dict[str, Any]], schema: Any) -> DataFile:
        """`deleted`: what files of deletes have, by their names. Only those of the task are about its file: others are
        older."""
        from pyiceberg.manifest import FileFormat

        path = task.file.file_path
        if task.file.file_format != FileFormat.PARQUET:
            raise self._fault(task.file, "rows")
        found = [deleted[deletes.file_path] for deletes in task.delete_files]
        positions = deleted_rows(rows[path] for rows in found if path in rows)
        return DataFile(path, positions, self._partition(task.file, schema))

    def _fault(self, file: Any, content: str) -> _C.InvalidArgumentError:
        return _C.InvalidArgumentError(
            f"{_OP}: {self._shown}: {content} are stored as {file.file_format.name} in {file.file_path}, but only "
            "Parquet is read."
        )

    def _partition(self, file: Any, schema: Any) -> dict[str, Any]:
        """The columns that have one value in a whole file, which need not be stored in it."""
        from pyiceberg.transforms import IdentityTransform

        return {
            schema.find_column_name(part.source_id): file.partition[place]
            for place, part in enumerate(self._table.specs()[file.spec_id].fields)
            if isinstance(part.transform, IdentityTransform)
        }

    def _columns(self, schema: Any) -> list[Column]:
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        mapping = self._table.name_mapping()
        stored = {field.field_id: tuple(field.names) for field in mapping} if mapping else {}
        return [
            Column(typed, field.field_id, stored.get(field.field_id, (field.name,)), field.initial_default)
            for field, typed in zip(schema.fields, schema_to_pyarrow(schema), strict=True)
        ]


def _version(snapshot: Any, schema: Any) -> str:
    """A schema may be newer than the newest snapshot."""
    if snapshot is None:
        return "no snapshot"
    own = snapshot.schema_id in (None, schema.schema_id)
    return f"snapshot_id={snapshot.snapshot_id}" + ("" if own else f", schema_id={schema.schema_id}")


def _positions_of_parquet(content: bytes) -> dict[str, Any]:
    import pyarrow
    import pyarrow.parquet as parquet

    table = parquet.read_table(pyarrow.BufferReader(content), columns=["file_path", "pos"])
    encoded = table.column("file_path").combine_chunks().dictionary_encode()
    paths, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
    order = codes.argsort(kind="stable")
    positions = table.column("pos").to_numpy()[order]
    bounds = codes[order].searchsorted(range(len(paths) + 1)).tolist()
    return {path: positions[begin:end] for path, (begin, end) in zip(paths, itertools.pairwise(bounds), strict=True)}
