# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The base of the iterators of steps whose batches Python makes."""

from __future__ import annotations

import functools
from typing import Any

from torch_distinput.loader._device import accelerator_of
from torch_distinput.loader.paths._batches import DeviceMover, repeated, without_rows
from torch_distinput.loader.ranks._steps import Steps


class PythonSteps(Steps):
    """Steps whose batches an inner loader makes: zero-row parts, padding, copies to the device."""

    _last: Any = None

    def _dummy(self, rows: int) -> Any:
        """The batch for a step in which this rank has no rows: `rows` rows of padding."""
        if self._last is None:
            self._last = self._example()
        return self._moved(repeated(self._last, rows) if rows else without_rows(self._last))

    def _example(self) -> Any:
        """A batch to cut rows from, for a rank that has had none."""
        raise NotImplementedError

    def _kept(self, batch: Any) -> Any:
        self._last = batch
        return self._moved(batch)

    def _moved(self, batch: Any) -> Any:
        return batch if self._mover is None else self._mover(batch)

    @functools.cached_property
    def _mover(self) -> DeviceMover | None:
        device = accelerator_of(self._config.device)
        return None if device is None else DeviceMover(device)

    def close(self) -> None:
        super().close()
        self._plan.inner.close()
