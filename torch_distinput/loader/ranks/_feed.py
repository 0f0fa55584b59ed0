# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`DataLoader(distributed=...)`: exact rows and equal steps over processes.

There are three kinds of data. Native rows and datasets of this library are pipelines, whose batches the strategy
assigns. Of a map-style dataset that Python reads, the strategy assigns indices, and each rank loads its rows through a
plain DataLoader. A stream or a sampler of the user's belongs to one rank: a plain DataLoader reads it, and the ranks
agree on steps only.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from torch_distinput import _C
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.distribute import _peer_values
from torch_distinput.distribute._distributed import DistributedDataset
from torch_distinput.distribute._input_options import InputOptions
from torch_distinput.distribute._multi_worker import MultiWorkerMirroredStrategy
from torch_distinput.loader._batches import device_of, without_rows
from torch_distinput.loader._checks import is_own_stream
from torch_distinput.loader._explained import explained_loader
from torch_distinput.loader._native import options_of, reads_ahead, row_options
from torch_distinput.loader.ranks._exchanged import Samplers, exchanged, followed, samplers_now
from torch_distinput.loader.ranks._index_steps import Feed, IndexSteps
from torch_distinput.loader.ranks._sampler import ExactSampler, group_size_and_rank, step_rows
from torch_distinput.loader.ranks._steps import Steps
from torch_distinput.loader.ranks._stream_steps import StreamSteps
from torch_distinput.loader.state._position import order_of
from torch_distinput.observe._explanation import Explanation
from torch_distinput.recognize import _hugging_face as hugging_face
from torch_distinput.recognize._collation import Convert, can_collate, collated, converted, is_stock_collate
from torch_distinput.recognize._contents import content_of
from torch_distinput.recognize._live_rows import IN_CALLERS_THREAD
from torch_distinput.recognize._native_source import NotNative
from torch_distinput.recognize._sources import source_of

if TYPE_CHECKING:
    from torch_distinput.loader._data_loader import DataLoader


def strategy_of(loader: DataLoader) -> MultiWorkerMirroredStrategy:
    """A strategy of one replica a process, on the loader's device."""
    group = None if loader._loader_config.distributed is True else loader._loader_config.distributed
    return MultiWorkerMirroredStrategy(group, [str(device_of(loader._loader_config.device))])


@dataclass
class Plan:
    """How a loader's data is assigned. Made at the first iterator and kept: all iterators share seed and epochs.

    `kind`: "native", "indices" or "stream". `why`: the reason, for `explain`. `dataset`: the distributed pipeline of
    batches or indices; None for a stream. `convert`: turns a native batch into torch's. `inner`: the plain loader that
    makes the batches of indices and streams. `feed`: the batch sampler of `inner` for indices. `follows`: what
    `followed` has found. `facts`: what the ranks must agree on, in the user's words, besides what the library compares.
    `order`: see `order_of`.
    """

    kind: str
    why: str
    dataset: DistributedDataset | None
    convert: Convert
    inner: Any = None
    feed: Any = None
    follows: tuple[Any, ExactSampler] | None = None
    facts: list[tuple[str, str]] = field(default_factory=list)
    order: dict[str, Any] = field(default_factory=dict)

    def state_after(self, loader: DataLoader, steps: int, begin: dict[str, Any]) -> dict[str, Any]:
        """The strategy's position after the first `steps` steps of an epoch, like `begin`, which is another one.

        For rows of a map-style dataset, where a step is a global batch.
        """
        assert self.dataset is not None, "only a stream has none"
        batch, rows = loader._global_batch(), loader._num_rows()
        element = min(steps, -(-rows // batch))
        if steps >= len(self.dataset):  # a tail may have joined the last two
            element = -(-rows // batch)
        place = begin["cursor"] | {"element": element, "part": 0, "part_rows": 0, "row": 0}
        return begin | {"cursor": place, "row": min(element * batch, rows), "step": min(steps, len(self.dataset))}


def plan_of(loader: DataLoader, strategy: MultiWorkerMirroredStrategy) -> Plan:
    """Decides how `loader`'s data is assigned over the processes of `strategy`."""
    if is_own_stream(loader):
        hugging_face.check_split(loader.dataset, *group_size_and_rank(loader._loader_config.distributed))
        if loader._share is None and not hugging_face.is_stream(loader.dataset):  # the split of those was checked
            strategy._warn_of_peers("reads streams of its own", "rows of their own", "Read the same stream")
        return _stream_plan(loader)
    if isinstance(loader.dataset, Dataset):
        return _pipeline_plan(loader, strategy)
    if loader._order is not None:
        return _index_plan(loader, strategy, "a sampler that all ranks share orders the rows")
    try:
        return _rows_plan(loader, strategy)
    except NotNative as reason:
        return _index_plan(loader, strategy, str(reason))


def _assign(loader: DataLoader, strategy: Any, native: _C.Dataset, options: _C.Options) -> DistributedDataset:
    config = loader._loader_config
    policy = _C.Options(auto_shard_policy=_C.AutoShardPolicy.DATA, seed=config.seed)
    assigned = Dataset(native.with_options(options).with_options(policy))
    given = config.tail if config.tail_given else None
    tail = "drop" if loader.drop_last else given
    input_options = InputOptions(split=config.split, tail=tail, peer_timeout=config.peer_timeout)
    return strategy.distribute_dataset(assigned, input_options)


def _pipeline_plan(loader: DataLoader, strategy: Any) -> Plan:
    native, spec = loader.dataset._native, loader.dataset.element_spec
    why = "a pipeline of this library is assigned by rows"
    if not loader._auto_collation:
        convert = converted(spec) if spec is not None else loader.collate_fn
        return Plan("native", why, _assign(loader, strategy, native, options_of(loader)), convert)
    if not is_stock_collate(loader.collate_fn) or spec is None or not can_collate(spec):
        raise ValueError(
            "DataLoader: with `distributed`, a dataset of torch_distinput is batched natively: use `.map` and `.batch` "
            "instead of a `collate_fn`, and `batch_size=None`."
        )
    batches = native.batch(loader._global_batch())
    return Plan("native", why, _assign(loader, strategy, batches, options_of(loader)), collated(spec))


def _rows_plan(loader: DataLoader, strategy: Any) -> Plan:
    if (follows := followed(loader)) is not None:
        raise NotNative(f"a {type(follows[0]).__name__} around the loader's batch sampler reads them")
    if not is_stock_collate(loader.collate_fn):
        raise NotNative("`collate_fn` is not torch's default, or types were added to it")
    if loader.timeout or loader.worker_init_fn is not None or loader.multiprocessing_context is not None:
        raise NotNative("`timeout`, `worker_init_fn` or `multiprocessing_context` needs worker processes")
    source = source_of(loader.dataset)
    rows = source.native.shuffle(None, loader._loader_config.seed, True) if loader._shuffle else source.native
    options = row_options(source, options_of(loader), reads_ahead(loader))
    assigned = _assign(loader, strategy, rows.batch(loader._global_batch()), options)
    why = f"rows of a {type(loader.dataset).__name__} are copied natively"
    return Plan("native", why, assigned, collated(source.spec), facts=_facts_of(loader))


def _index_plan(loader: DataLoader, strategy: Any, why: str) -> Plan:
    rows, options = _C.Dataset.range(0, len(loader.dataset), 1), _C.Options()
    if loader._order is not None:
        rows, options = _C.Dataset.from_tensor_slices(loader._order.rows), IN_CALLERS_THREAD
    elif loader._shuffle:
        rows = rows.shuffle(None, loader._loader_config.seed, True)
    assigned = _assign(loader, strategy, rows.batch(loader._global_batch()), options)
    feed, follows = Feed(), followed(loader)
    # An iterator that does not end with an epoch keeps its workers.
    keeps = loader.persistent_workers or (follows is not None and loader.num_workers > 0)
    inner = loader._plain(batch_sampler=feed, persistent_workers=keeps)
    why = f"indices are assigned, because {why}"
    return Plan("indices", why, assigned, None, inner, feed, follows, _facts_of(loader))


def _facts_of(loader: DataLoader) -> list[tuple[str, str]]:
    collate = loader.collate_fn
    name = f"{getattr(collate, '__module__', '')}.{getattr(collate, '__qualname__', type(collate).__qualname__)}"
    return [("dataset", content_of(loader.dataset)), ("shuffle", str(loader._shuffle)), ("collate_fn", name)]


def _stream_plan(loader: DataLoader) -> Plan:
    later, why = exchanged(loader), "each rank reads a stream of its own, and the ranks agree on the end"
    if later is not None:
        why += f"; the {type(later).__name__} that was set after the constructor orders its rows"
    batches = loader._user_batch_sampler if later is None else later
    if batches is not None and loader.batch_sampler is not None:
        return Plan("stream", why, None, None, loader._plain(batch_sampler=batches))
    sampler = loader._user_sampler if later is None else later
    inner = loader._plain(batch_size=loader.batch_size, drop_last=loader.drop_last, sampler=sampler)
    return Plan("stream", why, None, None, inner)


ITERATORS = {"native": Steps, "indices": IndexSteps, "stream": StreamSteps}


def _posted_batch(board: dist.Store, timeout: float) -> bytes:
    """What a rank posts as an example, as soon as it has. The store is asked by a thread: Ctrl-C ends no call of it,
    and a host that is frozen answers none."""
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


class DistributedFeed:
    """The strategy of a loader with `distributed`, and the plan by which its data is assigned."""

    def __init__(self, loader: DataLoader):
        self._strategy: MultiWorkerMirroredStrategy | None = None
        self._plan: Plan | None = None
        self._planned_for: Samplers
        self._example: Any = None
        # The names of strategies are numbered, so all ranks must make them in the same order: here, or at the first
        # iterator where there is no group yet.
        if loader._loader_config.distributed is not True or dist.is_initialized():
            self.strategy(loader)

    def strategy(self, loader: DataLoader) -> MultiWorkerMirroredStrategy:
        """The strategy, made at the first call. RuntimeError where the environment says that there are several
        processes, but no group is initialised."""
        if self._strategy is None:
            self._strategy = strategy_of(loader)
        return self._strategy

    def plan(self, loader: DataLoader) -> Plan:
        """The plan, made at the first call, so that an order without a seed is drawn once, and again only where a
        subclass has exchanged the samplers since."""
        samplers = samplers_now(loader)
        if self._plan is None or not samplers.same(self._planned_for):
            self._plan, self._planned_for = plan_of(loader, self.strategy(loader)), samplers
            self._plan.order = order_of(loader)
        return self._plan

    def check_kind(self, loader: DataLoader, kind: str) -> None:
        """Raises ValueError for a state of data that was assigned in another way. Where there is no group yet, the
        iterator asks again."""
        if self._strategy is None:
            return
        own = self.plan(loader).kind
        if kind != own:
            raise ValueError(f"load_state_dict: `kind` must be {own!r}, as this data is assigned, but is {kind!r}.")

    def post_example(self, loader: DataLoader, batch: Any) -> None:
        """Posts `batch`, cut to zero rows, to the store for ranks that have had no batch. Only the first call posts."""
        if self._example is not None:
            return
        try:
            self._example = without_rows(batch)
            text = _peer_values.encode_example(self._example)
        except Exception:  # noqa: BLE001 - a rank that needs the example raises the error
            self._example, text = batch, b""
        board = self.strategy(loader)._example_board()
        if board is not None:
            board.set("batch", text)  # type: ignore[arg-type]  # torch's stub knows only str

    def example(self, loader: DataLoader) -> Any:
        """The example that another rank posted; waits for it. ValueError where no rank could cut or send one."""
        board = self.strategy(loader)._example_board()
        if self._example is None and board is not None:
            text = _posted_batch(board, loader._loader_config.peer_timeout)
            whose = "DataLoader: the example batch of another rank, under `batch` in the group's store"
            self._example = _peer_values.decode_example(text, whose) if text else None
        if self._example is None:
            raise ValueError(
                "DataLoader: this rank has had no batch yet, and those of other ranks cannot be cut to 0 rows and "
                "sent; use a collate_fn that makes tensors and lists."
            )
        return self._example

    def iterate(self, loader: DataLoader) -> Steps:
        """A new iterator over the steps of this rank."""
        plan = self.plan(loader)
        if plan.dataset is not None:
            plan.dataset._empty_parts.at_start(plan.dataset._native, self.strategy(loader), stacklevel=4)
        return ITERATORS[plan.kind](loader, plan)

    def explain(self, loader: DataLoader) -> Explanation:
        """A report on the kind of data and its assignment."""
        plan = self.plan(loader)
        text = f"path: distributed, {plan.kind}\nwhy: {plan.why}"
        if plan.kind != "native":
            text += f"\nthreads: {f'{loader.num_workers} processes' if loader.num_workers else 'caller'}"
        if plan.dataset is not None:
            text += f"\n{plan.dataset.explain()}"
        else:
            text += "\nsteps: as many as the longest of the ranks' streams has; the ranks agree on them"
            if loader._share is not None:
                world = self.strategy(loader).num_replicas_in_sync
                text += f"\nwork: every rank reads all elements, {world} times in all, and keeps its share"
        return explained_loader(loader, text)

    def length(self, loader: DataLoader) -> int:
        """Steps of an epoch, equal on all ranks; raises TypeError where that is unknown before reading."""
        plan = self.plan(loader)
        if plan.dataset is None:
            if loader._share is not None:
                return loader._share.num_steps()
            raise TypeError("len: the number of steps is unknown where each rank reads a stream of its own.")
        return len(plan.dataset)

    def global_valid(self, loader: DataLoader, step: int, k: int) -> int:
        """Rows over all ranks in steps [step, step + k); raises ValueError where that is unknown before reading."""
        plan = self.plan(loader)
        if plan.dataset is None or isinstance(loader.dataset, Dataset):
            raise ValueError("global_valid: the rows of coming steps are known for map-style datasets only.")
        config = loader._loader_config
        world = self.strategy(loader).num_replicas_in_sync
        tail = "drop" if loader.drop_last else config.tail
        rows = step_rows(loader._num_rows(), loader._global_batch(), world, config.split, tail)
        return sum(rows.global_valid(at) for at in range(step, min(step + k, rows.num_steps)))
