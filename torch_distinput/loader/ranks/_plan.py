# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""How the data of a loader with `distributed` is assigned to ranks.

There are three kinds of data. Native rows and datasets of this library are pipelines, whose batches the strategy
assigns. For a map-style dataset that Python reads, the strategy assigns indices, and each rank loads its rows through a
plain DataLoader. A stream or a user's sampler belongs to one rank: a plain DataLoader reads it, and the ranks agree
only on steps. torch's WeightedRandomSampler is no such sampler: its weights draw rows for all ranks.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch_distinput import _C
from torch_distinput.datasets._dataset import Dataset, asks_for_streams
from torch_distinput.distribute._distributed import DistributedDataset
from torch_distinput.distribute._input_options import InputOptions
from torch_distinput.distribute._multi_worker import MultiWorkerMirroredStrategy, warn_of_peers
from torch_distinput.executors._called_functions import CalledFunctions
from torch_distinput.loader._config import LoaderConfig
from torch_distinput.loader.orders._exact_sampler import ExactSampler, group_size_and_rank
from torch_distinput.loader.orders._exchanged import exchanged, followed, is_own_stream
from torch_distinput.loader.paths._native import native_rows, options_of
from torch_distinput.loader.ranks._indices import AssignedIndices
from torch_distinput.ops._base import native_of
from torch_distinput.recognize import _hugging_face as hugging_face
from torch_distinput.recognize._collation import Convert, can_collate, collated, converted, is_stock_collate
from torch_distinput.recognize._contents import content_of
from torch_distinput.recognize._fetch import Sifting
from torch_distinput.recognize._live_rows import IN_CALLERS_THREAD
from torch_distinput.recognize._native_source import NotNative
from torch_distinput.recognize._sources import source_of

MakeLoader = Callable[..., Any]  # (config, **changes) -> a loader of this rank's own, without `distributed`


@dataclass
class Plan:
    """How a loader's data is assigned. Made at the first iterator and kept: all iterators share seed and epochs.

    `kind`: "native", "indices" or "stream". `why`: the reason, for `explain`. `dataset`: the distributed pipeline of
    batches or indices; None for a stream. `convert`: turns a native batch into torch's. `inner`: the plain loader that
    makes the batches of indices and streams. `indices`: the batch sampler of `inner` for indices. `follows`: see
    `followed`. `streams`: ranks read streams of their own, of which nobody else can read the rest. `facts`: what the
    ranks must agree on besides what the library compares, in the user's words. `order`:
    see `order_of` and `steps_of`. `numbers`: the assignment of native rows by their indices, once it was asked for.
    `called`: the functions of the pipeline that workers of an executor call.
    """

    kind: str
    why: str
    dataset: DistributedDataset | None = None
    convert: Convert = None
    inner: Any = None
    indices: AssignedIndices | None = None
    follows: tuple[Any, ExactSampler] | None = None
    streams: bool = False
    facts: list[tuple[str, str]] = field(default_factory=list)
    order: dict[str, Any] = field(default_factory=dict)
    numbers: DistributedDataset | None = None
    called: CalledFunctions | None = None


def plan_of(config: LoaderConfig, strategy: MultiWorkerMirroredStrategy, plain: MakeLoader) -> Plan:
    """Decides how the data of a loader is assigned over the ranks of `strategy`."""
    if is_own_stream(config):
        hugging_face.check_split(config.dataset, *group_size_and_rank(config.ranks))
        split_is_checked = config.stream_part is not None or hugging_face.is_stream(config.dataset)
        place = config.mesh_place
        if not split_is_checked and (place is None or len(place.peers) == 1):  # peers of a mesh compare their rows
            warn_of_peers(strategy, "reads streams of its own", "rows of their own", "Read the same stream")
        return _stream_plan(config, plain)
    if isinstance(config.dataset, Dataset):
        return _pipeline_plan(config, strategy)
    if config.skips_rows:
        return _index_plan(config, strategy, plain, '`on_error="skip"` reads rows one by one')
    if config.executor is not None:
        return _index_plan(config, strategy, plain, "workers of `executor` are asked for them")
    if config.shared_order is not None:
        return _index_plan(config, strategy, plain, "a sampler that all ranks share orders the rows")
    try:
        return _rows_plan(config, strategy)
    except NotNative as reason:
        return _index_plan(config, strategy, plain, str(reason))


def input_options(config: LoaderConfig, to_device: bool = True) -> InputOptions:
    """How the rows of a loader are assigned. `to_device`: whether they go to the strategy's devices."""
    given = config.tail if config.tail_given else None
    tail = "drop" if config.drop_last else given
    return InputOptions(
        split=config.split,
        tail=tail,
        balance=config.balance,
        balance_window=config.balance_window,
        peer_timeout=config.peer_timeout,
        host_timeout=config.host_timeout,
        fetch_to_device=to_device,
    )


def _assign(config: LoaderConfig, strategy: Any, native: _C.Dataset, to_device: bool = True) -> DistributedDataset:
    policy = _C.AutoShardPolicy.STREAMS if asks_for_streams(config.dataset) else _C.AutoShardPolicy.DATA
    assigned = native.with_options(_C.Options(auto_shard_policy=policy, seed=config.seed))
    return strategy.distribute_dataset(Dataset(assigned), input_options(config, to_device))


def _pipeline_plan(config: LoaderConfig, strategy: Any) -> Plan:
    assigned, convert = assigned_pipeline(config, strategy)
    why = "a pipeline of this library is assigned by rows"
    return Plan("native", why, assigned, convert, streams=asks_for_streams(config.dataset))


def assigned_pipeline(config: LoaderConfig, strategy: Any) -> tuple[DistributedDataset, Convert]:
    """Batches of a dataset of this library, assigned to the ranks, and what turns them into torch's. Raises ValueError
    where native code cannot batch them."""
    native, spec = native_of(config.dataset), config.dataset.element_spec
    if not config.auto_collation:
        convert = converted(spec) if spec is not None else config.collate_fn
    elif is_stock_collate(config.collate_fn) and spec is not None and can_collate(spec):
        native, convert = native.batch(config.global_batch(strategy.num_replicas_in_sync)), collated(spec)
    else:
        raise ValueError(
            "DataLoader: with `distributed`, a dataset of torch_distinput is batched natively: use `.map` and `.batch` "
            "instead of a `collate_fn`, and `batch_size=None`."
        )
    return _assign(config, strategy, native.with_options(options_of(config))), convert


def _rows_plan(config: LoaderConfig, strategy: Any) -> Plan:
    if (follows := followed(config)) is not None:
        raise NotNative(f"a {type(follows[0]).__name__} around the loader's batch sampler reads them")
    if not is_stock_collate(config.collate_fn):
        raise NotNative("`collate_fn` is not torch's default, or types were added to it")
    if config.timeout or config.worker_init_fn is not None or config.multiprocessing_context is not None:
        raise NotNative("`timeout`, `worker_init_fn` or `multiprocessing_context` needs worker processes")
    source = source_of(config.dataset)
    costs_by_row = config.balance is not None and not isinstance(config.balance, str) and not callable(config.balance)
    if costs_by_row and any(op.call.startswith("select(") for op in source.native.ops()):
        raise NotNative("`balance` has the costs of the rows of a Subset, not of the dataset in it")
    batch = config.global_batch(strategy.num_replicas_in_sync)
    rows = native_rows(config, source, batch, shuffles=config.shuffle, permutation=config.seed)
    why = f"rows of a {type(config.dataset).__name__} are copied natively{_drawn(config)}"
    return Plan("native", why, _assign(config, strategy, rows), collated(source.spec), facts=_facts_of(config))


def _index_plan(config: LoaderConfig, strategy: Any, plain: MakeLoader, why: str) -> Plan:
    indices, follows = AssignedIndices(), followed(config)
    if follows is not None and config.share is not None:
        raise ValueError(
            f"DataLoader: `share={config.share!r}` excludes a {type(follows[0]).__name__} around the loader's batch "
            "sampler, which each rank must read."
        )
    # An iterator that does not end with an epoch keeps its workers.
    keeps = config.persistent_workers or (follows is not None and config.num_workers > 0)
    changes = {"collate_fn": Sifting(config.collate_fn)} if config.skips_rows else {}
    return Plan(
        "indices",
        f"indices are assigned, because {why}{_drawn(config)}",
        assigned_indices(config, strategy, why),
        inner=plain(config, batch_sampler=indices, persistent_workers=keeps, **changes),
        indices=indices,
        follows=follows,
        facts=_facts_of(config),
    )


def assigned_indices(config: LoaderConfig, strategy: Any, why: str) -> DistributedDataset:
    """Batches of the indices of a map-style dataset, assigned to the ranks. Raises ValueError, with `why` this is
    needed, where `balance` needs the rows themselves."""
    if isinstance(config.balance, str) or callable(config.balance):
        raise ValueError(
            f"DataLoader: `balance` must be a tensor with the cost of each row, because indices are assigned: {why}."
        )
    rows, options = _C.Dataset.range(0, len(config.dataset), 1), _C.Options()
    if config.shared_order is not None:
        rows, options = _C.Dataset.from_tensor_slices(config.shared_order.rows), IN_CALLERS_THREAD
    elif config.weighted is not None:
        rows = config.weighted.of(rows, config.seed)
    elif config.shuffle:
        rows = rows.shuffle(None, config.seed, True)
    batches = rows.batch(config.global_batch(strategy.num_replicas_in_sync)).with_options(options)
    return _assign(config, strategy, batches, to_device=False)


def _drawn(config: LoaderConfig) -> str:
    if config.weighted is None:
        return ""
    return "; the weights of the WeightedRandomSampler draw them, once for all ranks and not as torch does"


def _facts_of(config: LoaderConfig) -> list[tuple[str, str]]:
    collate = config.collate_fn
    name = f"{getattr(collate, '__module__', '')}.{getattr(collate, '__qualname__', type(collate).__qualname__)}"
    return [("dataset", content_of(config.dataset)), ("shuffle", str(config.shuffle)), ("collate_fn", name)]


def _stream_plan(config: LoaderConfig, plain: MakeLoader) -> Plan:
    later, why = exchanged(config), "each rank reads a stream of its own, and the ranks agree on the end"
    if later is not None:
        why += f"; the {type(later).__name__} that was set after the constructor orders its rows"
    batches = config.given_batch_sampler if later is None else later
    if batches is not None and config.batch_sampler is not None:
        return Plan("stream", why, inner=plain(config, batch_sampler=batches), streams=True)
    sampler = config.given_sampler if later is None else later
    inner = plain(config, batch_size=config.batch_size, drop_last=config.drop_last, sampler=sampler)
    return Plan("stream", why, inner=inner, streams=True)
