# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Which rows a DataLoader yields in each step of an epoch: arithmetic on its arguments and its state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.utils.data import BatchSampler

from torch_distinput import _C
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.loader._config import LoaderConfig
from torch_distinput.loader.orders._order import StockOrder, native_indices, stock_order
from torch_distinput.loader.paths._choice import choose_path
from torch_distinput.loader.ranks._feed import Feed
from torch_distinput.loader.state._progress import Progress
from torch_distinput.ops._base import native_of


class Ledger(Protocol):
    """The rows of each step of an epoch."""

    @property
    def num_steps(self) -> int: ...

    def rows(self, step: int, replica: int = 0) -> list[int]: ...


def ledger_of(call: str, config: LoaderConfig, progress: Progress, feed: Feed | None, epoch: int) -> Ledger:
    """The rows of epoch `epoch`. `feed`: of a loader with `distributed`.

    Raises ValueError, naming `call` and the reason, where only reading tells the rows, or a seed decides their order
    that is not drawn yet.
    """
    if feed is not None or isinstance(config.dataset, Dataset):
        return pipeline_ledger(call, config, progress, feed, epoch)
    return _of_order(call, config, progress, epoch)


def pipeline_ledger(call: str, config: LoaderConfig, progress: Progress, feed: Feed | None, epoch: int) -> _C.RowLedger:
    """As `ledger_of`, of ranks, or of a dataset of this library."""
    if feed is not None:
        return _of_ranks(call, config, progress, feed, epoch)
    return _of_pipeline(call, config, progress, epoch)


def _of_ranks(call: str, config: LoaderConfig, progress: Progress, feed: Feed, epoch: int) -> _C.RowLedger:
    numbers = feed.numbers(call, config)
    state = progress.state() or {"seed": None, "distributed": None}
    seed = progress.last_seed if state["seed"] is None else state["seed"]
    if seed is None and config.seed is None:
        seed = _fixed(call, _draws_order(config), "the ranks agree on a seed at the first step")
    given, position = None if config.seed is not None else seed, state["distributed"]
    key = (id(numbers), epoch, given, _changes(position))
    return progress.ledger(key, lambda: numbers.ledger(epoch, given, position))


def _of_pipeline(call: str, config: LoaderConfig, progress: Progress, epoch: int) -> _C.RowLedger:
    pipeline = choose_path(config, progress).pipeline
    if pipeline is None:
        raise ValueError(f"{call}: Python collates the batches of this dataset, so that only reading tells their rows.")
    state = progress.state() or {"seed": config.seed, "native": None}
    seed = state["seed"]
    if seed is None:
        seed = _fixed(call, native_of(config.dataset).unseeded, "the first iterator draws the seed")
    position = state["native"]
    key = (id(config.dataset), config.batch_size, config.drop_last, epoch, seed, _changes(position))
    return progress.ledger(key, lambda: pipeline.ledger(epoch, seed, position))


def _changes(position: dict[str, Any] | None) -> Any:
    """What was changed while the data was read up to `position`."""
    return {} if position is None else {name: position.get(name) for name in ("epoch", "excluded", "weights")}


def _of_order(call: str, config: LoaderConfig, progress: Progress, epoch: int) -> Ledger:
    """That of a map-style dataset, whose rows are its indices."""
    order = _order_of(config)
    if order is None:
        raise ValueError(
            f"{call}: a {_decides(config)} decides the rows while it is iterated; use `shuffle` or `distributed`."
        )
    permutation: Any = config.seed
    if order.shuffle and config.seed is None:
        start = progress.start
        permutation, epoch = (start.drawn if epoch == start.epoch else None), 0
        if permutation is None:
            raise ValueError(f"{call}: torch's generator draws the order of this epoch when it begins; set `seed`.")
    if isinstance(permutation, torch.Tensor):
        return Drawn(order, permutation)
    return native_indices(order, permutation, 0).batch(order.batch_size, order.drop_last).ledger(epoch, 0, None)


@dataclass(frozen=True)
class Drawn:
    """The rows of an epoch that are in torch's order, which is a tensor."""

    order: StockOrder
    permutation: torch.Tensor

    @property
    def num_steps(self) -> int:
        return self.order.batches

    def rows(self, step: int, replica: int = 0) -> list[int]:
        if step >= self.num_steps or replica > 0:
            raise IndexError(
                f"rows_of: `step` must be less than {self.num_steps} and `rank` 0, but they are {step} and {replica}."
            )
        return self.permutation[step * self.order.batch_size :][: self.order.batch_size].tolist()


def _order_of(config: LoaderConfig) -> StockOrder | None:
    if config.is_stream:
        return None
    return stock_order(config.batch_sampler if config.auto_collation else BatchSampler(config.sampler, 1, False))


def _decides(config: LoaderConfig) -> str:
    if config.is_stream:
        return type(config.dataset).__name__
    sampler = config.index_sampler
    return type(sampler.sampler if type(sampler) is BatchSampler else sampler).__name__


def _draws_order(config: LoaderConfig) -> bool:
    """Whether the base seed decides the order in which ranks read."""
    return native_of(config.dataset).unseeded if isinstance(config.dataset, Dataset) else config.is_random


def _fixed(call: str, draws: bool, when: str) -> int:
    """A seed for an order that needs none. Raises ValueError if it does."""
    if draws:
        raise ValueError(f"{call}: the order is not drawn yet, because {when}; set `seed`, or take a batch first.")
    return 0
