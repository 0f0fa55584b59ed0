# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""How the rows of a map-style dataset are fetched: as by torch, but errors name their row, and rows that fail can be
left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import length_hint
from typing import Any, NamedTuple

from torch.utils.data._utils.fetch import _MapDatasetFetcher
from torch.utils.data._utils.pin_memory import pin_memory

_MOST_NAMED = 8  # rows of a batch in a message


class Failure(NamedTuple):
    """A row that was left out, by its index, and its error in one line."""

    row: Any
    error: str


class Sifted(NamedTuple):
    """A batch of the rows that did not fail. `batch` is None where `rows`, their number, is 0."""

    batch: Any
    rows: int
    failures: tuple[Failure, ...]

    def pin_memory(self, device: str | None = None) -> Sifted:
        """Called by torch's pinning thread."""
        return self._replace(batch=pin_memory(self.batch, device))


Sifted.fields_are_values = True  # type: ignore[attr-defined]  # for messages of workers: fields share no objects


class Sifting:
    """A collate_fn that lets rows that fail be left out: a fetcher that gets it makes batches of type `Sifted`."""

    def __init__(self, collate_fn: Callable[[Any], Any]):
        self.collate_fn = collate_fn


class NamingFetcher(_MapDatasetFetcher):
    """torch's, with the row in a note of each error (CPython 3.11 and later)."""

    def fetch(self, possibly_batched_index: Any) -> Any:
        if isinstance(self.collate_fn, Sifting):
            return self._sifted(possibly_batched_index, self.collate_fn.collate_fn)
        return self._collated(self._samples(possibly_batched_index), possibly_batched_index, self.collate_fn)

    def _samples(self, wanted: Any) -> Any:
        if not self.auto_collation:
            return self._sample(wanted)
        get_all = getattr(self.dataset, "__getitems__", None)
        if get_all:
            try:
                return get_all(wanted)
            except Exception as error:
                _note(error, f"raised by `__getitems__` of {self._name()} for {_rows(wanted)}")
                raise
        indices = wanted if isinstance(wanted, (list, tuple)) else list(wanted)
        dataset, rest = self.dataset, iter(indices)
        try:
            return [dataset[index] for index in rest]
        except Exception as error:
            _note(error, self._of_row(indices[len(indices) - length_hint(rest) - 1]))
            raise

    def _sample(self, index: Any) -> Any:
        try:
            return self.dataset[index]
        except Exception as error:
            _note(error, self._of_row(index))
            raise

    def _collated(self, samples: Any, wanted: Any, collate_fn: Callable[[Any], Any]) -> Any:
        try:
            return collate_fn(samples)
        except Exception as error:
            _note(error, f"raised by `collate_fn` for {_rows(wanted)} of {self._name()}")
            raise

    def _sifted(self, wanted: Any, collate_fn: Callable[[Any], Any]) -> Sifted:
        indices = list(wanted) if self.auto_collation else [wanted]
        samples, failures = self._good(indices)
        if not samples:
            return Sifted(None, 0, tuple(failures))
        failed = {failure.row for failure in failures}
        good = [index for index in indices if index not in failed]
        batch = self._collated(samples if self.auto_collation else samples[0], good, collate_fn)
        return Sifted(batch, len(samples), tuple(failures))

    def _good(self, indices: list[Any]) -> tuple[list[Any], list[Failure]]:
        """The rows that did not fail, and those that did."""
        get_all = getattr(self.dataset, "__getitems__", None) if self.auto_collation else None
        if get_all:
            try:
                return list(get_all(indices)), []
            except Exception:  # noqa: BLE001 - which of the rows it is shows one by one
                pass
        samples, failures = [], []
        for index in indices:
            try:
                samples.append(get_all([index])[0] if get_all else self.dataset[index])
            except Exception as error:  # noqa: BLE001 - of the user's row
                failures.append(Failure(index, _brief(error)))
        return samples, failures

    def _of_row(self, index: Any) -> str:
        return f"raised by row {index} of {self._name()}"

    def _name(self) -> str:
        return type(self.dataset).__name__


def _note(error: Exception, text: str) -> None:
    if hasattr(error, "add_note"):
        error.add_note(text)


def _rows(wanted: Any) -> str:
    if not isinstance(wanted, Sequence) or isinstance(wanted, str):
        return f"row {wanted}"
    named = ", ".join(map(str, wanted[:_MOST_NAMED]))
    more = len(wanted) - _MOST_NAMED
    return f"rows {named}" + (f" and {more} more" if more > 0 else "")


def _brief(error: Exception) -> str:
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first[:200]}"
