# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""torchft: replica groups that fail, heal and join while the others train on.

```python
manager = torchft.Manager(pg=..., min_replica_size=1, init_sync=False, ...)
loader = tdi.DataLoader(dataset, global_batch_size=256, membership=TorchFTMembership(manager), shuffle=True, seed=0)
while loader.committed_steps < epochs * len(loader):
    for x, y in loader:  # begins the step's quorum, waits for it, and gives this group's part
        optimizer.zero_grad()  # the optimizer itself, not torchft's wrapper, which would begin another quorum
        loss = tdi.distributed_mean(F.cross_entropy(model(x), y, reduction="sum"), loader.last_info)
        loss.backward()
        average_gradients(manager, model)  # or torchft's DistributedDataParallel
        ok = manager.should_commit()
        if ok:
            optimizer.step()
        loader.commit(ok)
```
"""

from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist

from torch_distinput import _C
from torch_distinput.base._arguments import count
from torch_distinput.distribute._membership import Membership, StepMembers


class TorchFTMembership(Membership):
    """The replica groups of a torchft job as members.

    The loader begins the quorum of each step, so the program must not: neither by `manager.start_quorum` nor by the
    `zero_grad` of torchft's OptimizerWrapper. Steps are `manager.current_step()`, so that a group that heals or starts
    again goes on where the others are. With an asynchronous quorum, a group that heals gets a batch without rows.

    Args:
        manager: a `torchft.Manager`.
        rank: of this process among those of its group that have rows of their own.
        ranks: how many these are: 1 where a group's processes work on the same rows.

    `begin_step` raises RuntimeError where torchft would zero the gradients of a group that it counts: in the first
    step, with an asynchronous quorum and `init_sync=True`.
    """

    def __init__(self, manager: Any, *, rank: int = 0, ranks: int = 1):
        self._manager = manager
        self._ranks = count("TorchFTMembership", "ranks", ranks, least=1)
        self._rank = count("TorchFTMembership", "rank", rank)
        if self._rank >= self._ranks:
            raise ValueError(f"TorchFTMembership: `rank` must be less than `ranks`, but is {rank} of {ranks}.")
        self._generation = 0
        self._last: StepMembers | None = None

    def begin_step(self) -> StepMembers:
        self._manager.start_quorum()
        members = self._now()
        if members.index is not None and not self._manager.is_participating():
            raise RuntimeError(
                "TorchFTMembership: torchft counts this group but zeroes its gradients, because it heals in step 0, so "
                "that its rows would be lost. Begin with equal weights (such as by `torch.manual_seed`) and pass "
                "`init_sync=False` to the Manager, or pass `use_async_quorum=False`."
            )
        if self._last is not None and not _same(members, self._last):
            self._generation += 1
        self._last = replace(members, generation=self._generation)
        return self._last

    def holds(self, members: StepMembers) -> bool:
        return _same(members, self._now())

    def all_gather(self, members: StepMembers, data: bytes) -> list[bytes] | None:
        """By two of the manager's all-reduces, to which a group without an index adds nothing. NotImplementedError for
        groups of several processes, which the manager's collectives do not join."""
        if self._ranks > 1:
            raise NotImplementedError(
                "TorchFTMembership: the owners of streams tell each other where they stand in the manager's "
                "collectives, which do not join the processes of a group; pass `ranks=1`, or leave "
                "`AutoShardPolicy.STREAMS` out."
            )
        own = torch.zeros(members.count, dtype=torch.int64)
        if members.index is not None:
            own[members.index] = len(data)
        if (lengths := self._summed(own)) is None:
            return None
        _check_lengths(lengths)
        parts = list(torch.zeros(int(lengths.sum()), dtype=torch.uint8).split(lengths.tolist()))
        if members.index is not None:
            parts[members.index].copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
        if (summed := self._summed(torch.cat(parts))) is None:
            return None
        return [bytes(part.tolist()) for part in summed.split(lengths.tolist())]

    def _summed(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The sum over the groups; None where torchft has had an error in this step."""
        device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        moved = tensor if device is None else tensor.to(device)
        self._manager.allreduce(moved, reduce_op=dist.ReduceOp.SUM).wait()
        return None if self._manager.errored() is not None else moved.cpu()

    def _now(self) -> StepMembers:
        """The members of the latest quorum, once it is there."""
        group, groups = self._manager.participating_rank(), self._manager.num_participants()
        index = None if group is None else group * self._ranks + self._rank
        return StepMembers(self._generation, index, groups * self._ranks, self._manager.current_step())


def _same(one: StepMembers, other: StepMembers) -> bool:
    return (one.index, one.count) == (other.index, other.count)


def _check_lengths(lengths: torch.Tensor) -> None:
    """Raises DistributedDatasetError for what no members can have told."""
    if not 0 <= int(lengths.min()) <= int(lengths.max()) <= _MOST_BYTES:
        raise _C.DistributedDatasetError(
            f"TorchFTMembership: each member tells up to {_MOST_BYTES} bytes of a step, but the groups have told "
            f"{lengths.tolist()}."
        )


_MOST_BYTES = 2**24
