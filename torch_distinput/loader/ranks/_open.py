# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Opens the iterator that a loader's data and arguments need, where rows are assigned."""

from torch_distinput.loader._config import LoaderConfig
from torch_distinput.loader._observers import Observer
from torch_distinput.loader.ranks._executed_steps import (
    CalledSteps,
    ExecutedIndexSteps,
    ExecutedSiftedSteps,
    ExecutedSteps,
)
from torch_distinput.loader.ranks._feed import Feed
from torch_distinput.loader.ranks._index_steps import IndexSteps
from torch_distinput.loader.ranks._rowless_steps import RowlessSteps
from torch_distinput.loader.ranks._sifted_steps import SiftedSteps
from torch_distinput.loader.ranks._stages import needs_rows
from torch_distinput.loader.ranks._steps import Steps
from torch_distinput.loader.ranks._stream_steps import StreamSteps
from torch_distinput.loader.state._progress import Progress

_STEPS = {"native": Steps, "indices": IndexSteps, "stream": StreamSteps}
_EXECUTED = {"native": ExecutedSteps, "indices": ExecutedIndexSteps}


def open_steps(config: LoaderConfig, progress: Progress, feed: Feed, observer: Observer | None) -> Steps:
    """An iterator over the steps of this process, which begins where `progress` says."""
    if not needs_rows(config):
        return RowlessSteps(config, progress, feed, observer)
    kinds, sifted = (_STEPS, SiftedSteps) if config.executor is None else (_EXECUTED, ExecutedSiftedSteps)
    plan = feed.plan(config)
    steps = sifted if config.skips_rows else kinds[plan.kind]
    if plan.called is not None:
        steps = CalledSteps
    return steps(config, progress, feed, observer)
