# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Which positions a loader's data has under members that come and go."""

from __future__ import annotations

from torch_distinput.datasets._dataset import Dataset, asks_for_streams
from torch_distinput.distribute._distributed import native_of
from torch_distinput.loader._config import LoaderConfig
from torch_distinput.loader.members._owned_positions import OwnedPositions
from torch_distinput.loader.members._positions import Positions, seed_of
from torch_distinput.loader.members._stream_positions import StreamPositions
from torch_distinput.loader.ranks._feed import Feed


def positions_of(config: LoaderConfig, feed: Feed) -> Positions | StreamPositions | OwnedPositions:
    """The positions of the steps of a loader. Raises ValueError for data that is read neither by its row numbers nor as
    streams of this library, and for a random order without a seed."""
    if isinstance(config.dataset, Dataset) and _lacks_numbers(config, feed):
        return OwnedPositions(config, feed) if _is_cut(config, feed) else StreamPositions(config, feed)
    return Positions(config, feed)


def _lacks_numbers(config: LoaderConfig, feed: Feed) -> bool:
    """Whether only reading tells which rows steps have, or an epoch never ends."""
    try:
        return feed.numbers("DataLoader", config).ledger(0, seed_of(config), None).num_steps < 0
    except ValueError:
        return True


def _is_cut(config: LoaderConfig, feed: Feed) -> bool:
    """Whether the data is cut into streams, as it was asked for."""
    if not asks_for_streams(config.dataset):
        return False
    dataset = feed.plan(config).dataset
    assert dataset is not None, "a pipeline of this library is assigned"
    return native_of(dataset).iterate(epoch=0, seed=seed_of(config)).state_dict().get("policy") == "STREAMS"
