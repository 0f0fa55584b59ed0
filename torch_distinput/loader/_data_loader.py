# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`DataLoader`: torch's, with native paths, states and exact distribution."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from types import SimpleNamespace
from typing import Any

import numpy
import torch
import torch.distributed as dist
from torch.utils import data
from typing_extensions import TypeVar  # torch brings it

from torch_distinput import _C
from torch_distinput.base._arguments import count, optional_integer
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.distribute._multi_worker import strategy_group
from torch_distinput.loader._advice import advice_for
from torch_distinput.loader._checks import check_arguments, check_ranks_arguments
from torch_distinput.loader._config import LoaderConfig, Shown, argument, config_of, configure, own_arguments, refuses
from torch_distinput.loader._described import described_loader
from torch_distinput.loader._explained import explained_loader, gather_stats, size_facts
from torch_distinput.loader._observers import AskedWhetherPrepared, observer_of
from torch_distinput.loader.orders._exact_sampler import ExactBatches, ExactSampler, group_size_and_rank, step_rows
from torch_distinput.loader.orders._exchanged import is_own_stream, samplers_now
from torch_distinput.loader.orders._weighted import WeightedDraws, is_weighted, is_weighted_batches
from torch_distinput.loader.paths._choice import choose_path
from torch_distinput.loader.paths._iterators import LoaderIter
from torch_distinput.loader.ranks._feed import Feed
from torch_distinput.loader.ranks._index_steps import IndexSteps
from torch_distinput.loader.ranks._steps import Steps
from torch_distinput.loader.ranks._stream_steps import StreamSteps
from torch_distinput.loader.state._check import STATE, VERSION, check, state_of
from torch_distinput.loader.state._position import stateful_sampler
from torch_distinput.loader.state._progress import Progress
from torch_distinput.observe._explanation import Explanation, of_pipeline
from torch_distinput.observe._stats import Stats, Verdict, reports_of, verdict_of, verdict_over_ranks
from torch_distinput.typing import Order, Split, Tail

_STEPS = {"native": Steps, "indices": IndexSteps, "stream": StreamSteps}
_Item = TypeVar("_Item", covariant=True, default=Any)  # the default: of tensors and arrays


class DataLoader(data.DataLoader[_Item]):
    """torch's `DataLoader` with the same arguments, attributes, errors and batches.

    Native code copies the rows of tensors, numpy arrays, memory maps, torch's wrappers of these, and datasets of this
    library; `num_workers` then means threads. Python reads all other datasets as torch does: in the caller's thread, or
    in worker processes, which hand batches over in shared memory. `explain()` says which and why. Without workers, rows
    are copied on request, so a batch shows all writes to the data before it; `num_workers` or `prefetch_bytes` lets
    threads copy rows ahead. A dataset of this library always reads ahead. With native rows `shuffle=True` takes the
    same draws from the generator as torch, but gives another order, unless `order="torch"`.

    Args:
        dataset: as in torch. A dataset of this library that is batched needs `batch_size=None`.
        distributed: True, a process group or a one-dimensional DeviceMesh: each rank passes the whole dataset, every
            row reaches one rank, and all ranks take the same number of steps. torch's WeightedRandomSampler, also in
            its BatchSampler, draws once for all ranks, by a copy of its weights and with `seed`; the draws are not
            those of `torch.multinomial`, and its generator is not used. A Python `IterableDataset`, or any other
            sampler of the user's, is a stream that only this rank reads; the ranks then agree on the number of steps
            only.
        global_batch_size: rows of a step over all ranks, instead of `batch_size` for each rank.
        device: where batches arrive; None: on the CPU.
        split: how the rows of a step are assigned to the ranks: "balanced" or "tf", as in `InputOptions`, whose default
            is "tf", because programs of tf.distribute expect its split there.
        tail: what happens to a short last step and to a rank without rows: "zero_rows", "padded", "repeat", "drop",
            "until_first" or "merge". "merge" joins a last step that would leave a rank without rows to the step before
            it. None means "zero_rows", with a warning where "merge" would spare a rank a batch without rows.
            `drop_last=True` means "drop".
        seed: makes the order of `shuffle=True`, of a WeightedRandomSampler with `distributed`, or of a dataset of this
            library that shuffles, a function of `seed` and the epoch.
        with_info: yields `(batch, StepInfo)`; without it `last_info` has the info.
        prefetch_bytes: bytes of native rows that may be read ahead, also without workers.
        peer_timeout: seconds that other ranks may keep this one waiting.
        host_timeout: seconds without a sign of life after which another host counts as lost.
        order: "torch": `shuffle=True`, or torch's RandomSampler, draws exactly torch's order for native rows too, for
            programs that need the same loss curve; the order is then held in memory, 8 bytes a row. None: a computed
            permutation orders native rows; rows that Python makes are in torch's order anyway. "torch" excludes `seed`,
            `distributed` and datasets of this library, whose orders torch does not have.
        snapshot_every_n_steps: accepted for scripts written for torchdata's `StatefulDataLoader`, without effect: a
            state is exact after every batch, and costs nothing until `state_dict` is called.

    The other arguments are torch's. Raises ValueError or TypeError, naming the argument, for values that do not go
    together. Use a loader and its iterators from one thread at a time.

    >>> loader = tdi.DataLoader(torch.arange(5), batch_size=2)
    >>> loader
    DataLoader(Tensor of 5 rows, batch_size=2)
    >>> list(loader)
    [tensor([0, 1]), tensor([2, 3]), tensor([4])]
    """

    dataset: Any  # torch's, this library's, or what the user made
    sampler: Any
    batch_sampler: Any
    _iterator: LoaderIter | None
    _is_accelerate_prepared = AskedWhetherPrepared()
    distributed: bool | Any = argument("distributed")
    global_batch_size: int | None = argument("global_batch_size")
    device: str | torch.device | None = argument("device")
    split: Split = argument("split")
    tail: Tail = argument("tail")
    seed: int | None = argument("seed")
    with_info: bool = argument("with_info")
    prefetch_bytes: int | None = argument("prefetch_bytes")
    peer_timeout: float = argument("peer_timeout")
    host_timeout: float = argument("host_timeout")
    order: Order | None = argument("order")
    snapshot_every_n_steps: int | None = argument("snapshot_every_n_steps")
    _loader_feed: Feed | None = None

    def __init__(
        self,
        dataset: data.Dataset[_Item] | Sequence[_Item] | torch.Tensor | numpy.ndarray,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: data.Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: data.Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: torch.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        distributed: bool | Any = None,
        global_batch_size: int | None = None,
        device: str | torch.device | None = None,
        split: Split = "balanced",
        tail: Tail | None = None,
        seed: int | None = None,
        with_info: bool = False,
        prefetch_bytes: int | None = None,
        peer_timeout: float = 300.0,
        host_timeout: float = 5.0,
        order: Order | None = None,
        snapshot_every_n_steps: int | None = None,
    ):
        if isinstance(sampler, ExactSampler):  # a framework makes a new loader from the attributes of this one
            shuffle, sampler = sampler.shuffle, _sampler_shown_by(sampler)
        watched: Any = None
        if distributed and isinstance(getattr(batch_sampler, "sampler", None), ExactSampler):
            watched = batch_sampler  # a framework has wrapped our batch sampler, to see the indices
            shuffle, batch_sampler = watched.sampler.shuffle, None
            sampler = _sampler_shown_by(watched.sampler)
            batch_size = watched.batch_size if global_batch_size is None else 1
        alone = (batch_size, bool(shuffle), sampler, drop_last) == (1, False, None, False)  # else torch refuses it
        if distributed and alone and is_weighted_batches(batch_sampler):
            weighted_batches: Any = batch_sampler
            batch_size, drop_last = weighted_batches.batch_size, weighted_batches.drop_last
            sampler, batch_sampler = weighted_batches.sampler, None
        # CPython 3.13.0 loses objects of more than 30 attributes whose `__dict__` was read before from its garbage
        # collector, unless they were given their dict.
        self.__dict__ = dict(self.__dict__)
        if snapshot_every_n_steps is not None:
            count("DataLoader", "snapshot_every_n_steps", snapshot_every_n_steps, least=1)
        before = own_arguments(self)  # an adapter may have set how the ranks share the rows
        weighted: Any = None
        if distributed and is_weighted(sampler) and before.share is None and before.shared_order is None:
            weighted = WeightedDraws(sampler)
        config = LoaderConfig(
            distributed=distributed,
            global_batch_size=global_batch_size,
            device=device,
            split=split,
            tail="zero_rows" if tail is None else tail,
            seed=optional_integer("DataLoader", "seed", seed),
            with_info=with_info,
            prefetch_bytes=prefetch_bytes,
            peer_timeout=peer_timeout,
            host_timeout=host_timeout,
            order=order,
            snapshot_every_n_steps=snapshot_every_n_steps,
            shuffle=bool(shuffle),
            given_sampler=sampler,
            given_batch_sampler=batch_sampler,
            tail_given=tail is not None,
            watched_batches=watched,
            weighted=weighted,
            shared_order=before.shared_order,
            share=before.share,
        )
        configure(self, config)
        rows: Any = dataset
        super().__init__(
            rows,
            batch_size,
            shuffle,
            sampler,
            batch_sampler,
            num_workers,
            collate_fn,
            pin_memory,
            drop_last,
            timeout,
            worker_init_fn,
            multiprocessing_context,
            generator,
            prefetch_factor=prefetch_factor,
            persistent_workers=persistent_workers,
            pin_memory_device=pin_memory_device,
            in_order=in_order,
        )
        # The values as given: a property of a subclass may fail before its constructor has ended.
        torchs: dict[str, Any] = {
            "drop_last": drop_last,
            "in_order": in_order,
            "generator": generator,
            "batch_size": self.batch_size,
        }
        check_arguments(replace(config, dataset=dataset, **torchs))
        if distributed:
            _share_rows(self)

    @cached_property
    def _loader_progress(self) -> Progress:
        return Progress()

    # Iterating.

    def _get_iterator(self) -> Any:
        config, progress = config_of(self), self._loader_progress
        if config.distributed:
            feed = _feed_of(self, config)
            return _STEPS[feed.plan(config).kind](config, progress, feed, observer_of(self))
        path = choose_path(config, progress)
        with progress.opening(config):
            return path.open()

    def __iter__(self) -> Any:
        pending, self._loader_progress.pending = self._loader_progress.pending, None
        if pending is not None:
            return pending
        config = config_of(self)
        if config.distributed or not (config.persistent_workers and config.num_workers > 0):
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(config)
        return self._iterator

    def __len__(self) -> int:
        config = config_of(self)
        return _feed_of(self, config).length(config) if config.distributed else super().__len__()

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__dict__.get("_DataLoader__initialized") and refuses(self, name):
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    def set_epoch(self, epoch: int) -> None:
        """Pins the epoch of the next iterator, also in a sampler or dataset that has `set_epoch`.

        Not required: without it, the epoch goes up by one after each iterator that yielded at least one batch. With
        `distributed` and a map-style dataset, an iterator that has yielded nothing yet changes to this epoch, as in
        torch, whose samplers draw their order when they are asked for the first index.

        Args:
            epoch: at least 0, else ValueError.
        """
        epoch = count("set_epoch", "epoch", epoch)
        progress = self._loader_progress
        if stateful_sampler(config_of(self)) is None:
            _drop_pending(self)
        elif progress.pending is not None:  # it may have taken indices, which the sampler cannot take back
            progress.start.epoch = progress.epoch = epoch
        progress.pinned = None if progress.pending is not None else epoch
        samplers: tuple[Any, ...] = (self.sampler, self.batch_sampler, getattr(self.batch_sampler, "sampler", None))
        for part in {id(part): part for part in (*samplers, self.dataset)}.values():
            if callable(getattr(part, "set_epoch", None)):
                part.set_epoch(epoch)

    # States.

    def state_dict(self) -> dict[str, Any]:
        """The position after the batch last yielded: a dict of plain values and tensors. Never communicates.

        Allowed at any time; after the end of an epoch it is the start of the next one. The state also decides the order
        of later epochs: from the first state on, a loader without a generator or seed draws orders from a copy of
        torch's generator, which `torch.manual_seed` and other draws of the program do not change.

        >>> loader = tdi.DataLoader(torch.arange(5), batch_size=2)
        >>> first, state = next(iter(loader)), loader.state_dict()
        >>> loader.load_state_dict(state)
        >>> list(loader)
        [tensor([2, 3]), tensor([4])]
        """
        state = self._loader_progress.state()
        if state is None:
            self._loader_progress.pending = DataLoader.__iter__(self)  # a subclass's own may return anything
            state = self._loader_progress.state()
            assert state is not None, "there is an iterator now"
        return {STATE: {"version": VERSION} | state}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Makes the next iterator continue from a saved position; `{}` starts again with epoch 0.

        The number of workers and the batch size may differ from those of the saved loader, except for streams that
        worker processes read. With `distributed`, so may the number of ranks, except where ranks read streams of their
        own. A loader of one process without `distributed` continues from a state of ranks as the only rank, and has
        `distributed=True` from then on. Raises ValueError, naming the field, for a state of another class, another kind
        of dataset or a newer version.
        """
        _drop_pending(self)
        if isinstance(state_dict, dict) and not state_dict:
            return self._loader_progress.load(None)
        config = config_of(self)
        state = check(
            config, state_of(config, state_dict, partial(_runs_pipeline, self)), partial(_runs_pipeline, self)
        )
        if "distributed" in state:
            shared = config if config.distributed else replace(config, distributed=True)
            if not is_own_stream(config):
                _feed_of(self, shared).check_kind(shared, state["kind"])
            if not config.distributed:
                check_ranks_arguments(shared)
                configure(self, replace(own_arguments(self), distributed=True))
                _share_rows(self)
        _drop_persistent(self)
        self._loader_progress.load(state)

    # Questions.

    @Shown
    def last_info(self) -> _C.StepInfo | None:
        """With `distributed`: the `StepInfo` of the step last yielded; None before the first one."""
        return self._loader_progress.info

    def global_valid(self, step: int, k: int = 1) -> int:
        """With `distributed`: the number of rows, over all ranks, in steps [step, step + k) of an epoch.

        A mean over accumulated gradients divides by it. Raises ValueError without `distributed`, and where the number
        is unknown before reading (anything but a map-style dataset).

        >>> tdi.DataLoader(torch.arange(5), batch_size=2, distributed=True).global_valid(1, k=2)
        3
        """
        config = config_of(self)
        if not config.distributed:
            raise ValueError("global_valid: the loader must have `distributed=True`.")
        step, k = count("global_valid", "step", step), count("global_valid", "k", k, least=1)
        return _feed_of(self, config).global_valid(config, step, k)

    def cardinality(self) -> int:
        """The number of batches of an epoch, `INFINITE` (-1) or `UNKNOWN` (-2).

        >>> tdi.DataLoader(torch.arange(5), batch_size=2).cardinality()
        3
        """
        if not own_arguments(self).distributed and isinstance(self.dataset, Dataset) and self.dataset.cardinality() < 0:
            return self.dataset.cardinality()
        try:
            return len(self)
        except (TypeError, NotImplementedError):
            return _C.UNKNOWN

    def explain(self) -> Explanation:
        """A report: the path that the next iterator takes, why, and the ops that run.

        >>> print(tdi.DataLoader(range(5), batch_size=2).explain())
        path: native
        why: rows of a range are copied ahead by threads
        steps: 3
        rows of the first step: 2
        rows of the last step: 1
        DataLoader(range, batch_size=2)
        └─ with_options(...)...
        """
        config = config_of(self)
        if config.distributed:
            return explained_loader(type(self).__name__, config, *_feed_of(self, config).explained(config))
        path = choose_path(config, self._loader_progress)
        facts = [f"path: {path.name}", f"why: {path.why}"]
        if path.threads:
            facts.append(f"threads: {path.threads}")
        is_counted = path.pipeline is None or not path.pipeline.lacks_index()
        facts += size_facts(config, _steps_of(self) if is_counted else None)
        explained = Explanation("", [], None) if path.pipeline is None else of_pipeline(path.pipeline)
        return explained_loader(type(self).__name__, config, facts + explained.facts, explained.ops)

    def stats(self) -> Stats:
        """Counters of the iterator made last, also after its end; all 0 before the first one.

        >>> loader = tdi.DataLoader(torch.arange(5), batch_size=2)
        >>> for batch in loader:
        ...     pass
        >>> loader.stats().batches
        3
        """
        return self._loader_progress.stats()

    def verdict(self, all_ranks: bool = False) -> Verdict:
        """What limits the program that reads the latest iterator, judged by its `stats`, and which arguments of this
        loader, not set yet, would help.

        Args:
            all_ranks: False looks at this process only and never communicates. True compares the ranks of the loader's
                group (of the default group without `distributed`) and tells which one the others wait for: all ranks
                must call it, and get the same verdict. RuntimeError if no group is initialised.

        >>> loader = tdi.DataLoader(torch.arange(5), batch_size=2)
        >>> loader.verdict().bound
        'unknown'
        """
        if not all_ranks:
            return verdict_of(self._loader_progress.stats(), partial(advise, self))
        distributed = own_arguments(self).distributed
        group = None if distributed in (None, True, False) else distributed
        return verdict_over_ranks(gather_stats(self._loader_progress.stats(), group), partial(advise, self))

    def __repr__(self) -> str:
        return described_loader(self, own_arguments(self))

    # The end.

    def close(self) -> None:
        """Ends all iterators and their workers. Not required: each ends with its last reference."""
        _drop_pending(self)
        for iterator in list(self._loader_progress.live):
            iterator.close()
        self._iterator = None

    def __enter__(self) -> DataLoader[_Item]:
        return self

    def __exit__(self, *error: Any) -> None:
        type(self).close(self)  # a subclass may have an attribute of this name

    def __getstate__(self) -> dict[str, Any]:
        """A copy or pickle has the same arguments, continues with the same epoch, and has no iterators."""
        own = {"_loader_feed": None, "_loader_progress": self._loader_progress.for_copy()}
        return self.__dict__ | {"_iterator": None} | own


# Functions, not methods: subclasses of the users' have names of their own.


def _share_rows(loader: DataLoader[Any]) -> None:
    """Makes the strategy, and replaces torch's sampler by one that frameworks take for a DistributedSampler."""
    config = config_of(loader)
    _feed_of(loader, config)
    if not config.is_stream and not config.own_sampler:
        world, rank = group_size_and_rank(config.distributed)
        batch = config.global_batch(world)
        size = len(config.dataset) if config.weighted is None else config.num_rows
        rows = step_rows(size, batch, world, config.split, config.steps_tail)
        shuffle, seed, progress = config.shuffle, config.seed, loader._loader_progress
        sampler = ExactSampler(config.dataset, world, rank, rows, shuffle, seed, progress, config.weighted)
        share = -(-batch // world)
        batches = config.watched_batches or ExactBatches(sampler, share, config.drop_last)
        loader.__dict__.update(sampler=sampler, batch_sampler=batches, batch_size=share)
    configure(loader, replace(own_arguments(loader), made_with=samplers_now(config_of(loader))))


def _sampler_shown_by(sampler: ExactSampler) -> Any:
    """The user's sampler in the place of which `sampler` is shown; None if there is none."""
    return None if sampler.weighted is None else sampler.weighted.sampler


def _feed_of(loader: DataLoader[Any], config: LoaderConfig) -> Feed:
    if loader._loader_feed is None:
        loader._loader_feed = Feed(config, plain_loader)
    return loader._loader_feed


def _steps_of(loader: DataLoader[Any]) -> int | None:
    try:
        return len(loader)
    except TypeError:
        return None


def _runs_pipeline(loader: DataLoader[Any]) -> bool:
    return choose_path(config_of(loader), loader._loader_progress).pipeline is not None


def _drop_persistent(loader: DataLoader[Any]) -> None:
    """Ends persistent workers: they keep their dataset as it is, so a loaded state needs new ones."""
    if loader._iterator is not None:
        loader._iterator.close()
        loader._iterator = None


def _drop_pending(loader: DataLoader[Any]) -> None:
    pending, loader._loader_progress.pending = loader._loader_progress.pending, None
    if pending is not None:
        pending.close()


# For other modules of this library.


@reports_of.register(DataLoader)
def _reports_of(loader: DataLoader[Any]) -> Any:
    """The class's own methods: a subclass of the user's may have others of these names."""
    own = (DataLoader.stats, DataLoader.verdict, DataLoader.explain)
    return SimpleNamespace(**{method.__name__: partial(method, loader) for method in own})


def progress_of(loader: DataLoader[Any]) -> Progress:
    """Where the iterators of `loader` stand."""
    return loader._loader_progress


def advise(loader: DataLoader[Any], bound: str, stats: Stats) -> str:
    """Advice for a program that reads `loader` and is limited by `bound` of `stats`."""
    config = config_of(loader)
    if config.distributed:
        native = _feed_of(loader, config).plan(config).kind == "native"
    else:
        native = choose_path(config, loader._loader_progress).name == "native"
    return advice_for(config, native, bound, stats)


def group_of(loader: DataLoader[Any]) -> dist.ProcessGroup | None:
    """The ranks that share the rows of a distributed loader; None for one process."""
    config = config_of(loader)
    return strategy_group(_feed_of(loader, config).strategy(config))


def deliver_to(loader: DataLoader[Any], device: torch.device) -> None:
    """Sets the device of a distributed loader that has none yet, before its first iterator."""
    configure(loader, replace(own_arguments(loader), device=device))
    loader._loader_feed = None
    _feed_of(loader, config_of(loader))


def skipping(loader: DataLoader[Any], steps: int) -> DataLoader[Any]:
    """A distributed loader that shares position and epoch with `loader`, and whose iterators begin after `steps` steps
    of their epoch."""
    twin = object.__new__(type(loader))
    twin.__dict__.update(loader.__dict__)
    skip = own_arguments(loader).skip + count("skip_first_batches", "num_batches", steps)
    configure(twin, replace(own_arguments(loader), skip=skip))
    return twin


def plain_loader(config: LoaderConfig, **changes: Any) -> DataLoader[Any]:
    """A loader without `distributed` that makes batches as `config` says, except for `changes`."""
    arguments = {name: getattr(config, name) for name in _OF_BATCHES} | changes
    if arguments["num_workers"] == 0:
        arguments |= {"prefetch_factor": None, "persistent_workers": False, "multiprocessing_context": None}
    plain: DataLoader[Any] = DataLoader(config.dataset, **arguments)
    configure(plain, replace(own_arguments(plain), copied_to=config.device))
    return plain


_OF_BATCHES = (
    "num_workers",
    "collate_fn",
    "pin_memory",
    "timeout",
    "worker_init_fn",
    "multiprocessing_context",
    "generator",
    "prefetch_factor",
    "persistent_workers",
    "pin_memory_device",
)
