# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Where `Dataset.rebuild` and `Dataset.locate` find how a loader has read the dataset."""

import functools
from typing import Any

from torch_distinput import _C


@functools.singledispatch
def reading_of(loader: Any, call: str, dataset: Any, epoch: int) -> tuple[_C.RowLedger, bool]:
    """The rows of epoch `epoch` of `dataset` as `loader` reads them, and whether the loader batches its elements.

    Classes of loaders register what knows it. Raises TypeError, naming `call`, for other objects.
    """
    raise TypeError(f"{call}: `loader` must be a DataLoader of this library, but is a {type(loader).__name__}.")
