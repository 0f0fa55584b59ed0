# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The rows that a loader has left out because they failed."""

import logging
from collections.abc import Iterable
from typing import Any

_log = logging.getLogger("torch_distinput")


class FailedRows:
    """The rows of one epoch that `on_error="skip"` has left out on this rank, in the order of their steps, and how many
    all ranks have left out together."""

    def __init__(self, dataset: str, most: int | None):
        self._dataset, self._most = dataset, most
        self.rows: list[Any] = []
        self.of_all_ranks = 0

    def add(self, failures: Iterable[tuple[Any, str]], of_all_ranks: int | None = None) -> None:
        """Notes and logs rows of the next step; `of_all_ranks`: how many there are over all ranks. Raises RuntimeError
        beyond the most that are allowed."""
        last, count = "", 0
        for row, error in failures:
            last, count = f"row {row} of {self._dataset}: {error}", count + 1
            _log.warning("DataLoader: left out %s", last)
            self.rows.append(row)
        self.of_all_ranks += count if of_all_ranks is None else of_all_ranks
        if self._most is not None and self.of_all_ranks > self._most:
            raise RuntimeError(
                f"DataLoader: {self.of_all_ranks} rows of this epoch failed, but `max_errors={self._most}` allows no "
                f"more.{f' The last one here: {last}.' if last else ''}"
            )

    def state(self) -> dict[str, Any]:
        """As plain values."""
        return {"rows": list(self.rows), "of_all_ranks": self.of_all_ranks}

    def load(self, state: dict[str, Any] | None) -> None:
        """Goes on from `state`; None: from the start of an epoch."""
        self.rows = [] if state is None else list(state["rows"])
        self.of_all_ranks = 0 if state is None else state["of_all_ranks"]
