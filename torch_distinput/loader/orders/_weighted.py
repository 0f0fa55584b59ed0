# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""torch's WeightedRandomSampler in a loader with `distributed`: one draw for all ranks."""

from typing import Any, TypeGuard

import torch
from torch.utils.data import BatchSampler, WeightedRandomSampler

from torch_distinput import _C


class WeightedDraws:
    """What a WeightedRandomSampler says about the draws of an epoch. The draws themselves are this library's: torch's
    are those of one process, whose generator no other process has.

    `sampler`: the sampler, for loaders that frameworks make anew. `num_samples`: rows of an epoch.
    """

    def __init__(self, sampler: WeightedRandomSampler):
        self.sampler = sampler
        self.num_samples = sampler.num_samples
        self._given, self._version = sampler.weights, sampler.weights._version
        self._weights = sampler.weights.clone()

    def __len__(self) -> int:
        """The number of weights."""
        return len(self._weights)

    def of(self, rows: _C.Dataset, seed: int | None) -> _C.Dataset:
        """The rows that an epoch draws; a `seed` of None is drawn once by the ranks."""
        return rows.sample(self._weights, self.num_samples, self.sampler.replacement, seed)

    def check_unchanged(self) -> None:
        """Raises ValueError if the sampler got other weights: the ranks would still draw by those of the beginning."""
        now = self.sampler.weights
        if now is self._given and now._version == self._version:  # not so in a copy
            return
        if not torch.equal(now, self._weights):
            raise ValueError(
                "DataLoader: the `weights` of the WeightedRandomSampler were changed after the constructor, but with "
                "`distributed` they are copied there; make a new loader."
            )


def is_weighted(sampler: Any) -> TypeGuard[WeightedRandomSampler]:
    """Whether `sampler` is torch's own, not a subclass, which may draw in another way."""
    return type(sampler) is WeightedRandomSampler


def is_weighted_batches(batch_sampler: Any) -> bool:
    """Whether `batch_sampler` is torch's own of a WeightedRandomSampler."""
    return type(batch_sampler) is BatchSampler and is_weighted(batch_sampler.sampler)
