# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Rows of one version of a Lance table, which the package `lance` reads at any positions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from torch_distinput import _C
from torch_distinput.tables._arrow_checks import validated
from torch_distinput.tables._column_options import pyarrow_for

_OP = "LanceDataset"
_IN_CALLERS_THREAD = _C.Options(num_threads=0, prefetch=0)


def opened_lance(table: Any, version: int | None) -> Any:
    """The table at `table`, a path or URL, or a `lance.LanceDataset`, at this version, or the present one. Raises
    ImportError that says what to install, and NotFoundError where there is no table or no such version."""
    pyarrow_for(_OP)
    try:
        import lance
    except ImportError as error:
        raise ImportError(f"{_OP} needs lance: pip install pylance.") from error
    if isinstance(table, lance.LanceDataset):
        return table if version is None else table.checkout_version(version)
    path = os.fspath(table)
    try:
        return lance.dataset(path, version=version)
    except (ValueError, OSError) as error:
        raise _C.NotFoundError(f"{_OP}: {path}: {error}.") from None


class LanceRows:
    """Returns rows at positions as elements, from any thread. lance's threads do not survive a fork."""

    def __init__(self, table: Any, columns: Sequence[str] | None, options: _C.ColumnOptions):
        self._table, self._options, self._process = table, options, os.getpid()
        names = table.schema.names
        for name in columns or ():  # for an unknown one, lance ends the thread
            if name not in names:
                raise ValueError(f"{_OP}: `columns` has {name!r}, but the columns of the table are {names}.")
        self._columns = names if columns is None else list(columns)

    def __call__(self, positions: list[int]) -> list[Any]:
        if os.getpid() != self._process:
            raise _C.FailedPreconditionError(
                f"{_OP}: lance cannot be used in a forked process; start processes by `spawn` or `forkserver`."
            )
        try:
            table = self._table.take(positions, columns=self._columns)
        except (ValueError, OSError) as error:
            raise _C.InvalidArgumentError(f"{_OP}: {self._table.uri}: {error}.") from None
        rows = _C.arrow_table(validated(_OP, table), self._options).with_options(_IN_CALLERS_THREAD)
        return list(rows.iterate(epoch=0))

    def content(self) -> str:
        """A text that differs for other rows; the ranks compare it."""
        return f"version {self._table.version} of {self._columns}"
