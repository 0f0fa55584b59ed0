# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Warnings about parts without rows, at most one for each distributed dataset or loader."""

import warnings

from torch_distinput import _C


class EmptyParts:
    """Warns about parts without rows of one distributed dataset.

    Args:
        tail: the tail that applies.
        given: whether the user chose it.
        rank: of this process; only the first one warns before the steps.
        replicas: over all processes.
    """

    def __init__(self, tail: str, given: bool, rank: int = 0, replicas: int = 1):
        self._tail, self._given, self._told = tail, given, False
        self._rank, self._replicas = rank, replicas

    def at_start(self, native: _C.DistributedDataset, stacklevel: int) -> None:
        """Warns on rank 0 if the last step will leave a replica without rows only because the user chose no tail."""
        if self._given or self._told or self._rank != 0:
            return
        self._told = True
        rows = native.rows_to_merge
        if rows is None:
            return
        warnings.warn(
            f"torch_distinput: the last step has {rows} rows for {self._replicas} replicas, so that one "
            "of them gets a part without rows, which not every layer and metric takes. "
            'tail="merge" joins that step to the one before it; tail="zero_rows" keeps it without this warning. '
            "See docs/zero_rows.md.",
            UserWarning,
            stacklevel=stacklevel + 1,
        )

    def after_step(self, info: _C.StepInfo, stacklevel: int) -> None:
        """Warns where the tail "merge" could not spare a replica of this process a part without rows."""
        if self._tail != "merge" or self._told or 0 not in info.valid:
            return
        self._told = True
        warnings.warn(
            f'torch_distinput: tail="merge" left a replica without rows in step {info.step}: only the last step is '
            "joined to the one before it, and only where both together have a row for every replica. "
            "See docs/zero_rows.md.",
            UserWarning,
            stacklevel=stacklevel + 1,
        )
