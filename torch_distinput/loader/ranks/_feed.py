# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What the iterators of a DataLoader with `distributed` share: strategy, plan and example batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch.distributed as dist

from torch_distinput import _C
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.distribute import _peer_values
from torch_distinput.distribute._called_pipeline import fact_of
from torch_distinput.distribute._distributed import native_of
from torch_distinput.distribute._multi_worker import MultiWorkerMirroredStrategy, examples_of, group_of, strategy_group
from torch_distinput.distribute._part import Part, PartStrategy
from torch_distinput.distribute._store_values import posted_values
from torch_distinput.executors._pool import Pool
from torch_distinput.loader._config import LoaderConfig, accelerator_of, device_of
from torch_distinput.loader.orders._exact_sampler import step_rows
from torch_distinput.loader.orders._exchanged import Samplers, samplers_now
from torch_distinput.loader.paths._batches import without_rows
from torch_distinput.loader.ranks._executor import why_called, with_called_functions, work_of
from torch_distinput.loader.ranks._peer_check import PeerCheck, Peers
from torch_distinput.loader.ranks._plan import MakeLoader, Plan, assigned_indices, plan_of
from torch_distinput.loader.ranks._stages import check_stages, needs_rows, peers_with_rows
from torch_distinput.loader.sharing._roles import Roles
from torch_distinput.loader.sharing._sharing import SharedReads, Sharing
from torch_distinput.loader.state._check import other_data
from torch_distinput.loader.state._position import order_of, steps_of
from torch_distinput.observe._explanation import Branch
from torch_distinput.observe._workers import WorkersStats


class Feed:
    """The strategy of a loader with `distributed`, and the plan by which its data is assigned."""

    def __init__(self, config: LoaderConfig, plain: MakeLoader):
        self.plain = plain
        self._strategy: MultiWorkerMirroredStrategy | None = None
        self._plan: Plan | None = None
        self._planned_for: Samplers
        self._example: Any = None
        place = config.mesh_place
        self._peers = Peers(place) if place is not None and len(place.peers) > 1 else None
        self._sharing: Sharing | None = None
        self._follows_stream: bool | None = None  # None: it was not asked yet
        self._pool: Pool | None = None
        if self._peers is not None and config.share is not None and needs_rows(config):
            ranks, rank, store = peers_with_rows(config), self._peers.rank, self._peers.store("share")
            if len(ranks) > 1:
                over_network, to_device = config.share == "broadcast", accelerator_of(config.device) is not None
                self._sharing = Sharing(ranks, rank, store, config.peer_timeout, over_network, to_device)
        # The names of strategies are numbered, so all ranks must make them in the same order: here, or at the first
        # iterator if there is no group yet.
        if config.distributed is not True or dist.is_initialized():
            self.strategy(config)

    def strategy(self, config: LoaderConfig) -> MultiWorkerMirroredStrategy:
        """The strategy with one replica a rank, made at the first call. Raises RuntimeError if the environment names
        several processes and no group is initialised."""
        if self._strategy is None:
            group = None if config.distributed is True else config.distributed
            # A batch is shared in host memory, and copied to the device after that.
            devices = ["cpu" if self._sharing is not None else str(device_of(config.device))]
            if isinstance(group, Part):
                self._strategy = PartStrategy(group, devices)
                return self._strategy
            group_of("DataLoader", "distributed", group, config.data_dims)  # its errors name the class of the user's
            self._strategy = MultiWorkerMirroredStrategy(group, devices, data_dims=config.data_dims)
        return self._strategy

    def job_ranks(self, config: LoaderConfig) -> list[int] | None:
        """The ranks of the default group that rows are dealt to, by their ranks in the loader's group; None where they
        are the same."""
        group = strategy_group(self.strategy(config))
        ranks = [] if group is None else dist.get_process_group_ranks(group)
        return None if ranks == list(range(len(ranks))) else ranks

    def pool(self, config: LoaderConfig) -> Pool:
        """The workers of the loader's executor, which all its iterators ask, one after the other."""
        if self._pool is None:
            executor = config.executor
            assert executor is not None, "checked by the caller"
            for_devices = accelerator_of(config.device) is not None
            engine = executor.open(work_of(config, self.plan(config)), for_devices)
            most = executor.most(engine, self.strategy(config).num_replicas_in_sync)
            self._pool = Pool(engine, executor.min_workers, most, config.prefetch_bytes)
        return self._pool

    def workers_stats(self) -> WorkersStats | None:
        """What the workers of the executor have done; None without any yet."""
        called = None if self._plan is None else self._plan.called
        pool = self._pool if called is None else called
        return None if pool is None else pool.stats()

    def close(self) -> None:
        """Ends the workers of the executor, and the worker processes that wait for the next iterator, which starts
        others."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
        if self._plan is not None and self._plan.called is not None:
            self._plan.called.close()
        if self._plan is not None and self._plan.inner is not None:
            self._plan.inner.close()

    def peer_check(self, config: LoaderConfig, with_rows: bool) -> PeerCheck | None:
        """What compares the steps of the next iterator with those of ranks that get the same rows; None without any.
        `with_rows`: as for `PeerCheck`."""
        return None if self._peers is None else PeerCheck(self._peers, config.peer_timeout, with_rows)

    def shared_reads(self) -> SharedReads | None:
        """How the next iterator shares what it reads with ranks that get the same rows; None where it does not."""
        return None if self._sharing is None else SharedReads(self._sharing)

    def follows_stream(self, config: LoaderConfig) -> bool:
        """Whether another rank reads this one's streams for it. Waits for the peers. Raises DistributedDatasetError
        where that is not so for all ranks that rows are dealt to with this one."""
        if self._sharing is None or self._peers is None:
            return False
        if self._follows_stream is None:
            dealt = self.job_ranks(config) or list(range(self.strategy(config).num_replicas_in_sync))
            roles = Roles(self._peers.job_store("roles"), self._peers.rank, dealt)
            roles.check(self._sharing.follows, config.peer_timeout)
            self._follows_stream = self._sharing.follows
        return self._follows_stream

    def plan(self, config: LoaderConfig) -> Plan:
        """The plan, kept so that an order without a seed is drawn once; made again after a subclass has exchanged the
        samplers."""
        if config.weighted is not None:
            config.weighted.check_unchanged()
        samplers = samplers_now(config)
        if self._plan is None or not samplers.same(self._planned_for):
            plan = plan_of(config, self.strategy(config), self.plain)
            check_stages(config, plan)
            if config.executor is not None and (why := why_called(config, plan)) is not None:
                shares = self.strategy(config).num_replicas_in_sync
                calling, called = with_called_functions(config, shares, why)
                plan = replace(plan_of(calling, self.strategy(config), self.plain), called=called)
            self._plan, self._planned_for = plan, samplers
            world = self.strategy(config).num_replicas_in_sync
            self._plan.order = order_of(config) | {"steps": steps_of(config, world)}
        return self._plan

    def dealt(self, config: LoaderConfig) -> Feed:
        """The same data, dealt as another `config` says, and read by the same processes."""
        other, own = Feed(config, self.plain), self.plan(config)
        plan = other.plan(config)
        plan.inner, plan.indices = own.inner, own.indices
        return other

    def numbers(self, call: str, config: LoaderConfig) -> _C.DistributedDataset:
        """What assigns the rows, for their numbers: those of a map-style dataset are its indices. Raises ValueError,
        naming `call`, where no arithmetic does."""
        plan = self.plan(config)
        if plan.dataset is None:
            raise ValueError(f"{call}: each rank reads a stream or a sampler of its own, of which only reading tells.")
        if config.shared_order is not None:
            raise ValueError(f"{call}: a sampler that all ranks share draws the order of an epoch when it begins.")
        if plan.kind == "indices" or isinstance(config.dataset, Dataset):
            return native_of(plan.dataset)
        if plan.numbers is None:
            plan.numbers = assigned_indices(config, self.strategy(config), f"`{call}` reads no rows")
        return native_of(plan.numbers)

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
            text = _peer_values.encode_whole(self._example)
        except Exception:  # noqa: BLE001 - a rank that needs the example raises the error
            self._example, text = batch, b""
        board = examples_of(self.strategy(config))
        if board is not None:
            board.set("batch", text)  # type: ignore[arg-type]  # torch's stub knows only str

    def example(self, config: LoaderConfig) -> Any:
        """Waits for the example of another rank. Raises ValueError if that rank could not cut or send one."""
        board = examples_of(self.strategy(config))
        if self._example is None and board is not None:
            late = (
                f"DataLoader: this rank has had no batch yet, and waited {config.peer_timeout:g} s (`peer_timeout`) "
                "for another rank to send an example from which a batch without rows can be made."
            )
            (text,) = posted_values(board, ["batch"], config.peer_timeout, late)
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
        if config.mesh_place is not None:
            facts.append(f"mesh: {config.mesh_place.described(config.share)}")
        if config.stages is not None:
            which = ", ".join(f"{name} by {stage}" for name, stage in config.stages.items())
            here = "this one does" if needs_rows(config) else "this one does not"
            facts.append(f"stages: some read no rows, {which}; {here} read them")
        if config.sequence is not None:
            cuts = ", ".join(f"{name} by {cut}" for name, cut in config.sequence.items())
            facts.append(f"sequence: peers get parts of each sequence, along {cuts}")
        if config.executor is not None and plan.called is not None:
            facts.append(fact_of(config.executor, plan.called))
        elif config.executor is not None:
            facts.append(f"executor: {config.executor}; this process plans the steps, and workers make their rows")
        elif plan.kind != "native":
            facts.append(f"threads: {f'{config.num_workers} processes' if config.num_workers else 'caller'}")
        if plan.dataset is not None:
            assigned = plan.dataset.explain()
            facts, ops = facts + assigned.facts, assigned.ops
        else:
            facts.append("steps: as many as the longest of the ranks' streams has; the ranks agree on them")
            if config.stream_part is not None:
                world = self.strategy(config).num_replicas_in_sync
                facts.append(f"work: every rank reads all elements, {world} times in all, and keeps its share")
        return facts, ops

    def length(self, config: LoaderConfig) -> int:
        """Steps of an iterator, equal on all ranks; raises TypeError if unknown before reading."""
        plan = self.plan(config)
        if plan.dataset is not None:
            steps = len(plan.dataset)
        elif config.stream_part is not None:
            steps = config.stream_part.num_steps()
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
