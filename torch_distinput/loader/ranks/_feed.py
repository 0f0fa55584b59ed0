# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What the iterators of a DataLoader with `distributed` share: strategy, plan and example batch."""

import threading
from typing import Any

import torch.distributed as dist

from torch_distinput import _C
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.distribute import _peer_values
from torch_distinput.distribute._multi_worker import MultiWorkerMirroredStrategy, examples_of, group_of
from torch_distinput.loader._config import LoaderConfig, device_of
from torch_distinput.loader.orders._exact_sampler import step_rows
from torch_distinput.loader.orders._exchanged import Samplers, samplers_now
from torch_distinput.loader.paths._batches import without_rows
from torch_distinput.loader.ranks._plan import MakeLoader, Plan, plan_of
from torch_distinput.loader.state._check import other_data
from torch_distinput.loader.state._position import order_of
from torch_distinput.observe._explanation import Branch


def _posted_batch(board: dist.Store, timeout: float) -> bytes:
    """Waits for the example that a rank posts. A thread asks the store, because Ctrl-C does not interrupt a call to it,
    and a frozen host never answers one."""
    done, left = threading.Event(), threading.Event()
    answer: list[bytes | Exception] = []

    def ask() -> None:
        try:
            while not board.check(["batch"]):
                if left.wait(0.01):
                    return
            answer.append(board.get("batch"))
        except Exception as error:  # noqa: BLE001 - raised below
            answer.append(error)
        done.set()

    threading.Thread(target=ask, name="tdi-example", daemon=True).start()
    try:
        if not done.wait(timeout):
            raise _C.DistributedDatasetError(
                f"DataLoader: this rank has had no batch yet, and waited {timeout:g} s (`peer_timeout`) for another "
                "rank to send an example from which a batch without rows can be made."
            )
    finally:
        left.set()
    if isinstance(answer[0], Exception):
        raise answer[0]
    return answer[0]


class Feed:
    """The strategy of a loader with `distributed`, and the plan by which its data is assigned."""

    def __init__(self, config: LoaderConfig, plain: MakeLoader):
        self.plain = plain
        self._strategy: MultiWorkerMirroredStrategy | None = None
        self._plan: Plan | None = None
        self._planned_for: Samplers
        self._example: Any = None
        # The names of strategies are numbered, so all ranks must make them in the same order: here, or at the first
        # iterator if there is no group yet.
        if config.distributed is not True or dist.is_initialized():
            self.strategy(config)

    def strategy(self, config: LoaderConfig) -> MultiWorkerMirroredStrategy:
        """The strategy with one replica a rank, made at the first call. Raises RuntimeError if the environment names
        several processes and no group is initialised."""
        if self._strategy is None:
            group = None if config.distributed is True else config.distributed
            group_of("DataLoader", "distributed", group)  # its errors name the class that the user made
            self._strategy = MultiWorkerMirroredStrategy(group, [str(device_of(config.device))])
        return self._strategy

    def plan(self, config: LoaderConfig) -> Plan:
        """The plan, kept so that an order without a seed is drawn once; made again after a subclass has exchanged the
        samplers."""
        if config.weighted is not None:
            config.weighted.check_unchanged()
        samplers = samplers_now(config)
        if self._plan is None or not samplers.same(self._planned_for):
            self._plan, self._planned_for = plan_of(config, self.strategy(config), self.plain), samplers
            self._plan.order = order_of(config)
        return self._plan

    def check_kind(self, config: LoaderConfig, kind: str) -> None:
        """Raises ValueError for a state of another `kind` of data. Without a group, the iterator checks it later."""
        if self._strategy is None:
            return
        own = self.plan(config).kind
        if kind != own:
            raise other_data(kind, own)

    def post_example(self, config: LoaderConfig, batch: Any) -> None:
        """At the first call, posts `batch`, cut to zero rows, for ranks that have had no batch."""
        if self._example is not None:
            return
        try:
            self._example = without_rows(batch)
            text = _peer_values.encode_example(self._example)
        except Exception:  # noqa: BLE001 - a rank that needs the example raises the error
            self._example, text = batch, b""
        board = examples_of(self.strategy(config))
        if board is not None:
            board.set("batch", text)  # type: ignore[arg-type]  # torch's stub knows only str

    def example(self, config: LoaderConfig) -> Any:
        """Waits for the example of another rank. Raises ValueError if that rank could not cut or send one."""
        board = examples_of(self.strategy(config))
        if self._example is None and board is not None:
            text = _posted_batch(board, config.peer_timeout)
            whose = "DataLoader: the example batch of another rank, under `batch` in the group's store"
            self._example = _peer_values.decode_example(text, whose) if text else None
        if self._example is None:
            raise ValueError(
                "DataLoader: this rank has had no batch yet, and those of other ranks cannot be cut to 0 rows and "
                "sent; use a collate_fn that makes tensors and lists."
            )
        return self._example

    def explained(self, config: LoaderConfig) -> tuple[list[str], Branch | None]:
        """Lines on the kind of data and its assignment, and the ops that are assigned."""
        plan, ops = self.plan(config), None
        facts = [f"path: distributed, {plan.kind}", f"why: {plan.why}"]
        if plan.kind != "native":
            facts.append(f"threads: {f'{config.num_workers} processes' if config.num_workers else 'caller'}")
        if plan.dataset is not None:
            assigned = plan.dataset.explain()
            facts, ops = facts + assigned.facts, assigned.ops
        else:
            facts.append("steps: as many as the longest of the ranks' streams has; the ranks agree on them")
            if config.share is not None:
                world = self.strategy(config).num_replicas_in_sync
                facts.append(f"work: every rank reads all elements, {world} times in all, and keeps its share")
        return facts, ops

    def length(self, config: LoaderConfig) -> int:
        """Steps of an iterator, equal on all ranks; raises TypeError if unknown before reading."""
        plan = self.plan(config)
        if plan.dataset is not None:
            steps = len(plan.dataset)
        elif config.share is not None:
            steps = config.share.num_steps()
        else:
            raise TypeError("len: the number of steps is unknown where each rank reads a stream of its own.")
        return max(steps - config.skip, 0)

    def global_valid(self, config: LoaderConfig, step: int, k: int) -> int:
        """Rows over all ranks in steps [step, step + k); raises ValueError if unknown before reading."""
        plan = self.plan(config)
        if plan.dataset is None or isinstance(config.dataset, Dataset):
            raise ValueError("global_valid: the rows of coming steps are known for map-style datasets only.")
        world = self.strategy(config).num_replicas_in_sync
        rows = step_rows(config.num_rows, config.global_batch(world), world, config.split, config.steps_tail)
        return sum(rows.global_valid(at) for at in range(step, min(step + k, rows.num_steps)))
