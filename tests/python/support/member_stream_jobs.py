# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A job whose members own streams: they tell each other where these stand after each step, and some may not hear it."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import member_jobs
import torch
from member_jobs import Delivery, Job, Member

import torch_distinput as tdi

LIMIT = 60  # seconds for one collective


class Exchange:
    """The collective of one step, of `processes` of which those in `deaf` hear of a failure."""

    def __init__(self, processes: int, deaf: set[int]):
        self._barrier = threading.Barrier(processes)
        self._deaf = deaf
        self._data: dict[int, bytes] = {}

    def all_gather(self, process: int, index: int | None, count: int, data: bytes) -> list[bytes] | None:
        if index is not None:
            self._data[index] = data
        self._barrier.wait(LIMIT)
        return None if process in self._deaf else [self._data[member] for member in range(count)]

    def fail(self) -> None:
        """Ends the wait of the others."""
        self._barrier.abort()


class Told(member_jobs.Told):
    exchange: Exchange
    process = 0  # among those of this step
    heard = True  # whether the latest collective has not failed here

    def all_gather(self, members: tdi.StepMembers, data: bytes) -> list[bytes] | None:
        found = self.exchange.all_gather(self.process, members.index, members.count, data)
        self.heard = found is not None
        return found


class Together:
    """Loaders of members that take each step together, in threads."""

    def __init__(self, make_loader: Callable[[tdi.Membership], Any], count: int):
        self.told = [Told() for _ in range(count)]
        self.loaders = [make_loader(told) for told in self.told]
        self.steps = [iter(loader) for loader in self.loaders]

    def take(self, deaf: frozenset[int] = frozenset(), step: int | None = None) -> list[Any]:
        """What each of them gets: a batch, None at the end of an epoch, or an exception."""
        exchange = Exchange(len(self.loaders), set(deaf))
        for process, told in enumerate(self.told):
            told.exchange, told.process = exchange, process
            told.members = tdi.StepMembers(0, process, len(self.loaders), step)
        with ThreadPoolExecutor(len(self.loaders)) as pool:
            return list(pool.map(lambda steps: _taken(steps, exchange), self.steps))

    def commit(self, ok: bool) -> None:
        for loader in self.loaders:
            loader.commit(ok)

    def again(self) -> None:
        """Begins iterators for the next epoch."""
        self.steps = [iter(loader) for loader in self.loaders]


def _taken(steps: Any, exchange: Exchange) -> Any:
    try:
        return next(steps, None)
    except Exception as error:  # noqa: BLE001 - the test looks at it
        if not isinstance(error, RuntimeError):
            exchange.fail()
        return error


class StreamJob(Job):
    """As `Job`, over streams that have owners, for `epochs` epochs. A state of the loader travels to who heals: before
    the step, or during it."""

    def __init__(
        self,
        chance: random.Random,
        make_loader: Callable[[tdi.Membership], Any],
        numbers_of: Callable[[Any], torch.Tensor],
        epochs: int,
        pool: ThreadPoolExecutor,
        **arguments: Any,
    ):
        super().__init__(chance, make_loader, numbers_of, [], **arguments)
        self.epochs, self._pool = epochs, pool
        self.heard: list[list[Delivery]] = []  # of each step whose collective did not fail
        self._states: list[tuple[Member, dict[str, Any]]] = []  # that arrive during the step

    def ended(self) -> bool:
        furthest = max(self.members, key=lambda member: member.step)
        return furthest.step > 0 and furthest.loader.committed_epochs >= self.epochs

    def member(self, host: int) -> Member:
        return Member(self.make_loader, self.numbers_of, None, host, Told())

    def heal(self, member: Member, source: Member) -> None:
        member.heal(source)
        state = source.loader.state_dict()
        if self.heals_first or not self.has_clock:
            member.loader.load_state_dict(state)
        else:
            self._states.append((member, state))

    def deliver(self) -> dict[int, Delivery]:
        deaf: set[int] = set()
        if self.chance.random() < 0.1:
            self.events.add("not heard")
            deaf = {process for process in range(len(self.members)) if self.chance.random() < 0.6}
        exchange = Exchange(len(self.members), deaf)
        for process, member in enumerate(self.members):
            member.told.exchange, member.told.process = exchange, process

        def take(member: Member) -> Delivery:
            try:
                return member.take()
            except BaseException:
                exchange.fail()
                raise

        taken = list(self._pool.map(take, self.members))
        for member, state in self._states:
            member.loader.load_state_dict(state)
        self._states.clear()
        deliveries = {id(member): delivery for member, delivery in zip(self.members, taken, strict=True)}
        if not deaf:
            by_index = sorted(self.members, key=lambda member: _order(member.told.members.index))
            self.heard.append([deliveries[id(member)] for member in by_index])
        return deliveries

    def willing(self) -> list[bool]:
        return [member.told.heard for member in self.members]


def _order(index: int | None) -> tuple[bool, int]:
    return index is None, index or 0
