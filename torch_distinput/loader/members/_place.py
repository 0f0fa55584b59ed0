# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Where committed steps stand, and what tells it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple


class Place(NamedTuple):
    """A step of an epoch."""

    epoch: int
    step: int


class StepPositions(ABC):
    """The positions of the data before steps, which are counted over all epochs."""

    @abstractmethod
    def place(self, step: int) -> Place:
        """The place of step `step`. Raises ValueError where epochs have no steps."""

    @abstractmethod
    def load(self, state: dict[str, Any]) -> int:
        """The steps taken before the saved position `state`. Raises ValueError where its steps have other rows than
        those of this loader."""

    @abstractmethod
    def state(self, step: int) -> dict[str, Any]:
        """The state of a loader that has taken `step` steps, whatever the members were."""

    def check_known(self, step: int) -> None:  # noqa: B027 - not abstract: most know all of them
        """Raises ValueError for a step whose position this process cannot find."""

    def knows_end_of(self, step: int) -> bool:
        """Whether the position after `step`, which this process took last, can be found, so that it may count."""
        return True
