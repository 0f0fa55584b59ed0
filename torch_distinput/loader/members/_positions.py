# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Positions in data whose steps are counted over all epochs, equal for all members: arithmetic, where the data has
random access."""

from __future__ import annotations

import bisect
from typing import Any

from torch_distinput._C import StepInfo
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.distribute._distributed import native_of as assigned_native_of
from torch_distinput.loader._config import LoaderConfig
from torch_distinput.loader.members._arguments import NEEDS_ONE_ORDER, NEEDS_STEPS
from torch_distinput.loader.members._place import Place, StepPositions
from torch_distinput.loader.paths._iterators import given_seed
from torch_distinput.loader.ranks._feed import Feed
from torch_distinput.loader.ranks._plan import Plan
from torch_distinput.loader.state._progress import Progress
from torch_distinput.ops._base import native_of


class Positions(StepPositions):
    """The places of committed steps. `feed`: of the whole batches, as for one member.

    Raises ValueError for data without random access, and for a random order without a seed.
    """

    def __init__(self, config: LoaderConfig, feed: Feed):
        self._config, self._feed = config, feed
        self._seed = seed_of(config)
        self._ends: list[int] = []  # the steps before the end of each epoch
        self._end_of(0)

    def place(self, step: int) -> Place:
        while self._end_of(len(self._ends) - 1) <= step:
            self._end_of(len(self._ends))
        epoch = bisect.bisect_right(self._ends, step)
        return Place(epoch, step - (self._ends[epoch - 1] if epoch else 0))

    def load(self, state: dict[str, Any]) -> int:
        check_rows(state, self._feed.plan(self._config), self._seed)
        place = place_of(state)
        return place.step + (self._end_of(place.epoch - 1) if place.epoch else 0)

    def state(self, step: int) -> dict[str, Any]:
        plan, place = self._feed.plan(self._config), self.place(step)
        assert plan.dataset is not None, "data with random access is assigned"
        native = assigned_native_of(plan.dataset).iterate(epoch=place.epoch, seed=self._seed).state_at(place.step)
        return state_of(plan, place, self._seed, native)

    def taken(self, step: int, info: StepInfo, progress: Progress) -> None:
        """Is told that `step` was read, by an iterator that stands at `progress`: nothing that arithmetic needs."""

    def _end_of(self, epoch: int) -> int:
        numbers = self._feed.numbers("DataLoader", self._config)
        while len(self._ends) <= epoch:
            try:
                steps = numbers.ledger(len(self._ends), self._seed, None).num_steps
            except ValueError as error:
                raise ValueError(f"DataLoader: {NEEDS_ONE_ORDER}. {error}") from None
            if steps == 0:
                raise ValueError(NEEDS_STEPS)
            self._ends.append((self._ends[-1] if self._ends else 0) + steps)
        return self._ends[epoch]


def place_of(state: dict[str, Any]) -> Place:
    """Where a saved position stands."""
    return Place(state["epoch"] + 1, 0) if state["finished"] else Place(state["epoch"], state["batches"])


def committed_in(state: dict[str, Any], data: str) -> int:
    """The committed steps before a saved position in `data`, whose steps of an epoch reading alone tells. Raises
    ValueError for one inside a later epoch that does not say them."""
    place, committed = place_of(state), state.get("committed")
    if committed is None and place.epoch:
        raise ValueError(
            f"load_state_dict: with `membership`, over {data}, a state inside a later epoch must be that of a loader "
            "with `membership`: the steps of epochs are known from reading only."
        )
    return place.step if committed is None else committed


def check_rows(state: dict[str, Any], plan: Plan, seed: int) -> None:
    """Raises ValueError where the steps of the saved position `state` have other rows than those of this loader."""
    saved, own = state.get("steps") or {}, plan.order["steps"]
    if saved.get("batch", own["batch"]) != own["batch"]:
        raise ValueError(
            f"load_state_dict: with `membership`, steps must hold as many rows as when `steps` were saved, but the "
            f"state has {saved['batch']} a step and this loader {own['batch']}."
        )
    if state["seed"] not in (None, seed):
        raise ValueError(
            f"load_state_dict: with `membership`, `seed` must be that of the loader, {seed}, which members that join "
            f"later have, but the state has {state['seed']}."
        )


def state_of(plan: Plan, place: Place, seed: int, native: Any) -> dict[str, Any]:
    """The state of a loader at `place`. `native`: the position of the data there."""
    assert plan.dataset is not None, "only a stream of each rank's own has none"
    return {
        "epoch": place.epoch,
        "finished": False,
        "batches": place.step,
        "num_batches": assigned_native_of(plan.dataset).num_steps,
        "seed": seed,
        "kind": plan.kind,
        "distributed": native,
        **plan.order,
    }


def seed_of(config: LoaderConfig) -> int:
    """The seed of the order, modulo 2**64; 0 where nothing is random."""
    ours = isinstance(config.dataset, Dataset)
    given = given_seed(config) if ours else config.seed
    if given is None and (native_of(config.dataset).unseeded if ours else config.is_random):
        raise ValueError(
            "DataLoader: with `membership`, a random order needs `seed`: members that join later must find the same "
            "order, and have nobody to ask for it."
        )
    return 0 if given is None else given % 2**64
