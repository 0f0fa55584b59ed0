# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Who takes part in a step, where processes come and go while the others go on."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch.distributed as dist

from torch_distinput import _C
from torch_distinput.base._arguments import count as counted
from torch_distinput.distribute import _peer_values


@dataclass(frozen=True)
class StepMembers:
    """Who takes part in one step.

    `generation`: another number wherever `index` or `count` is another one than at the step before. `index`: of this
    process among the `count` members whose gradients count; None: it takes the step without counting, because it is
    just receiving the state of the others (it heals) or is a spare. `step`: steps that the job has committed since its
    start; None: this process takes part in all of them, and the loader's own count is right.
    """

    generation: int
    index: int | None
    count: int
    step: int | None = None


class Membership(ABC):
    """Says who takes part in a step. `DataLoader(membership=)` asks it; the loader's thread calls it.

    All members of a step must get the same `count` and `step`, and each index below `count` must be that of one of
    them.
    """

    @abstractmethod
    def begin_step(self) -> StepMembers | None:
        """The members of the step that begins, called before its rows are dealt. May wait for them. None: the step is
        not one of this loader, whose iterator ends."""

    def holds(self, members: StepMembers) -> bool:
        """Whether the step that began with `members` still has them, so that it may be committed."""
        return True

    def check_step(self, step: int) -> None:  # noqa: B027 - not abstract: most need none
        """Raises RuntimeError where members are about to take other steps than `step`, counted over all epochs. Called
        after `begin_step`; not needed where that tells the step."""

    def all_gather(self, members: StepMembers, data: bytes) -> list[bytes] | None:
        """The `data` of all members of the step, in the order of their indices. A collective, which each process that
        takes the step calls once a step where streams have owners, and not at all for other data. The `data` of a
        process without an index is left out. None: it has failed, and the step will not be committed.

        Raises NotImplementedError where this membership has no such collective and there are several members.
        """
        if (members.index, members.count) == (0, 1):
            return [data]
        raise NotImplementedError(
            f"{type(self).__name__}: the owners of streams tell each other where they stand, by "
            "`Membership.all_gather`, which this membership does not have; leave `AutoShardPolicy.STREAMS` out, so "
            "that all members read all rows."
        )

    def turns(self, *steps: int) -> tuple[Membership, ...]:
        """Memberships of loaders that take epochs of so many `steps` in turn, such as one that trains and one that
        evaluates, where one clock counts the committed steps of all of them, as torchft's does.

        A member that heals goes on in the turn in which the others are: the iterators of loaders whose turn it is not
        end without a step. Write loops over the clock: while `manager.current_step()` is less than the steps in all,
        iterate over each loader in turn.
        """
        if not steps:
            raise ValueError("Membership.turns: at least one loader must take turns.")
        clock = _Clock(self, [counted("Membership.turns", "steps", each, least=1) for each in steps])
        return tuple(_Turn(clock, turn) for turn in range(len(steps)))

    @staticmethod
    def fixed(index: int, count: int) -> Membership:
        """A group whose members stay: process `index` of `count`, as after a start or a restart by torchrun.

        >>> tdi.Membership.fixed(0, 2).begin_step()
        StepMembers(generation=0, index=0, count=2, step=None)
        """
        index, count = counted("Membership.fixed", "index", index), counted("Membership.fixed", "count", count, least=1)
        if index >= count:
            raise ValueError(f"Membership.fixed: `index` must be less than `count`, but is {index} of {count}.")
        return _Fixed(StepMembers(0, index, count))

    @staticmethod
    def ranks() -> Membership:
        """The ranks of the default process group, whichever it is when a step begins.

        For torchrun, which starts all processes again when one dies or joins, and for programs that make the group anew
        without that (`destroy_process_group`, `init_process_group`) while the loader goes on. Each group is a
        generation; its ranks compare their steps before the first one, in one collective, so that ranks that were given
        other states raise RuntimeError instead of losing rows. A step that began with another group is not committed.
        Each loader has one of its own.
        """
        return _Ranks()


class _Fixed(Membership):
    def __init__(self, members: StepMembers):
        self._members = members

    def begin_step(self) -> StepMembers:
        return self._members


class _Ranks(Membership):
    """The ranks of the default group. `_group`: a weak reference to the latest one."""

    def __init__(self) -> None:
        self._group: Callable[[], dist.ProcessGroup | None] = lambda: None
        self._generation = -1
        self._compared = False

    def begin_step(self) -> StepMembers:
        group = dist.group.WORLD
        if group is None:
            raise RuntimeError("Membership.ranks: no process group is initialised; make one before a step begins.")
        if group is not self._group():
            self._group, self._generation, self._compared = weakref.ref(group), self._generation + 1, False
        return StepMembers(self._generation, group.rank(), group.size())

    def check_step(self, step: int) -> None:
        group = self._group()
        if self._compared or group is None:
            return
        everyone = [_step_of(data, rank) for rank, data in enumerate(_C.all_gather_bytes(group, _bytes_of(step)))]
        if len(set(everyone)) > 1:
            least, most = min(everyone), max(everyone)
            raise RuntimeError(
                f"DataLoader: the ranks of a new group begin with other steps: rank {everyone.index(least)} with step "
                f"{least}, rank {everyone.index(most)} with step {most}. Give all of them the state of one, of model "
                "and loader (`load_state_dict`, or `seek`)."
            )
        self._compared = True

    def all_gather(self, members: StepMembers, data: bytes) -> list[bytes]:
        group = self._group()
        if group is None:
            raise RuntimeError("Membership.ranks: the group of the step is gone.")
        return _C.all_gather_bytes(group, data)

    def holds(self, members: StepMembers) -> bool:
        group = dist.group.WORLD
        return group is not None and group is self._group() and members.generation == self._generation


_LENGTH = 8


def _bytes_of(step: int) -> bytes:
    return step.to_bytes(_LENGTH, "little")


def _step_of(data: bytes, rank: int) -> int:
    if len(data) != _LENGTH:
        raise _C.DistributedDatasetError(
            f"Membership.ranks: the step of rank {rank} must have {_LENGTH} bytes, but has {len(data)}. "
            f"{_peer_values.STRANGER}"
        )
    return int.from_bytes(data, "little")


class _Clock:
    """The steps of `membership`, dealt to loaders by turns of `lengths` steps. `begun`: a step that no loader has taken
    yet, because it was begun in the turn of another one."""

    def __init__(self, membership: Membership, lengths: Sequence[int]):
        self.membership, self._lengths = membership, lengths
        self._begun: StepMembers | None = None

    def step_of(self, turn: int) -> StepMembers | None:
        """The step that begins, as that loader counts its own; None where it is another one's."""
        members = self.membership.begin_step() if self._begun is None else self._begun
        self._begun = members
        if members is None:
            return None
        if members.step is None:
            raise RuntimeError(
                "Membership.turns: the membership must tell the steps that the job has committed, but `step` is None."
            )
        rounds, step = divmod(members.step, sum(self._lengths))
        first = sum(self._lengths[:turn])
        if not first <= step < first + self._lengths[turn]:
            return None
        self._begun = None
        return replace(members, step=rounds * self._lengths[turn] + step - first)


class _Turn(Membership):
    """The members of the steps of one loader."""

    def __init__(self, clock: _Clock, turn: int):
        self._clock, self._turn = clock, turn

    def begin_step(self) -> StepMembers | None:
        return self._clock.step_of(self._turn)

    def holds(self, members: StepMembers) -> bool:
        return self._clock.membership.holds(members)

    def all_gather(self, members: StepMembers, data: bytes) -> list[bytes] | None:
        return self._clock.membership.all_gather(members, data)
