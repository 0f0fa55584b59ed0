# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Adapters to training frameworks. No framework is needed, and none is imported before the program imports it."""

import sys
from typing import Any

from torch_distinput.loader._observers import Observer, register


class _Accelerate:
    """Accelerate, where the program has imported it."""

    def meet(self) -> None:
        if "accelerate" in sys.modules:
            from torch_distinput.frameworks._accelerate import install

            install()

    def observer_of(self, loader: Any) -> Observer | None:
        if "accelerate" not in sys.modules:
            return None
        from torch_distinput.frameworks import _accelerate

        return _accelerate.observer_of(loader)


register(_Accelerate())
