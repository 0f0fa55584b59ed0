# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Checks the arguments of a DataLoader that go with `membership`."""

from typing import Any

from torch_distinput.datasets._dataset import Dataset
from torch_distinput.distribute._membership import Membership
from torch_distinput.distribute._part import WHOLE
from torch_distinput.loader._config import LoaderConfig
from torch_distinput.loader.orders._exchanged import is_own_stream

NEEDS_ONE_ORDER = (
    "`membership` deals out again what was not committed, so members must find the same rows: pass a map-style "
    "dataset, tensors, or a Dataset"
)

NEEDS_STEPS = "DataLoader: with `membership`, an epoch must have a step, but has none."


def check_membership(membership: Any, distributed: Any) -> None:
    """Raises TypeError or ValueError for what is no membership, or goes with `distributed`."""
    if not isinstance(membership, Membership):
        raise TypeError(f"DataLoader: `membership` must be a Membership, but is a {type(membership).__name__}.")
    if distributed and distributed != WHOLE:  # which a loader with `membership` shows as its `distributed`
        raise ValueError(
            "DataLoader: `membership` and `distributed` exclude each other: a membership says who shares the rows."
        )


def check_members_arguments(config: LoaderConfig) -> None:
    """Raises ValueError for arguments that do not go with `membership`."""
    if is_own_stream(config):
        raise ValueError(f"DataLoader: {NEEDS_ONE_ORDER}; this loader reads a stream, or a sampler of the user's.")
    if config.steps_tail not in ("zero_rows", "padded", "drop"):
        raise ValueError(
            'DataLoader: with `membership`, `tail` must be "zero_rows", "padded" or "drop", under which the steps of '
            f"an epoch and their rows are the same for any number of members, but is {config.tail!r}."
        )
    batched = isinstance(config.dataset, Dataset) and config.batch_size is None
    if config.global_batch_size is None and not batched:
        raise ValueError(
            "DataLoader: `membership` needs `global_batch_size`: the rows of a step, whatever the number of members."
        )
    for name in ("data_dims", "sequence", "stages", "balance"):
        if getattr(config, name) is not None:
            raise ValueError(f"DataLoader: `{name}` does not go with `membership`, which knows no mesh and no costs.")
    if config.skips_rows:
        raise ValueError(
            'DataLoader: with `membership`, `on_error` must be "raise": members that join later could not know which '
            "rows were left out before."
        )
