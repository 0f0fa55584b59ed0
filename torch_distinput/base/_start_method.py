# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""How processes start."""

import multiprocessing
from typing import Any


def start_method(context: Any = None) -> str:
    """How `context` of multiprocessing starts processes; None: the default. `get_start_method()` alone would fix that
    for the whole program."""
    if context is not None:
        return context.get_start_method()
    return multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
