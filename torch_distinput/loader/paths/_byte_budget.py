# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""How many batches workers may make ahead within a number of bytes."""

from typing import Any

import torch

from torch_distinput.base._structure import children


class ByteBudget:
    """Batches that may be under way within `most` bytes, by the largest seen so far: at least one a worker, and before
    the first is there no more; at most as many as without the budget, `all_tasks`."""

    def __init__(self, most: int, workers: int, all_tasks: int):
        self._most, self._least, self._all = most, workers, all_tasks
        self._largest = 0

    def note(self, batch: Any) -> None:
        """Notes the bytes of a batch."""
        self._largest = max(self._largest, _bytes_of(batch))

    @property
    def tasks(self) -> int:
        """How many batches may be under way now."""
        fit = self._most // self._largest if self._largest else 0
        return min(max(fit, self._least), self._all)


def _bytes_of(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return value.nbytes
    if isinstance(value, (bytes, str)):
        return len(value)
    return sum(map(_bytes_of, children(value) or ()))
