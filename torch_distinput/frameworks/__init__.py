# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Adapters to training frameworks. No framework is needed, and none is imported before the program imports it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch_distinput._C import StepInfo
    from torch_distinput.loader._data_loader import DataLoader


class Observer(Protocol):
    """A framework that follows the epochs of a distributed DataLoader."""

    def step(self, info: StepInfo) -> None:
        """A step is about to be handed out."""

    def end(self) -> None:
        """No further step follows; may be called several times."""


def observer_of(loader: DataLoader) -> Observer | None:
    """What wants to know the steps of a new iterator of `loader`: Accelerate, where the program uses it."""
    if "accelerate" not in sys.modules:
        return None
    from torch_distinput.frameworks import _accelerate as accelerate

    return accelerate.observer_of(loader)


class AskedByAccelerate:
    """The attribute `_is_accelerate_prepared` of a DataLoader that is not prepared yet.

    Accelerate reads it from a loader that it is about to prepare, and sets it on one that it prepared. The read is the
    moment to install the hooks: no earlier one is known in which Accelerate is there and a loader of ours meets it.
    """

    def __get__(self, loader: Any, owner: type) -> bool:
        if loader is not None and "accelerate" in sys.modules:
            from torch_distinput.frameworks import _accelerate as accelerate

            accelerate.install()
        return False
