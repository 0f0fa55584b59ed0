# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Where a row of a dataset's sources lies."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from torch_distinput import _C


class SourceRow(NamedTuple):
    """Where a row lies, as `Dataset.locate` finds it."""

    source: int
    """The number of the source: 0 where there is only one. Those of an op's second input follow those of its first."""
    file: str | None
    """The file as the dataset was given it; None for a source without files."""
    record: int
    """The number of the row in that file, as if it were read alone; without a file, in the source."""


def located(ledger: _C.RowLedger, rows: Sequence[int]) -> list[SourceRow]:
    """Where each of `rows` lies. IndexError for a number that no row has."""
    return [
        SourceRow(source, None if file is None else os.fsdecode(file), record)
        for source, file, record in ledger.locate(rows)
    ]
