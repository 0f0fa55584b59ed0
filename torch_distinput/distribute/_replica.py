# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The strategy and the replica that a call belongs to: scopes, frames, `get_replica_context`."""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch_distinput.base._structure import map_leaves
from torch_distinput.distribute._reduce import ReduceOp, check_tensors, combine_everywhere, concatenate
from torch_distinput.distribute._replica_exchange import ReplicaExchange
from torch_distinput.distribute._values import PerReplica, regroup, select
from torch_distinput.typing import Reduction

if TYPE_CHECKING:
    from torch_distinput.distribute._base_strategy import Strategy


class ReplicaContext:
    """The replica that a function runs as. `get_replica_context()` inside `strategy.run` returns it.

    >>> strategy = tdi.MirroredStrategy(["cpu", "cpu"])
    >>> strategy.run(lambda: tdi.get_replica_context().all_reduce("SUM", torch.ones(2))).values
    (tensor([2., 2.]), tensor([2., 2.]))
    """

    def __init__(
        self,
        replica_id_in_sync_group: int,
        num_replicas_in_sync: int,
        exchange: ReplicaExchange | None = None,
        local_replica: int = 0,
    ):
        self._replica_id = replica_id_in_sync_group
        self._num_replicas = num_replicas_in_sync
        self._exchange = exchange
        self._local_replica = local_replica

    @property
    def replica_id_in_sync_group(self) -> int:
        """The index of this replica over all processes, from 0."""
        return self._replica_id

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas take part in a step, over all processes."""
        return self._num_replicas

    def all_reduce(self, op: ReduceOp | Reduction, value: Any) -> Any:
        """Combines the replicas' values item by item; every replica gets the result, on its own device.

        All replicas must call it, in the same order as their other `all_` calls. Gradients flow to the values of the
        replicas of this process.

        Args:
            op: `ReduceOp.SUM`, `ReduceOp.MEAN`, or their names in any case.
            value: a tensor, or a structure of tensors; the same structure and shapes on every replica.

        Raises, on every replica, ValueError where replicas make different calls, TypeError for values that are not
        tensors, and RuntimeError where a replica returned or raised while others wait for it.
        """
        op = ReduceOp.of(op)
        return self._together(f"all_reduce({op.value})", value, functools.partial(combine_everywhere, op))

    def all_gather(self, value: Any, axis: int) -> Any:
        """Concatenates the replicas' values in replica order; every replica gets the result, on its own device.

        All replicas must call it, in the same order as their other `all_` calls. Errors as in `all_reduce`.

        Args:
            value: a tensor, or a structure of tensors, whose shapes differ between replicas in dim `axis` at most.
            axis: a dim; negative ones count from the last.
        """

        def concatenate_everywhere(values: Sequence[Any], replicas: slice) -> list[Any]:
            check_tensors(values, "all_gather")
            return [concatenate(values, axis, "all_gather", mine.device) for mine in values[replicas]]

        return self._together(f"all_gather(axis={axis})", value, concatenate_everywhere)

    def _together(self, call: str, value: Any, join: Callable[[Sequence[Any], slice], list[Any]]) -> Any:
        """Exchanges `value` and returns the result of `join` for this replica.

        `join(values, replicas)` gets the values of one leaf from all replicas everywhere, and makes one result for each
        replica in the slice `replicas`, which are those of this process.
        """
        if self._exchange is None:
            return value
        count = self._exchange.num_replicas
        replicas = slice(self._replica_id - self._local_replica, self._replica_id - self._local_replica + count)

        def join_all(met: Sequence[tuple[str, Any]]) -> list[Any]:
            for replica, (other, _) in enumerate(met):
                if other != met[0][0]:
                    raise ValueError(f"run: replica 0 called {met[0][0]}, but replica {replica} called {other}.")
            values = regroup([value for _, value in met], always_wrap=True)
            joined = map_leaves(lambda leaf: PerReplica(join(leaf.values, replicas)), values)
            return [select(joined, replica, count) for replica in range(count)]

        return self._exchange.exchange(self._local_replica, (call, value), join_all)

    def __repr__(self) -> str:
        return f"ReplicaContext(replica {self._replica_id} of {self._num_replicas})"


@dataclass(frozen=True)
class Frame:
    """The strategy whose scope or `run` encloses a call, and inside `run` also the replica."""

    strategy: Strategy
    replica: ReplicaContext | None = None


_frame: contextvars.ContextVar[Frame | None] = contextvars.ContextVar("torch_distinput_frame", default=None)
_default_context = ReplicaContext(0, 1)


def current_frame() -> Frame | None:
    """The innermost frame; None outside every scope and `run`."""
    return _frame.get()


@contextlib.contextmanager
def enter_frame(frame: Frame):
    """Makes `frame` the current one in this context until the block ends."""
    token = _frame.set(frame)
    try:
        yield
    finally:
        _frame.reset(token)


def get_replica_context() -> ReplicaContext | None:
    """The `ReplicaContext` of the caller. As in tf.distribute: None inside a strategy's scope but outside `run`, and
    outside every scope the context of the only replica.

    >>> tdi.get_replica_context()
    ReplicaContext(replica 0 of 1)
    """
    frame = _frame.get()
    return _default_context if frame is None else frame.replica


def local_replica_of(context: ReplicaContext) -> int:
    """The number of the replica among those of its process."""
    return context._local_replica
