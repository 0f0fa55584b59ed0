# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Samplers that a subclass puts in the place of the constructor's, in a loader with `distributed`.

torch's loader reads the samplers that it has when it makes an iterator. Classes that keep their workers over epochs
wrap the batch sampler in one that repeats it without end, and keep one iterator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import DistributedSampler

from torch_distinput.datasets._dataset import Dataset
from torch_distinput.loader._config import LoaderConfig
from torch_distinput.loader.orders._exact_sampler import ExactBatches, ExactSampler

_DEPTH = 4  # wrappers around wrappers


@dataclass(frozen=True)
class Samplers:
    """The samplers of a loader at one moment. `below`: the batch sampler's own sampler."""

    sampler: Any
    batches: Any
    below: Any

    def same(self, other: Samplers) -> bool:
        return self.sampler is other.sampler and self.batches is other.batches and self.below is other.below


def samplers_now(config: LoaderConfig) -> Samplers:
    return Samplers(config.sampler, config.batch_sampler, getattr(config.batch_sampler, "sampler", None))


def exchanged(config: LoaderConfig) -> Any:
    """The batch sampler (without batches: the sampler) that a subclass has set after the constructor; None if it has
    not. Raises ValueError, naming the one that was set, if it would have no effect."""
    made, now = config.made_with, samplers_now(config)
    if made is None or now.same(made):
        return None
    batched = config.batch_sampler is not None
    found = now.sampler if not batched or now.sampler is not made.sampler else now.batches
    name = "sampler" if found is now.sampler else "batch_sampler"
    told = (
        f"DataLoader: `{name}` was exchanged for a {type(found).__name__} after the constructor, but with `distributed`"
    )
    if config.is_stream:
        raise ValueError(f"{told} this data is read in its own order, which samplers do not change.")
    if batched and now.batches is made.batches and now.below is made.below:
        raise ValueError(f"{told} as in torch the batch sampler is read, which has its own; pass `sampler` instead.")
    if any(isinstance(part, DistributedSampler) and type(part) is not ExactSampler for part in (found, now.below)):
        raise ValueError(f"{told} the loader itself assigns the rows to ranks; leave the DistributedSampler out.")
    return now.batches if batched else now.sampler


def followed(config: LoaderConfig) -> tuple[Any, ExactSampler] | None:
    """The batch sampler around the shown one, and the shown one's sampler. A framework gave it to the constructor, or a
    subclass set it later; None if there is none."""
    if config.watched_batches is not None:
        return config.watched_batches, config.watched_batches.sampler
    found = exchanged(config)
    shown: Any = None if config.made_with is None else config.made_with.batches
    if found is None or found is shown or not isinstance(shown, ExactBatches) or not _reads(found, shown, _DEPTH):
        return None
    sampler: Any = shown.sampler
    return found, sampler


def _reads(value: Any, batches: ExactBatches, depth: int) -> bool:
    if value is batches:
        return True
    if depth == 0 or isinstance(value, (TorchLoader, TorchDataset)):
        return False
    parts = value if isinstance(value, (list, tuple)) else getattr(value, "__dict__", {}).values()
    return any(_reads(part, batches, depth - 1) for part in list(parts))


def is_own_stream(config: LoaderConfig) -> bool:
    """Whether each rank reads a stream of its own: a Python `IterableDataset`, or a sampler given to the constructor or
    later."""
    later = exchanged(config) is not None and followed(config) is None
    if isinstance(config.dataset, Dataset):
        return False
    return config.is_stream or config.own_sampler or later
