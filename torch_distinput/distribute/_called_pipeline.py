# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A pipeline that this process reads, and whose functions workers of an executor call."""

from __future__ import annotations

from torch_distinput import _C
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.distribute._distributed import DistributedDataset, DistributedIterator
from torch_distinput.executors._called_functions import CalledFunctions
from torch_distinput.executors._executor import Executor
from torch_distinput.observe._explanation import Explanation
from torch_distinput.observe._stats import Stats, with_workers
from torch_distinput.ops._base import native_of


def why_unplanned(native: _C.DistributedDataset) -> str | None:
    """Why the rows of a step are not known before they are read; None: they are."""
    try:
        native.iterate(epoch=0, seed=0, with_rows=False)
    except ValueError as error:
        return str(error)
    return None


def called_pipeline(
    op: str, dataset: Dataset, executor: Executor, shares: int, most_bytes: int | None, why: str
) -> tuple[_C.Dataset, CalledFunctions]:
    """The pipeline of `dataset` with functions that workers of `executor` call. `shares` and `most_bytes` as of
    `CalledFunctions`. Raises ValueError, naming `op` and `why` workers cannot make parts of steps, where there are
    none."""
    called = CalledFunctions(executor, shares, most_bytes)
    native = native_of(dataset).with_functions_elsewhere(called.asker)
    if not called.names:
        raise ValueError(
            f"{op}: `executor` asks workers for parts of steps: {why} Nor is there a `map` with a function in Python "
            "that they could call: put the work into one, pass data with random access, or leave `executor` out."
        )
    return native, called


def fact_of(executor: Executor, called: CalledFunctions) -> str:
    """A line of `explain`."""
    return f"executor: {executor}; this process reads the rows, and workers call {', '.join(called.names)}"


class CalledDataset(DistributedDataset):
    """As `DistributedDataset`. Its iterators ask the workers of `called`."""

    _called: CalledFunctions
    _executor: Executor

    def asking(self, called: CalledFunctions, executor: Executor) -> CalledDataset:
        """This dataset, whose functions `called` has."""
        self._called, self._executor = called, executor
        return self

    def __iter__(self) -> CalledIterator:
        self._empty_parts.at_start(self._native, stacklevel=2)
        self._called.open()
        return CalledIterator(self._native.iterate(), self)

    def workers_stats(self, stats: Stats) -> Stats:
        """`stats` of an iterator with those of the workers."""
        return with_workers(stats, self._called.stats())

    def explain(self) -> Explanation:
        explained = super().explain()
        facts = [*explained.facts, fact_of(self._executor, self._called)]
        return Explanation("distributed dataset", facts, explained.ops)


class CalledIterator(DistributedIterator):
    """As `DistributedIterator`."""

    _dataset: CalledDataset

    def stats(self) -> Stats:
        return self._dataset.workers_stats(super().stats())
