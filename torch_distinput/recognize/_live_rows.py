# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Rows at indices, as the dataset holds them at the time of the request."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data.dataloader import _DatasetKind

from torch_distinput import _C
from torch_distinput.recognize._collation import collated
from torch_distinput.recognize._native_source import NotNative, Source
from torch_distinput.recognize._sources import source_of, tensor_of

IN_CALLERS_THREAD = _C.Options(num_threads=0, prefetch=0)


class LiveRows:
    """Batches at indices of a dataset. The source is made again after the dataset got other rows.

    `source` is None after a change that native code cannot follow.
    """

    def __init__(self, dataset: Any, collate_fn: Any, source: Source):
        self._dataset, self._collate_fn = dataset, collate_fn
        self.source: Source | None = source
        self._convert = collated(source.spec)

    def look(self) -> bool:
        """Makes the source current; returns whether it was outdated."""
        if self.source is None or self.source.is_current():
            return False
        try:
            self.source = source_of(self._dataset)
            self._convert = collated(self.source.spec)
        except NotNative:
            self.source = None
        return True

    def batch(self, indices: Any, opened: Callable[[_C.Dataset], Any]) -> Any:
        """The collated rows at `indices`, copied by an iterator that `opened` makes. None if native code cannot copy
        them: torch then reads them, or raises its own error."""
        self.look()
        if self.source is None:
            return None
        try:
            chosen = tensor_of(indices)
            if len(chosen) == 0:
                return None
            rows = self.source.at(chosen).batch(len(chosen)).with_options(IN_CALLERS_THREAD)
            batch = next(opened(rows))
        except (IndexError, TypeError, ValueError, RuntimeError, OverflowError):
            return None
        return batch if self._convert is None else self._convert(batch)

    def batch_of_torch(self, indices: Any) -> Any:
        """The batch that torch's fetcher makes for `indices`."""
        fetcher = _DatasetKind.create_fetcher(_DatasetKind.Map, self._dataset, True, self._collate_fn, False)
        return fetcher.fetch(indices.tolist() if isinstance(indices, torch.Tensor) else indices)
