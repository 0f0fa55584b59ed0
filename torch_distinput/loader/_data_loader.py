# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`DataLoader`: torch's, with native paths, states and exact distribution."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy
import torch
from torch.utils import data
from torch.utils.data.dataloader import _DatasetKind
from typing_extensions import TypeVar  # torch brings it

from torch_distinput import _C
from torch_distinput.base._arguments import count, optional_integer
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.frameworks import AskedByAccelerate
from torch_distinput.loader._advice import advice_for
from torch_distinput.loader._checks import check_arguments, check_ranks_arguments
from torch_distinput.loader._config import LoaderConfig, Shown, argument, configure, refuses
from torch_distinput.loader._explained import explained_loader, gather_stats, size_facts
from torch_distinput.loader._iterators import LoaderIter
from torch_distinput.loader._paths import LoaderPath, choose_path
from torch_distinput.loader.ranks._exchanged import Samplers, samplers_now
from torch_distinput.loader.ranks._feed import DistributedFeed
from torch_distinput.loader.ranks._sampler import ExactBatches, ExactSampler, group_size_and_rank, step_rows
from torch_distinput.loader.state._check import STATE, VERSION, check, state_of
from torch_distinput.loader.state._position import stateful_sampler
from torch_distinput.loader.state._progress import Memory
from torch_distinput.observe._explanation import Explanation
from torch_distinput.observe._stats import Stats, Verdict, verdict_of, verdict_over_ranks
from torch_distinput.typing import Order, Split, Tail

_Item = TypeVar("_Item", covariant=True, default=Any)  # the default: of tensors and arrays


class DataLoader(data.DataLoader[_Item]):
    """torch's `DataLoader` with the same arguments, attributes, errors and batches.

    Native code copies the rows of tensors, numpy arrays, memory maps, torch's wrappers of these, and datasets of this
    library; `num_workers` then means threads. Python reads all other datasets as torch does: in the caller's thread, or
    in worker processes, which hand batches over in shared memory. `explain()` says which and why. Without workers, rows
    are copied when they are asked for, so that a batch shows what was written to the data before it; `num_workers` or
    `prefetch_bytes` lets threads copy rows ahead. A dataset of this library always reads ahead. With native rows
    `shuffle=True` takes the same draws from the generator as torch, but gives another order, unless `order="torch"`.

    Args:
        dataset: as in torch. A dataset of this library that is batched needs `batch_size=None`.
        distributed: True, a process group or a one-dimensional DeviceMesh: each rank passes the whole dataset, every
            row reaches one rank, and all ranks take the same number of steps. A Python `IterableDataset`, or a sampler
            of the user's, is a stream of this rank's own; the ranks then agree on the number of steps only.
        global_batch_size: rows of a step over all ranks, instead of `batch_size` for each rank.
        device: where batches arrive; None: on the CPU.
        split: how the rows of a step are assigned to the ranks: "balanced" or "tf", as in `InputOptions`.
        tail: what a short last step and a rank without rows become: "zero_rows", "padded", "repeat", "drop",
            "until_first" or "merge". "merge" joins a last step that would leave a rank without rows to the step before
            it. None means "zero_rows", with a warning where "merge" would spare a rank a batch without rows.
            `drop_last=True` means "drop".
        seed: makes the order of `shuffle=True`, or of a dataset of this library that shuffles, a function of this
            number and the epoch.
        with_info: yields `(batch, StepInfo)`; without it `last_info` has the info.
        prefetch_bytes: bytes of native rows that may be read ahead, also without workers.
        peer_timeout: seconds without any sign of life after which another process counts as lost.
        order: "torch": `shuffle=True`, or torch's RandomSampler, draws exactly torch's order for native rows too, for
            those who need the same loss curve; it is then held in memory, 8 bytes a row. None: native rows are drawn by
            a permutation that is computed; rows that Python makes are in torch's order anyway. "torch" excludes
            `seed`, `distributed` and datasets of this library, whose orders torch does not have.
        snapshot_every_n_steps: taken for scripts that were written for torchdata's `StatefulDataLoader`, and without
            effect: a state is exact after every batch, and costs nothing until it is asked for.

    The other arguments are torch's. Raises ValueError or TypeError, naming the argument, for values that do not go
    together. Use a loader and its iterators from one thread at a time.

    >>> loader = tdi.DataLoader(torch.arange(5), batch_size=2)
    >>> list(loader)
    [tensor([0, 1]), tensor([2, 3]), tensor([4])]
    """

    dataset: Any  # torch's, this library's, or what the user made
    sampler: Any
    batch_sampler: Any
    _iterator: LoaderIter | None
    _is_accelerate_prepared = AskedByAccelerate()
    _order: Any = None  # of a sampler that all ranks share, set by an adapter
    _share: Any = None  # of a stream or sampler that all ranks read, set by an adapter
    _skip = 0  # steps that each iterator passes over
    _copied_to: Any = None  # the device to which the loader that reads this one copies the batches
    distributed: bool | Any = argument("distributed")
    global_batch_size: int | None = argument("global_batch_size")
    device: str | torch.device | None = argument("device")
    split: Split = argument("split")
    tail: Tail = argument("tail")
    seed: int | None = argument("seed")
    with_info: bool = argument("with_info")
    prefetch_bytes: int | None = argument("prefetch_bytes")
    peer_timeout: float = argument("peer_timeout")
    order: Order | None = argument("order")
    snapshot_every_n_steps: int | None = argument("snapshot_every_n_steps")
    # What a subclass has whose `__init__` calls torch's only.
    _loader_config = LoaderConfig()
    _shuffle = False
    _user_sampler: Any = None
    _user_batch_sampler: Any = None
    _watched_batches: Any = None
    _made_with: Samplers | None = None
    _feed: DistributedFeed | None = None

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
        order: Order | None = None,
        snapshot_every_n_steps: int | None = None,
    ):
        if isinstance(sampler, ExactSampler):  # a framework makes a new loader from the attributes of this one
            shuffle, sampler = sampler.shuffle, None
        watched: Any = None
        if distributed and isinstance(getattr(batch_sampler, "sampler", None), ExactSampler):
            watched = batch_sampler  # a framework has wrapped our batch sampler, to see the indices
            shuffle, batch_sampler = watched.sampler.shuffle, None
            batch_size = watched.batch_size if global_batch_size is None else 1
        # CPython 3.13.0 loses objects of more than 30 attributes whose `__dict__` was read before from its garbage
        # collector, unless they were given their dict.
        self.__dict__ = dict(self.__dict__)
        if snapshot_every_n_steps is not None:
            count("DataLoader", "snapshot_every_n_steps", snapshot_every_n_steps, least=1)
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
            order=order,
            snapshot_every_n_steps=snapshot_every_n_steps,
            tail_given=tail is not None,
        )
        configure(self, config)
        self._made_with = None
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
        self._shuffle = bool(shuffle)
        self._user_sampler, self._user_batch_sampler = sampler, batch_sampler
        self._watched_batches = watched
        check_arguments(self)
        if distributed:
            self._distributed_feed()
            self._show_sampler()
            self._made_with = samplers_now(self)

    @cached_property
    def _memory(self) -> Memory:
        return Memory()

    @property
    def _own_sampler(self) -> bool:
        """Whether the user gave a sampler."""
        return self._user_sampler is not None or self._user_batch_sampler is not None

    def _distributed_feed(self) -> DistributedFeed:
        if self._feed is None:
            self._feed = DistributedFeed(self)
        return self._feed

    def _global_batch(self) -> int:
        """Rows of a step over all ranks."""
        if self._loader_config.global_batch_size is not None:
            return self._loader_config.global_batch_size
        assert self.batch_size is not None, "check_arguments has seen to it"
        return self.batch_size * self._distributed_feed().strategy(self).num_replicas_in_sync

    def _num_rows(self) -> int:
        """Rows of an epoch of a map-style dataset."""
        return len(self.dataset if self._order is None else self._order.rows)

    def _show_sampler(self) -> None:
        """Replaces torch's sampler by one that frameworks take for a DistributedSampler."""
        if self._dataset_kind != _DatasetKind.Map or self._own_sampler:
            return
        config = self._loader_config
        world, rank = group_size_and_rank(config.distributed)
        assert self.batch_size is not None, "check_arguments has seen to it"
        batch = config.global_batch_size or self.batch_size * world
        tail = "drop" if self.drop_last else config.tail
        rows = step_rows(len(self.dataset), batch, world, config.split, tail)
        sampler = ExactSampler(self.dataset, world, rank, rows, self._shuffle, config.seed, self._memory)
        share = -(-batch // world)
        batches = self._watched_batches or ExactBatches(sampler, share, self.drop_last)
        self.__dict__.update(sampler=sampler, batch_sampler=batches, batch_size=share)

    def _read_as_only_rank(self) -> None:
        check_ranks_arguments(self)
        configure(self, replace(self._loader_config, distributed=True))
        self._distributed_feed()
        self._show_sampler()
        self._made_with = samplers_now(self)

    def _plain(self, **changes: Any) -> DataLoader[Any]:
        """A loader without `distributed` that makes batches of the same dataset in the same way."""
        arguments = {
            "num_workers": self.num_workers,
            "collate_fn": self.collate_fn,
            "pin_memory": self.pin_memory,
            "timeout": self.timeout,
            "worker_init_fn": self.worker_init_fn,
            "multiprocessing_context": self.multiprocessing_context,
            "generator": self.generator,
            "prefetch_factor": self.prefetch_factor,
            "persistent_workers": self.persistent_workers,
            "pin_memory_device": self.pin_memory_device,
        } | changes
        if arguments["num_workers"] == 0:
            arguments |= {"prefetch_factor": None, "persistent_workers": False, "multiprocessing_context": None}
        plain: DataLoader[Any] = DataLoader(self.dataset, **arguments)
        plain._copied_to = self._loader_config.device
        return plain

    def _deliver_to(self, device: torch.device) -> None:
        """Sets the device of a distributed loader that has none yet, before its first iterator."""
        configure(self, replace(self._loader_config, device=device))
        self._feed = None
        self._distributed_feed()

    def _skipping(self, steps: int) -> DataLoader[_Item]:
        """The same distributed loader, whose iterators begin after `steps` steps of their epoch. It shares position and
        epoch with this one."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, _skip=self._skip + count("skip_first_batches", "num_batches", steps))
        return twin

    # Iterating.

    def _get_iterator(self) -> Any:
        if self._loader_config.distributed:
            return self._distributed_feed().iterate(self)
        path = self._path()
        with self._memory.opening(self):
            return path.open()

    def __iter__(self) -> Any:
        pending, self._memory.pending = self._memory.pending, None
        if pending is not None:
            return pending
        return self._get_iterator() if self._loader_config.distributed else super().__iter__()

    def __len__(self) -> int:
        if self._loader_config.distributed:
            return max(self._distributed_feed().length(self) - self._skip, 0)
        return super().__len__()

    def _path(self) -> LoaderPath:
        return choose_path(self)

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
        if stateful_sampler(self) is None:
            self._drop_pending()
        elif self._memory.pending is not None:  # it may have taken indices, which the sampler cannot take back
            self._memory.pending._start.epoch = self._memory.epoch = epoch
        self._memory.pinned = None if self._memory.pending is not None else epoch
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
        state = self._memory.state()
        if state is None:
            self._memory.pending = DataLoader.__iter__(self)  # a subclass's own may return anything
            state = self._memory.state()
            assert state is not None, "there is an iterator now"
        return {STATE: {"version": VERSION} | state}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Lets the next iterator continue from a saved position; `{}` starts again with epoch 0.

        The number of workers and the batch size may differ from those of the saved loader, except for streams that
        worker processes read. With `distributed`, so may the number of ranks, except where ranks read streams of their
        own. A loader without `distributed`, in one process, goes on from the state of ranks as one of them: it has
        `distributed=True` from then on. Raises ValueError, naming the field, for a state of another class, another kind
        of dataset or a newer version.
        """
        self._drop_pending()
        if isinstance(state_dict, dict) and not state_dict:
            return self._memory.load(None)
        state = check(self, state_of(self, state_dict))
        if "distributed" in state and not self._loader_config.distributed:
            self._read_as_only_rank()
        self._drop_persistent()
        self._memory.load(state)

    def _drop_persistent(self) -> None:
        """Ends persistent workers: they keep their dataset as it is, so a loaded state needs new ones."""
        if self._iterator is not None:
            self._iterator.close()
            self._iterator = None

    def _drop_pending(self) -> None:
        pending, self._memory.pending = self._memory.pending, None
        if pending is not None:
            pending.close()

    # Questions.

    @Shown
    def last_info(self) -> _C.StepInfo | None:
        """With `distributed`: the `StepInfo` of the step last yielded; None before the first one."""
        return self._memory.info

    def global_valid(self, step: int, k: int = 1) -> int:
        """With `distributed`: the number of rows, over all ranks, in steps [step, step + k) of an epoch.

        A mean over accumulated gradients divides by it. Raises ValueError without `distributed`, and where the number
        is unknown before reading (anything but a map-style dataset).

        >>> tdi.DataLoader(torch.arange(5), batch_size=2, distributed=True).global_valid(1, k=2)
        3
        """
        if not self._loader_config.distributed:
            raise ValueError("global_valid: the loader must have `distributed=True`.")
        step, k = count("global_valid", "step", step), count("global_valid", "k", k, least=1)
        return self._distributed_feed().global_valid(self, step, k)

    def cardinality(self) -> int:
        """The number of batches of an epoch, `INFINITE` (-1) or `UNKNOWN` (-2).

        >>> tdi.DataLoader(torch.arange(5), batch_size=2).cardinality()
        3
        """
        if not self._loader_config.distributed and isinstance(self.dataset, Dataset) and self.dataset.cardinality() < 0:
            return self.dataset.cardinality()
        try:
            return len(self)
        except (TypeError, NotImplementedError):
            return _C.UNKNOWN

    def explain(self) -> Explanation:
        """A report on which path the next iterator takes, and why. Consoles and notebooks show a tree, with the ops
        that will run below.

        >>> print(tdi.DataLoader(range(5), batch_size=2).explain())
        path: native
        why: rows of a range are copied ahead by threads
        steps: 3
        rows of the first step: 2
        rows of the last step: 1
        """
        if self._loader_config.distributed:
            return self._distributed_feed().explain(self)
        path = self._path()
        facts = [f"path: {path.name}", f"why: {path.why}"]
        if path.threads:
            facts.append(f"threads: {path.threads}")
        return explained_loader(self, "\n".join([*facts, *size_facts(self)]), path.pipeline)

    def stats(self) -> Stats:
        """Counters of the iterator made last, also after its end; all 0 before the first one.

        >>> loader = tdi.DataLoader(torch.arange(5), batch_size=2)
        >>> for batch in loader:
        ...     pass
        >>> loader.stats().batches
        3
        """
        return self._memory.stats()

    def verdict(self, all_ranks: bool = False) -> Verdict:
        """What limits the speed of the program that reads from the iterator made last, by its `stats`, and what would
        help: only arguments that this loader takes and does not have yet.

        Args:
            all_ranks: False looks at this process only and never communicates. True compares the ranks of the loader's
                group (of the default group without `distributed`) and tells which one the others wait for: all ranks
                must call it, and get the same verdict. RuntimeError where no group is initialised.

        >>> loader = tdi.DataLoader(torch.arange(5), batch_size=2)
        >>> loader.verdict().bound
        'unknown'
        """
        if not all_ranks:
            return verdict_of(self._memory.stats(), partial(advice_for, self))
        distributed = self._loader_config.distributed
        group = None if distributed in (None, True, False) else distributed
        return verdict_over_ranks(gather_stats(self._memory.stats(), group), partial(advice_for, self))

    _loader_stats, _loader_explain, _loader_verdict = stats, explain, verdict  # a subclass may have others

    # The end.

    def close(self) -> None:
        """Ends all iterators and their workers. Not required: each ends with its last reference."""
        self._drop_pending()
        for iterator in list(self._memory.live):
            iterator.close()
        self._iterator = None

    def __enter__(self) -> DataLoader[_Item]:
        return self

    def __exit__(self, *error: Any) -> None:
        type(self).close(self)  # an attribute of this name is not ours

    def __getstate__(self) -> dict[str, Any]:
        """A copy or pickle has the same arguments, continues with the same epoch, and has no iterators."""
        return self.__dict__ | {"_iterator": None, "_feed": None, "_memory": self._memory.for_copy()}
