# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What workers of an executor do for a map-style dataset in Python: they fetch and collate the rows of a step."""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from torch_distinput.executors._asked_ahead import AskedAhead
from torch_distinput.executors._pool import Pool
from torch_distinput.recognize._fetch import NamingFetcher


@dataclass(frozen=True)
class RowsWork:
    """Batches of the rows of `dataset`. A request has their indices, and the seed of the random numbers that the
    dataset may draw, so that a batch that is made twice is the same."""

    dataset: Any
    collate_fn: Any

    def open(self) -> Callable[[Any], Any]:
        fetch = NamingFetcher(self.dataset, True, self.collate_fn, False).fetch

        def batch(request: dict[str, Any]) -> Any:
            _seed(request["seed"])
            return fetch(request["rows"])

        return batch


def _seed(seed: int) -> None:
    random.seed(seed)
    torch.manual_seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed % 2**32)


class ExecutedBatches:
    """In the place of the plain loader of a plan: batches of the indices that `sampler` yields. `order`: what the seeds
    of their random numbers depend on besides, asked for with the first indices."""

    def __init__(self, sampler: Iterable[list[int]], pool: Pool, order: Callable[[], str]):
        self._sampler, self._pool, self._order = sampler, pool, order

    def __iter__(self) -> ExecutedBatchesIter:
        return ExecutedBatchesIter(AskedAhead(self._requests(iter(self._sampler)), self._pool))

    def _requests(self, indices: Iterator[list[int]]) -> Iterator[Any]:
        for rows in indices:
            drawn = hashlib.blake2b(f"{self._order()} {rows}".encode(), digest_size=8).digest()
            yield {"rows": rows, "seed": int.from_bytes(drawn, "little") >> 1}


class ExecutedBatchesIter:
    """The batches of `answers`."""

    _workers: Any = ()  # as torch's iterators have them: processes that this one does not start

    def __init__(self, answers: AskedAhead):
        self._answers = answers

    def __iter__(self) -> ExecutedBatchesIter:
        return self

    def __next__(self) -> Any:
        return next(self._answers)[1]
