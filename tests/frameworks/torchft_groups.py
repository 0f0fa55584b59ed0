# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Replica groups of some processes each, under torchft's Manager over gloo, which train a regression."""

import contextlib
from collections.abc import Sequence
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import member_training
import torch
import torch.distributed as dist
from member_training import Training

Store = tuple[int, int, int]  # the port of a group's store, this process's rank in the group, and how many there are

# For what one group may wait for another that is dead. Processes of a group wait for each other where one waits so, and
# quorums for whole groups.
TIMEOUT, GROUP_TIMEOUT, QUORUM_TIMEOUT = timedelta(seconds=5), timedelta(seconds=20), timedelta(seconds=60)


class ManagedSteps(member_training.Steps):
    """Steps of one of the `ranks` processes of a group."""

    def __init__(self, manager: Any, ranks: int, pipe: Connection):
        self._manager, self._ranks, self._pipe = manager, ranks, pipe

    def average(self, gradient: torch.Tensor, *sums: torch.Tensor) -> None:
        if self._ranks > 1:
            for value in (gradient, *sums):
                dist.all_reduce(value)
            gradient /= self._ranks
        self._manager.allreduce(gradient).wait()
        for value in sums:
            self._manager.allreduce(value, reduce_op=dist.ReduceOp.SUM).wait()

    def should_commit(self) -> bool:
        return self._manager.should_commit()

    def tell(self, step: int) -> None:
        self._pipe.send(step)
        self._pipe.recv()

    def taken(self, loaders: Sequence[Any]) -> int:
        return self._manager.current_step()


def run_process(
    pipe: Connection, name: str, lighthouse: str, store: Store, training: Training, asynchronous: bool
) -> None:
    """One process of a group: tells that it is ready (None), each step that it has rows for, for which it waits for
    leave, and at last what it has learnt."""
    import torchft
    from torchft.process_group import ProcessGroupGloo

    from torch_distinput.frameworks.torchft import TorchFTMembership

    torch.set_num_threads(1)
    port, rank, ranks = store
    if ranks > 1:
        within = dist.TCPStore("127.0.0.1", port, is_master=False)
        dist.init_process_group("gloo", store=dist.PrefixStore("within", within), rank=rank, world_size=ranks)
    history, loaders = member_training.History(training), []
    travels = training.in_order or training.streams

    def state_dict() -> dict[str, Any]:
        # Otherwise a group that heals reads what comes before the step of the others; of streams, nobody else knows it.
        return {"history": history.state_dict()} | ({"data": loaders[0].state_dict()} if travels else {})

    def load_state_dict(state: dict[str, Any]) -> None:
        history.load_state_dict(state["history"])
        if travels:
            loaders[0].load_state_dict(state["data"])

    manager = torchft.Manager(
        pg=ProcessGroupGloo(timeout=TIMEOUT),
        load_state_dict=load_state_dict,
        state_dict=state_dict,
        min_replica_size=1,
        use_async_quorum=asynchronous,
        init_sync=False,
        timeout=GROUP_TIMEOUT,
        quorum_timeout=QUORUM_TIMEOUT,
        connect_timeout=TIMEOUT,
        rank=rank,
        world_size=ranks,
        store_addr="127.0.0.1",
        store_port=port,
        lighthouse_addr=lighthouse,
        replica_id=name,
        hostname="127.0.0.1",
    )
    membership = TorchFTMembership(manager, rank=rank, ranks=ranks)
    steps = ManagedSteps(manager, ranks, pipe)
    if training.streams:
        loaders.append(member_training.loader_of(training, membership))
        pipe.send(None)
        member_training.run_streams(training, loaders[0], history, steps)
    else:
        train, check = membership.turns(training.steps, training.checks)
        loaders += [member_training.loader_of(training, train), member_training.checker_of(training, check)]
        pipe.send(None)
        member_training.run(training, loaders, history, steps)
    manager.shutdown(wait=False)  # quorums wait for groups that are there
    pipe.send(history.state_dict())
    with contextlib.suppress(EOFError):
        pipe.recv()
