# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`DataLoader`: torch's, with native paths, states and exact distribution."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from torch_distinput.base._arguments import count, flag, number, optional_integer, sequence
from torch_distinput.base._row_cost import RowCost
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.datasets._rebuild import reading_of
from torch_distinput.distribute._membership import Membership
from torch_distinput.distribute._multi_worker import strategy_group
from torch_distinput.distribute._part import WHOLE, Part
from torch_distinput.executors._executor import EngineName, Executor, executor_of
from torch_distinput.loader._advice import advice_for
from torch_distinput.loader._checks import check_arguments, check_ranks_arguments
from torch_distinput.loader._config import LoaderConfig, Shown, argument, config_of, configure, own_arguments, refuses
from torch_distinput.loader._described import described_loader
from torch_distinput.loader._explained import explained_loader, gather_stats, size_facts
from torch_distinput.loader._observers import AskedWhetherPrepared, observer_of
from torch_distinput.loader.ledger._ledger import Ledger, ledger_of, pipeline_ledger
from torch_distinput.loader.ledger._logged import rows_in
from torch_distinput.loader.ledger._of_state import ledger_of_state
from torch_distinput.loader.ledger._seek import moved
from torch_distinput.loader.members._arguments import check_membership
from torch_distinput.loader.members._committed import Committed
from torch_distinput.loader.members._member_steps import MemberSteps
from torch_distinput.loader.members._positions_of import positions_of
from torch_distinput.loader.members._reading import Reading
from torch_distinput.loader.orders._exact_sampler import ExactBatches, ExactSampler, group_size_and_rank, step_rows
from torch_distinput.loader.orders._exchanged import is_own_stream, samplers_now
from torch_distinput.loader.orders._weighted import WeightedDraws, is_weighted, is_weighted_batches
from torch_distinput.loader.paths._choice import choose_path
from torch_distinput.loader.paths._iterators import LoaderIter
from torch_distinput.loader.ranks._feed import Feed
from torch_distinput.loader.ranks._open import open_steps
from torch_distinput.loader.state._check import STATE, VERSION, check, state_of
from torch_distinput.loader.state._joined import joined
from torch_distinput.loader.state._position import stateful_sampler
from torch_distinput.loader.state._progress import Progress
from torch_distinput.observe._explanation import UNCOUNTED, Explanation, of_pipeline
from torch_distinput.observe._stats import Stats, Verdict, reports_of, verdict_of, verdict_over_ranks
from torch_distinput.ops._base import native_of
from torch_distinput.typing import OnError, OnWorkerDeath, Order, SharedBy, Split, Tail

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
        distributed: True, a process group or a DeviceMesh: each rank passes the whole dataset, every row reaches one
            rank, and all ranks take the same number of steps. Of a mesh of several dims, rows are dealt along those for
            data, as for `MultiWorkerMirroredStrategy`; ranks that differ in other dims only (tensor, context and
            pipeline parallelism) get the same rows, and compare one step of 32: where it differs, all of them raise
            DistributedDatasetError. torch's WeightedRandomSampler, also in its BatchSampler, draws once for all ranks,
            by a copy of its weights and with `seed`; the draws are not those of `torch.multinomial`, and its generator
            is not used. A Python `IterableDataset`, or any other sampler of the user's, is a stream that only this rank
            reads; the ranks then agree on the number of steps only.
        membership: who takes part in each step, where processes come and go while the others go on, instead of
            `distributed`. Each step holds one global batch of `global_batch_size` rows, whatever the number of members,
            dealt to the members that it begins with. It counts once `commit(True)` was called; a step that was not
            committed comes again, for whoever is there then. An iterator ends with an epoch, by the number of committed
            steps. A random order needs `seed`. Of data without random access all members read all rows, unless it is
            cut into streams (`AutoShardPolicy.STREAMS`), which have one owner each. A member that is just receiving the
            state of the others gets a batch without rows.
        data_dims: names of the mesh's dims that rows are dealt along, where they are named otherwise.
        share: "node": of the ranks of a mesh that get the same rows, one on each host reads, and the others there take
            its batches from memory that they share. "broadcast": one of them in all reads, and sends its batches to one
            on each other host. Rows, order, states and errors are those without it, and a rank whose reader has left
            its loop or ended reads by itself, or, of a stream, raises DistributedDatasetError. Batches are tensors in
            host memory, arrays, numbers, texts and bytes, in dicts, lists, tuples and named tuples; TypeError names
            anything else. None: each of them reads.
        sequence: dims of the mesh whose peers share sequences, with the dim of the sequences in a batch, or a
            `SequenceCut`: `{"cp": 1}` gives each peer along "cp" its part of dim 1 of all tensors.
        stages: dims of the mesh whose processes are stages of a pipeline: with `{"pp": "ends"}`, the stages between the
            first and the last one along "pp" read no rows: their batches are None, and infos, steps, `len` and states
            those of all others. The rows must be known before they are read: ValueError for a stream.
        global_batch_size: rows of a step over all ranks, instead of `batch_size` for each rank.
        device: where batches arrive; None: on the CPU.
        split: how the rows of a step are assigned to the ranks: "balanced", "lanes" (after `shuffle(blocks=...)`) or
            "tf", as in `InputOptions`, whose default is "tf", because programs of tf.distribute expect its split there.
        tail: what happens to a short last step and to a rank without rows: "zero_rows", "padded", "repeat", "drop",
            "until_first" or "merge". "merge" joins a last step that would leave a rank without rows to the step before
            it. None means "zero_rows", with a warning where "merge" would spare a rank a batch without rows.
            `drop_last=True` means "drop".
        balance: what rows cost, as in `InputOptions`: the ranks' parts of a step, of the same sizes as without it, then
            cost about the same. A tensor has a cost for each row of `dataset`; a dataset whose rows Python makes needs
            one. The shown sampler cannot list the indices then.
        balance_window: steps whose rows are exchanged, as in `InputOptions`.
        seed: makes the order of `shuffle=True`, of a WeightedRandomSampler with `distributed`, or of a dataset of this
            library that shuffles, a function of `seed` and the epoch.
        with_info: yields `(batch, StepInfo)`; without it `last_info` has the info.
        prefetch_bytes: bytes of native rows that may be read ahead, also without workers; of batches that worker
            processes may make ahead, where `prefetch_factor` bounds their number and each worker may make one.
        peer_timeout: seconds that other ranks may keep this one waiting.
        host_timeout: seconds without a sign of life after which another host counts as lost.
        order: "torch": `shuffle=True`, or torch's RandomSampler, draws exactly torch's order for native rows too, for
            programs that need the same loss curve; the order is then held in memory, 8 bytes a row. None: a computed
            permutation orders native rows; rows that Python makes are in torch's order anyway. "torch" excludes `seed`,
            `distributed` and datasets of this library, whose orders torch does not have.
        snapshot_every_n_steps: accepted for scripts written for torchdata's `StatefulDataLoader`, without effect: a
            state is exact after every batch, and costs nothing until `state_dict` is called.
        on_error: "skip" leaves out the rows of a map-style dataset in Python whose `__getitem__` raises. `skipped`
            lists them, and each is a warning of the logger "torch_distinput". Batches get shorter by them; one without
            rows is passed over, or with `distributed` is a batch without rows, so that all ranks take the same steps.
            The ranks agree on the rows of each step then. "raise": the error names the row in a note.
        max_errors: rows of an epoch, over all ranks, that may be left out; one more raises RuntimeError.
        on_worker_death: what happens when a worker process dies: "raise", an error as from torch, which also says what
            the worker was at; "restart", with a warning that says the same, another process does the worker's batches,
            and each row still comes once and in its order. The random numbers of that process are others. A stream must
            have `state_dict` and `load_state_dict`. The fourth death in a row at one batch is an error too.
        executor: "processes", "ray" or an `Executor`: rows are made by workers on this host, or anywhere in a Ray
            cluster, which are asked for parts of steps and may die. Order, states and errors stay here; states are
            those of `distributed=True`. Of data without random access, workers call the functions of `map`. The number
            of workers follows this program's waits, `prefetch_bytes` bounds what is under way (None: 256 MiB);
            `num_workers` must be 0.

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
    membership: Membership | None = argument("membership")
    data_dims: Sequence[str] | None = argument("data_dims")
    share: SharedBy | None = argument("share")
    sequence: Mapping[str, Any] | None = argument("sequence")
    stages: Mapping[str, str] | None = argument("stages")
    global_batch_size: int | None = argument("global_batch_size")
    device: str | torch.device | None = argument("device")
    split: Split = argument("split")
    tail: Tail = argument("tail")
    balance: RowCost | None = argument("balance")
    balance_window: int = argument("balance_window")
    seed: int | None = argument("seed")
    with_info: bool = argument("with_info")
    prefetch_bytes: int | None = argument("prefetch_bytes")
    peer_timeout: float = argument("peer_timeout")
    host_timeout: float = argument("host_timeout")
    order: Order | None = argument("order")
    snapshot_every_n_steps: int | None = argument("snapshot_every_n_steps")
    on_error: OnError = argument("on_error")
    max_errors: int | None = argument("max_errors")
    on_worker_death: OnWorkerDeath = argument("on_worker_death")
    executor: Executor | EngineName | None = argument("executor")
    _loader_feed: Feed | None = None
    _loader_committed: Committed | None = None
    _loader_reading: Reading | None = None  # whose worker processes stay for the next iterator
    _loader_committed_before = 0  # of the loader that this one is a copy of

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
        membership: Membership | None = None,
        data_dims: Sequence[str] | None = None,
        share: SharedBy | None = None,
        sequence: Mapping[str, Any] | None = None,
        stages: Mapping[str, str] | None = None,
        global_batch_size: int | None = None,
        device: str | torch.device | None = None,
        split: Split = "balanced",
        tail: Tail | None = None,
        balance: RowCost | None = None,
        balance_window: int = 1,
        seed: int | None = None,
        with_info: bool = False,
        prefetch_bytes: int | None = None,
        peer_timeout: float = 300.0,
        host_timeout: float = 5.0,
        order: Order | None = None,
        snapshot_every_n_steps: int | None = None,
        on_error: OnError = "raise",
        max_errors: int | None = None,
        on_worker_death: OnWorkerDeath = "raise",
        executor: Executor | EngineName | None = None,
    ):
        if membership is not None:
            check_membership(membership, distributed)
            distributed = WHOLE  # of which each step gives this process its part
        executor = executor_of("DataLoader", executor)
        if executor is not None and not distributed:
            distributed = WHOLE
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
        if distributed and is_weighted(sampler) and before.stream_part is None and before.shared_order is None:
            weighted = WeightedDraws(sampler)
        config = LoaderConfig(
            distributed=distributed,
            membership=membership,
            data_dims=data_dims,
            share=share,
            sequence=sequence,
            stages=stages,
            global_batch_size=global_batch_size,
            device=device,
            split=split,
            tail="zero_rows" if tail is None else tail,
            balance=balance,
            balance_window=balance_window,
            seed=optional_integer("DataLoader", "seed", seed),
            with_info=with_info,
            prefetch_bytes=prefetch_bytes,
            peer_timeout=peer_timeout,
            host_timeout=host_timeout,
            order=order,
            snapshot_every_n_steps=snapshot_every_n_steps,
            on_error=on_error,
            max_errors=max_errors,
            on_worker_death=on_worker_death,
            executor=executor,
            shuffle=bool(shuffle),
            given_sampler=sampler,
            given_batch_sampler=batch_sampler,
            tail_given=tail is not None,
            watched_batches=watched,
            weighted=weighted,
            shared_order=before.shared_order,
            stream_part=before.stream_part,
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
            "num_workers": num_workers,
        }
        check_arguments(replace(config, dataset=dataset, **torchs))
        if distributed:
            _share_rows(self)
        if membership is not None:
            self._loader_committed = _committed_of(self)

    @cached_property
    def _loader_progress(self) -> Progress:
        return Progress()

    # Iterating.

    def _get_iterator(self) -> Any:
        config, progress = config_of(self), self._loader_progress
        if config.distributed:
            feed = _feed_of(self, config)
            if config.membership is not None:
                return MemberSteps(config, progress, _committed_of(self), _member_reading(self, config))
            return open_steps(config, progress, feed, observer_of(self))
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
        _check_steps_count(self, "set_epoch")
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

    def set_weights(self, weights: Sequence[float], step: int | None = None) -> None:
        """Gives the datasets of the pipeline's `sample_from_datasets` other weights, for this epoch and later ones.

        What was read ahead with the weights before is read again. States keep the change. With `distributed`, all ranks
        call it after the same step; where they differ, the next step raises DistributedDatasetError.

        Args:
            weights: one for each dataset, at least 0, not all 0.
            step: the first step with these weights, none of the past; None: the next one, and between epochs the next
                epoch's first. A later step needs random access.

        Raises ValueError for other values, and where the dataset has no mixture.

        >>> letters = [tdi.Dataset.from_tensors(text).repeat() for text in "ab"]
        >>> loader = tdi.DataLoader(tdi.Dataset.sample_from_datasets(letters, [1, 0]).take(6), batch_size=3)
        >>> for batch in loader:
        ...     print(batch)
        ...     loader.set_weights([0, 1])
        ['a', 'a', 'a']
        ['b', 'b', 'b']
        """
        _check_steps_count(self, "set_weights")
        shares = sequence("set_weights", "weights", weights, number)
        self._loader_progress.set_weights(shares, optional_integer("set_weights", "step", step))

    def exclude(self, rows: Iterable[int] = (), steps: Iterable[int] = ()) -> None:
        """Leaves out rows from the next step on, in this epoch and in later ones.

        Steps are filled with the rows that follow, so that they keep their size and the epoch gets shorter. What was
        read ahead is read again. States keep what is excluded. All ranks call it after the same step; where they
        differ, the next step raises DistributedDatasetError.

        Args:
            rows: numbers as `rows_of` has them. An element made of several rows is left out with any of them.
            steps: of the epoch that is being read, or else of the next one: all rows of these steps.

        Raises ValueError for rows that do not exist, where `rows_of` knows none, and for a map-style dataset without
        `distributed`.

        >>> loader = tdi.DataLoader(torch.arange(6), batch_size=2, distributed=True)
        >>> loader.exclude([1, 2])
        >>> list(loader)
        [tensor([0, 3]), tensor([4, 5])]
        """
        _check_steps_count(self, "exclude")
        progress, at = self._loader_progress, _inside_epoch(self)
        chosen = {count("exclude", "rows", row) for row in rows}
        for step in steps:
            chosen.update(self.rows_of(at["epoch"], step).tolist())
        progress.exclude(sorted(chosen))

    def seek(self, step: int) -> None:
        """Lets the next iterator begin at step `step` of the epoch that is being read, or else of the next one.

        Arithmetic wherever `rows_of` knows the rows; else the steps between are read and dropped, and only later steps
        can be sought. With `distributed`, all ranks call it. With `membership`, `step` counts the committed steps of
        all epochs since the start, such as `manager.current_step()` of torchft.

        Args:
            step: at least 0; IndexError beyond the end of the epoch.

        Raises ValueError for an earlier step where the data must be read in order.

        >>> loader = tdi.DataLoader(torch.arange(6), batch_size=2)
        >>> loader.seek(2)
        >>> list(loader)
        [tensor([4, 5])]
        """
        step = count("seek", "step", step)
        if own_arguments(self).membership is not None:
            return _committed_of(self).go_to(step)
        config, progress, state = config_of(self), self._loader_progress, _inside_epoch(self)
        feed = _feed_of(self, config) if config.distributed else None
        there = moved(config, progress, feed, state, step, _steps_of(self))
        if there is not None:
            return self.load_state_dict({STATE: {"version": VERSION} | there})
        if step < state["batches"]:
            raise ValueError(
                f"seek: `step` must be at least {state['batches']}, where the epoch stands, because this data is read "
                f"in order, but is {step}."
            )
        self.load_state_dict({STATE: {"version": VERSION} | state})
        iterator = DataLoader.__iter__(self)
        for _ in range(step - state["batches"]):
            next(iterator)
        progress.pending = iterator

    def commit(self, ok: bool) -> None:
        """With `membership`: says whether the step that was taken last counts.

        Every step is answered before the next one is taken. What was not committed is dealt out again, to the members
        of the next step.

        Args:
            ok: whether the optimizer has made its step, as `manager.should_commit()` of torchft says.

        Raises RuntimeError where no step waits for an answer; and, unless `ok` is False, where the members of the step
        have changed since its rows were dealt: then it does not count.

        >>> loader = tdi.DataLoader(torch.arange(4), membership=tdi.Membership.fixed(0, 1), global_batch_size=2)
        >>> for batch, ok in zip(loader, [True, False, True]):
        ...     print(batch)
        ...     loader.commit(ok)
        tensor([0, 1])
        tensor([2, 3])
        tensor([2, 3])
        """
        membership = own_arguments(self).membership
        if membership is None:
            raise ValueError("commit: the loader must have a `membership`.")
        _committed_of(self).commit(flag("commit", "ok", ok), membership)

    @Shown
    def committed_steps(self) -> int:
        """With `membership`: the steps of all epochs that the job has committed, as far as this process knows.

        Training of E epochs runs while this is less than E * len(loader). ValueError without `membership`.
        """
        if own_arguments(self).membership is None:
            raise ValueError("committed_steps: the loader must have a `membership`.")
        return _committed_of(self).steps

    @Shown
    def committed_epochs(self) -> int:
        """With `membership`: the epochs of which the job has committed every step. ValueError without `membership`."""
        if own_arguments(self).membership is None:
            raise ValueError("committed_epochs: the loader must have a `membership`.")
        return _committed_of(self).epochs

    # States.

    def state_dict(self) -> dict[str, Any]:
        """The position after the batch last yielded (with `membership`, after the step last committed, equal for all
        members): a dict of plain values and tensors. Never communicates.

        Allowed at any time; after the end of an epoch it is the start of the next one. The state also decides the order
        of later epochs: from the first state on, a loader without a generator or seed draws orders from a copy of
        torch's generator, which `torch.manual_seed` and other draws of the program do not change.

        >>> loader = tdi.DataLoader(torch.arange(5), batch_size=2)
        >>> first, state = next(iter(loader)), loader.state_dict()
        >>> loader.load_state_dict(state)
        >>> list(loader)
        [tensor([2, 3]), tensor([4])]
        """
        if own_arguments(self).membership is not None:
            return {STATE: {"version": VERSION} | _committed_of(self).state()}
        state = self._loader_progress.state()
        if state is None:
            self._loader_progress.pending = DataLoader.__iter__(self)  # a subclass's own may return anything
            state = self._loader_progress.state()
            assert state is not None, "there is an iterator now"
        return {STATE: {"version": VERSION} | state}

    def load_state_dict(self, state_dict: dict[str, Any] | list[dict[str, Any]]) -> None:
        """Makes the next iterator continue from a saved position; `{}` starts again with epoch 0.

        The number of workers and the batch size may differ from those of the saved loader, except for streams that
        worker processes read. With `distributed`, so may the number of ranks, except where ranks read streams of their
        own; a list of the states of all ranks goes on where policy STREAMS gave each of them its own streams. A loader
        of one process without `distributed` continues from a state of ranks as the only rank, and has
        `distributed=True` from then on. Raises ValueError, naming the field, for a state of another class, another kind
        of dataset or a newer version.
        """
        _drop_pending(self)
        if isinstance(state_dict, dict) and not state_dict:
            if own_arguments(self).membership is not None:
                return _committed_of(self).go_to(0)
            return self._loader_progress.load(None)
        config, runs_pipeline = config_of(self), partial(_runs_pipeline, self)
        given = joined(state_dict) if isinstance(state_dict, list) else state_dict
        state = check(config, state_of(config, given, runs_pipeline), runs_pipeline)
        if "distributed" in state:
            shared = config if config.distributed else replace(config, distributed=True)
            if not is_own_stream(config):
                _feed_of(self, shared).check_kind(shared, state["kind"])
            if not config.distributed:
                check_ranks_arguments(shared)
                configure(self, replace(own_arguments(self), distributed=True))
                _share_rows(self)
        if config.membership is not None:
            return _committed_of(self).load(state)
        _drop_persistent(self)
        self._loader_progress.load(state)

    # Questions.

    @Shown
    def last_info(self) -> _C.StepInfo | None:
        """With `distributed`: the `StepInfo` of the step last yielded; None before the first one."""
        return self._loader_progress.info

    @Shown
    def skipped(self) -> list[Any]:
        """The indices of the rows that `on_error="skip"` has left out on this rank in the latest epoch, in the order of
        their steps."""
        return list(self._loader_progress.failed.rows)

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

    def rows_of(self, epoch: int, step: int, rank: int | None = None) -> torch.Tensor:
        """The rows of any step, past or future, without reading them: int64 numbers, in order.

        Rows of a map-style dataset are its indices. Those of a dataset of this library are numbered as its source has
        them, before any op; where an op has several inputs, the rows of the second follow all those of the first, and
        so on. An element made of several rows, such as a packed one, has all of them. Rows that the tail repeats are
        named again.

        Args:
            epoch: at least 0.
            step: of the epoch; IndexError if there is none.
            rank: with `distributed`, whose rows; None: of all ranks, one after the other.

        Where only reading tells (a stream, an op without random access), the rows are numbered in the order in which
        the epoch reads them, and a log in memory has those of the steps that this loader has taken, at most 16 bytes
        for each step, since it was made or a state was loaded. Where each rank reads a stream of its own, it has the
        rows of that stream only; where all read one, those of all ranks together.

        Raises ValueError where no log has the step of such data either, for samplers of the user's, and where the order
        is drawn from a seed that is not known yet.

        >>> loader = tdi.DataLoader(torch.arange(5) * 10, batch_size=2, distributed=True)
        >>> loader.rows_of(0, 1)
        tensor([2, 3])
        """
        epoch, step = count("rows_of", "epoch", epoch), count("rows_of", "step", step)
        try:
            ledger, world = _ledger_of(self, epoch)
        except ValueError:
            log = self._loader_progress.logs.of_epoch(epoch)
            if log is None:
                raise
            taken = rows_in(log, epoch, step, rank, _world_of(self))
            return torch.arange(taken.start, taken.stop, dtype=torch.int64)
        ranks = range(world) if rank is None else [count("rows_of", "rank", rank)]
        return torch.tensor([row for each in ranks for row in ledger.rows(step, each)], dtype=torch.int64)

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
        name = type(self).__name__
        if config.distributed and isinstance(config.dataset, Dataset) and native_of(config.dataset).lacks_index():
            return explained_loader(name, config, [UNCOUNTED], None)
        if config.distributed:
            facts, ops = _feed_of(self, config).explained(config)
            if config.membership is not None:
                facts = [*facts, _committed_of(self).described()]
            return explained_loader(name, config, facts, ops)
        path = choose_path(config, self._loader_progress)
        facts = [f"path: {path.name}", f"why: {path.why}"]
        if path.threads:
            facts.append(f"threads: {path.threads}")
        is_counted = path.pipeline is None or not path.pipeline.lacks_index()
        facts += size_facts(config, _steps_of(self) if is_counted else None)
        explained = Explanation("", [], None) if path.pipeline is None else of_pipeline(path.pipeline)
        return explained_loader(name, config, facts + explained.facts, explained.ops)

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
                group (of the default group without `distributed`, and with `membership`) and tells which one the others
                wait for: all ranks must call it, and get the same verdict. RuntimeError if no group is initialised.

        >>> loader = tdi.DataLoader(torch.arange(5), batch_size=2)
        >>> loader.verdict().bound
        'unknown'
        """
        if not all_ranks:
            return verdict_of(self._loader_progress.stats(), partial(advise, self))
        config = own_arguments(self)
        ranks = config.ranks if config.distributed and config.membership is None else True
        group = None if ranks is True or isinstance(ranks, Part) else ranks
        return verdict_over_ranks(gather_stats(self._loader_progress.stats(), group), partial(advise, self))

    def __repr__(self) -> str:
        return described_loader(self, own_arguments(self))

    # The end.

    def close(self) -> None:
        """Ends all iterators and their workers. Not required: each ends with its last reference."""
        _drop_pending(self)
        self._loader_progress.next_epoch.drop()
        for iterator in list(self._loader_progress.live):
            iterator.close()
        self._iterator = None
        for reads in (self._loader_feed, self._loader_reading):
            if reads is not None:
                reads.close()

    def __enter__(self) -> DataLoader[_Item]:
        return self

    def __exit__(self, *error: Any) -> None:
        type(self).close(self)  # a subclass may have an attribute of this name

    def __getstate__(self) -> dict[str, Any]:
        """A copy or pickle has the same arguments, continues with the same epoch, and has no iterators."""
        own: dict[str, Any] = {
            "_loader_feed": None,
            "_loader_reading": None,
            "_loader_progress": self._loader_progress.for_copy(),
        }
        if self._loader_committed is not None:
            own |= {"_loader_committed": None, "_loader_committed_before": self._loader_committed.steps}
        return self.__dict__ | {"_iterator": None} | own


# Functions, not methods: subclasses of the users' have names of their own.


def _share_rows(loader: DataLoader[Any]) -> None:
    """Makes the strategy, and replaces torch's sampler by one that frameworks take for a DistributedSampler."""
    config = config_of(loader)
    _feed_of(loader, config)
    if not config.is_stream and not config.own_sampler:
        world, rank = group_size_and_rank(config.ranks)
        batch = config.global_batch(world)
        size = len(config.dataset) if config.weighted is None else config.num_rows
        rows = step_rows(size, batch, world, config.split, config.steps_tail)
        shuffle, seed, progress = config.shuffle, config.seed, loader._loader_progress
        listed = config.balance is None
        sampler = ExactSampler(config.dataset, world, rank, rows, shuffle, seed, progress, config.weighted, listed)
        share = -(-batch // world)
        batches = config.watched_batches or ExactBatches(sampler, share, config.drop_last)
        loader.__dict__.update(sampler=sampler, batch_sampler=batches, batch_size=share)
    configure(loader, replace(own_arguments(loader), made_with=samplers_now(config_of(loader))))


def _sampler_shown_by(sampler: ExactSampler) -> Any:
    """The user's sampler in the place of which `sampler` is shown; None if there is none."""
    return None if sampler.weighted is None else sampler.weighted.sampler


def _committed_of(loader: DataLoader[Any]) -> Committed:
    """What a loader with `membership` has committed."""
    if loader._loader_committed is None:
        config = config_of(loader)
        positions = positions_of(config, _feed_of(loader, config))
        loader._loader_committed = Committed(positions, loader._loader_committed_before)
    return loader._loader_committed


def _member_reading(loader: DataLoader[Any], config: LoaderConfig) -> Reading:
    """What reads the parts of the next iterator of a loader with `membership`."""
    if not config.persistent_workers or loader._loader_reading is None:
        loader._loader_reading = Reading(config, plain_loader)
    return loader._loader_reading


def _check_steps_count(loader: DataLoader[Any], call: str) -> None:
    """Raises ValueError, naming `call`, for a loader whose position is the number of committed steps alone."""
    if own_arguments(loader).membership is not None:
        raise ValueError(
            f"{call}: with `membership`, the number of committed steps alone says which rows come next, so that "
            "members that join later find the same; use `seek` or `load_state_dict`."
        )


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


def _inside_epoch(loader: DataLoader[Any]) -> dict[str, Any]:
    """The position in the epoch that is being read, or at the start of the next one, whose iterator is made then."""
    state = loader._loader_progress.state()
    if state is None or state["finished"] or loader._loader_progress.loaded is not None:
        loader._loader_progress.pending = DataLoader.__iter__(loader)
        state = loader._loader_progress.state()
    assert state is not None, "there is an iterator now"
    return state


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


@reading_of.register(DataLoader)
def _reading_of(loader: DataLoader[Any], call: str, dataset: Dataset, epoch: int) -> tuple[_C.RowLedger, bool]:
    config = config_of(loader)
    if config.dataset is not dataset:
        raise ValueError(f"{call}: `loader` must be a loader of this dataset, but reads another one.")
    feed = _feed_of(loader, config) if config.distributed else None
    return pipeline_ledger(call, config, loader._loader_progress, feed, epoch), config.auto_collation


def _ledger_of(loader: DataLoader[Any], epoch: int) -> tuple[Ledger, int]:
    """The rows of epoch `epoch`, and how many ranks there are."""
    config = config_of(loader)
    feed = _feed_of(loader, config) if config.distributed else None
    return ledger_of("rows_of", config, loader._loader_progress, feed, epoch), _world_of(loader)


def _world_of(loader: DataLoader[Any]) -> int:
    config = config_of(loader)
    return _feed_of(loader, config).strategy(config).num_replicas_in_sync if config.distributed else 1


def ledger_at(state: dict[str, Any], loader: DataLoader[Any] | None = None) -> tuple[Ledger, int]:
    """The rows of the epoch in which `state` stands, and how many ranks there are: a state of a loader, without the key
    around it. `loader`: the one that was saved, on any number of ranks; None: the state alone tells. Raises ValueError
    where it does not."""
    ledger = ledger_of_state(state, None if loader is None else config_of(loader))
    if ledger is not None:
        return ledger, state["steps"]["world"]
    if loader is None:
        raise ValueError(
            "the state does not say how the rows are ordered and batched: name the loader too, as SCRIPT:OBJECT."
        )
    loader.load_state_dict({STATE: {"version": VERSION} | state})
    if loader._loader_progress.start.drawn is None and not own_arguments(loader).distributed:
        next(iter(loader), None)  # draws the order
    return _ledger_of(loader, state["epoch"])


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


def deal_over(loader: DataLoader[Any], mesh: dist.DeviceMesh) -> None:
    """Deals the rows of a distributed loader along the data dims of `mesh`, before its first iterator."""
    configure(loader, replace(own_arguments(loader), distributed=mesh))
    loader._loader_feed = None
    _share_rows(loader)


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
        arguments |= dict.fromkeys(("prefetch_bytes", "prefetch_factor", "multiprocessing_context"))
        arguments["persistent_workers"] = False
    plain: DataLoader[Any] = DataLoader(config.dataset, **arguments)
    configure(plain, replace(own_arguments(plain), copied_to=config.device))
    return plain


_OF_BATCHES = (
    "num_workers",
    "collate_fn",
    "pin_memory",
    "timeout",
    "worker_init_fn",
    "on_worker_death",
    "multiprocessing_context",
    "generator",
    "prefetch_bytes",
    "prefetch_factor",
    "persistent_workers",
    "pin_memory_device",
)
