# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Reads the steps of one part of the data after the other."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

from torch_distinput._C import StepInfo
from torch_distinput.distribute._part import Part
from torch_distinput.loader._config import LoaderConfig
from torch_distinput.loader.ranks._feed import Feed
from torch_distinput.loader.ranks._open import open_steps
from torch_distinput.loader.ranks._plan import MakeLoader
from torch_distinput.loader.ranks._steps import Steps
from torch_distinput.loader.state._progress import Progress
from torch_distinput.observe._stats import Stats


class Reading:
    """The steps of a part, in the place of those of the part before: worker processes end what they are at, drop what
    they have made, and go on with the new part.

    `progress`: of the steps. `ahead`: what tells the step and part that come next, if that is read ahead; else None.
    """

    def __init__(self, config: LoaderConfig, plain: MakeLoader):
        self._keeps_workers = config.persistent_workers and config.num_workers > 0
        # The loader below takes each part for an epoch.
        self._config = replace(config, with_info=True, persistent_workers=config.num_workers > 0)
        self._plain = plain
        self._steps: Steps | None = None
        self._feed: Feed | None = None  # of the latest steps; None: no worker processes stay for others
        self._before = Stats()  # of the parts before
        self.progress = Progress()
        self.ahead: Hashable = None

    def another(self) -> Reading:
        """Another one of the same data, which has not begun."""
        return Reading(self._config, self._plain)

    def begin(self, state: dict[str, Any], part: Part) -> None:
        """Goes on with the steps of `part` from `state` on."""
        config, progress, before = replace(self._config, distributed=part), Progress(), self.stats()
        progress.load(state)
        if self._steps is not None:
            self._steps.hand_over()
        feed = Feed(config, self._plain) if self._feed is None else self._feed.dealt(config)
        steps = open_steps(config, progress, feed, None)
        self._steps, self._feed, self.progress, self._before = steps, feed, progress, before
        self.ahead = None

    def next(self) -> tuple[Any, StepInfo] | None:
        """The next step; None after the last one of its epoch."""
        assert self._steps is not None, "it has begun"
        return next(self._steps, None)

    def stats(self) -> Stats:
        """The counters of all parts that were read."""
        return self._before if self._steps is None else self._steps.stats().after(self._before)

    def count_anew(self) -> None:
        """Forgets the counters, for an iterator that begins."""
        self._before = Stats()

    def end(self) -> None:
        """Ends the reading ahead; with `persistent_workers`, worker processes stay for the next part."""
        if not self._keeps_workers:
            return self.close()
        self._before = self.stats()
        if self._steps is not None:
            self._steps.leave()
        self._steps = self.ahead = None

    def close(self) -> None:
        """Ends the reading ahead, and worker processes."""
        self._before = self.stats()
        if self._steps is not None:
            self._steps.close()
        if self._feed is not None:
            self._feed.close()
        self._steps = self._feed = self.ahead = None
