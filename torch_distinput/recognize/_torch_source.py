# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""torch datasets as sources."""

import contextlib
from collections.abc import Sequence
from typing import Any

from torch.utils.data import IterableDataset

from torch_distinput import _C
from torch_distinput.recognize._contents import content_of
from torch_distinput.recognize._hugging_face import is_plain_table
from torch_distinput.recognize._native_source import NotNative
from torch_distinput.recognize._sources import source_of


def native_dataset(dataset: Any) -> _C.Dataset:
    """The samples of `dataset`; raises TypeError unless it is map-style or an `IterableDataset`."""
    name = type(dataset).__name__
    if is_plain_table(dataset) and dataset.format["type"] == "torch":
        with contextlib.suppress(NotNative):
            source = source_of(dataset)
            if source.spec == source.native.element_spec:
                return source.native
    if isinstance(dataset, IterableDataset):
        return _C.Dataset.from_generator(lambda: iter(dataset), None, name, lists_are_structure=True)
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise TypeError(
            f"from_torch: a dataset needs `__getitem__` and `__len__`, or must be an IterableDataset, but got a {name}."
        )
    return _C.Dataset.from_rows(_Rows(dataset), len(dataset), name)


class _Rows:
    """The samples of a map-style dataset at positions."""

    def __init__(self, dataset: Any):
        self._dataset = dataset
        # As in torch's own fetcher, a `__getitems__` that is None counts as absent.
        self._get_all = getattr(dataset, "__getitems__", None)

    def __call__(self, positions: Sequence[int]) -> Any:
        return self._get_all(positions) if self._get_all else self._one_by_one(positions)

    def _one_by_one(self, positions: Sequence[int]) -> list[Any]:
        samples = []
        try:
            for position in positions:
                samples.append(self._dataset[position])
        except Exception as error:
            if hasattr(error, "add_note"):
                error.add_note(f"raised by row {position} of {type(self._dataset).__name__}")
            raise
        return samples

    def content(self) -> str:
        """A text that differs for other samples; the ranks compare it."""
        return content_of(self._dataset)
