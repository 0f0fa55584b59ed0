# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Native datasets as a `Dataset`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch_distinput import _C
    from torch_distinput.datasets._dataset import Dataset


def wrapped(native: _C.Dataset) -> Dataset:
    from torch_distinput.datasets._dataset import (
        Dataset,  # which has the classes of this package's other modules as bases
    )

    return Dataset(native)
