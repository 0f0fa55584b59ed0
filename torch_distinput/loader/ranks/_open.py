# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Opens the steps of a rank."""

from __future__ import annotations

from torch_distinput.loader._config import LoaderConfig
from torch_distinput.loader._observers import Observer
from torch_distinput.loader.ranks._feed import Feed
from torch_distinput.loader.ranks._index_steps import IndexSteps
from torch_distinput.loader.ranks._steps import Steps
from torch_distinput.loader.ranks._stream_steps import StreamSteps
from torch_distinput.loader.state._progress import Progress

_ITERATORS = {"native": Steps, "indices": IndexSteps, "stream": StreamSteps}


def open_steps(config: LoaderConfig, progress: Progress, feed: Feed, observer: Observer | None) -> Steps:
    """A new iterator over the steps of this rank, which reports them to `observer`."""
    return _ITERATORS[feed.plan(config).kind](config, progress, feed, observer)
