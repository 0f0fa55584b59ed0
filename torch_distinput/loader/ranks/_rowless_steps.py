# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Steps of a pipeline stage that needs no rows."""

from typing import Any

from torch_distinput import _C
from torch_distinput.loader.ranks._steps import Steps


class RowlessSteps(Steps):
    """The steps that other stages take, each with None for its batch: no row is read."""

    _with_rows = _reads_rows = False

    def _open(self) -> _C.DistributedIterator:
        if self._config.shared_order is not None:
            self._config.shared_order.draw(self._start.epoch)
        return super()._open()

    def _take(self) -> tuple[Any, _C.StepInfo] | None:
        return self._native.next(None)
