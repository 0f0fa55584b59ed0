# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Iterators of a DataLoader with `distributed`: each takes the same number of steps on all ranks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch.autograd.profiler import record_function
from torch.utils.data._utils.pin_memory import pin_memory

from torch_distinput import _C
from torch_distinput.base._device_mover import DeviceMover
from torch_distinput.datasets._dataset import Dataset, pop_pinned_epoch
from torch_distinput.distribute._distributed import empty_parts_of, native_of
from torch_distinput.distribute._empty_parts import EmptyParts
from torch_distinput.loader._config import LoaderConfig, accelerator_of
from torch_distinput.loader._observers import Observer
from torch_distinput.loader.orders._exact_sampler import group_size_and_rank
from torch_distinput.loader.orders._order import Start
from torch_distinput.loader.paths._batches import repeated, without_rows
from torch_distinput.loader.paths._iterators import profiler_enabled
from torch_distinput.loader.ranks._feed import Feed
from torch_distinput.loader.ranks._peer_check import PeerCheck
from torch_distinput.loader.ranks._sequence_parts import sequence_parts
from torch_distinput.loader.sharing._follower_end import Given
from torch_distinput.loader.sharing._sharing import SharedReads, SharingError
from torch_distinput.loader.state._native_state import reads_in_order
from torch_distinput.loader.state._place import described_iterator
from torch_distinput.loader.state._position import batches_of
from torch_distinput.loader.state._progress import Progress, excluded_in
from torch_distinput.loader.state._step_log import StepLog
from torch_distinput.observe._stats import Stats
from torch_distinput.recognize._stateful import Failed, Taken, attempt

_TWO_DATASETS = ("dataset", "pipeline", "length", "content", "type of the elements")
_SHOWN = 32  # ranks in an error
_SHOWN_PARTS = ("batch", "info", "position", "why there is no position")  # of what followers get


class StepPosition:
    """The position of an iterator of steps; it outlives the iterator. `native`: returns the native iterator's position.
    `total`: returns the steps of an epoch. `order`: see `order_of`. `start`: where the iterator began."""

    native: Callable[[], Any]
    total: Callable[[], int | None] = staticmethod(lambda: None)

    def __init__(self, start: Start, kind: str, order: dict[str, Any]):
        self.start, self._kind, self._order = start, kind, order
        self.finished = False
        self.yielded = 0

    @property
    def num_batches(self) -> int | None:
        """The steps of this epoch; None if unknown."""
        return batches_of(self.total(), self.start.state)

    @property
    def seed(self) -> int | None:
        """The seed of the order; None before the ranks have agreed on it."""
        seed = self.native().get("seed")
        return None if seed is None else seed % 2**64

    def state(self) -> dict[str, Any]:
        """The position after the step last yielded, as plain values."""
        native = self.native()
        seed = native.get("seed")
        return {
            "epoch": self.start.epoch,
            "finished": self.finished,
            "batches": self.start.batches + self.yielded,
            "num_batches": self.num_batches,
            "seed": None if seed is None else seed % 2**64,
            "kind": self._kind,
            "distributed": native,
            **self._order,
        }


class Steps:
    """An iterator over the steps of this rank. All ranks have the same number of steps."""

    _workers: Any = ()
    _with_rows = True
    _reads_rows = True  # whether the native iterator does
    _reads_early = False  # the next epoch, before its iterator is asked for
    _peers: PeerCheck | None = None
    _reads: SharedReads | None = None
    _failure: str | None = None
    _pending: Given | None = None  # a step that a peer has read and this process has not followed yet

    def __init__(self, config: LoaderConfig, progress: Progress, feed: Feed, observer: Observer | None):
        self._config, self._progress, self._feed, self._observer = config, progress, feed, observer
        plan = self._plan = feed.plan(config)
        if plan.dataset is not None:
            empty_parts_of(plan.dataset).at_start(native_of(plan.dataset), stacklevel=5)
        self._with_info = config.with_info
        on_host = accelerator_of(config.device) is None
        self._pin = config.pin_memory and on_host and torch.accelerator.is_available()
        self._reads = feed.shared_reads()
        self._follows_stream = plan.streams and feed.follows_stream(config)
        self._reads_early = self._may_read_early()
        self._logs_rows = config.membership is None and (config.is_stream or isinstance(config.dataset, Dataset))
        self._log: StepLog | None = None
        self._profile_name = f"enumerate(DataLoader)#{type(self).__name__}.__next__"
        with self._progress.opening(config):
            self._start: Start = self._progress.start
            epoch = pop_pinned_epoch(config.dataset) if isinstance(config.dataset, Dataset) else None
            if epoch is not None:
                self._start.epoch = self._progress.epoch = epoch
            self._position = StepPosition(self._start, plan.kind, plan.order)
            if plan.dataset is not None:
                assigned = native_of(plan.dataset)
                self._position.total = lambda: assigned.num_steps
            if self._start.state is not None:
                feed.check_kind(config, self._start.state["kind"])
            self._native = self._open()
            self._empty_parts = (
                EmptyParts(config.tail, given=True) if plan.dataset is None else empty_parts_of(plan.dataset)
            )
            if config.skip:
                self._pass_over(config.skip)
            self._progress.attach(self, self._position)
        self._peers = feed.peer_check(config, self._with_rows)
        self._parts = sequence_parts(config)

    def __iter__(self) -> Steps:
        return self

    def __len__(self) -> int:
        return self._feed.length(self._config)

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")

    def __next__(self) -> Any:
        if profiler_enabled():
            with record_function(self._profile_name):
                return self._next_step()
        return self._next_step()

    def _next_step(self) -> Any:
        if self._progress.pinned is not None and not self._position.yielded:
            self._follow_pinned_epoch()
        try:
            step = self._take()
        except SharingError as error:
            self._leave_peers(str(error))
            raise
        except _C.DistributedDatasetError as error:
            self._leave_peers(str(error))
            raise explained(error, self._feed.job_ranks(self._config)) from error
        except Exception as error:
            self._failure = str(error)
            if self._native.failed:  # else another step may follow
                self._leave_peers(self._failure)
            raise
        self._failure = None
        if step is None:
            self._finish()
            raise StopIteration
        batch, info = step
        self._progress.used, self._progress.info = True, info
        self._position.yielded += 1
        if self._logs_rows:
            self._note_rows(info)
        self._empty_parts.after_step(info, stacklevel=3)
        if self._peers is not None:
            self._compare(functools.partial(self._peers.after_step, info, batch))
        if self._parts is not None and self._with_rows:
            batch = self._parts.of(batch)
            batch = pin_memory(batch) if self._pin else batch
        if self._observer is not None:
            self._observer.step(info)
        if info.is_last and self._reads_early and self._native.is_remote:
            self._begin_next_epoch()
        return (batch, info) if self._with_info else batch

    def _note_rows(self, info: _C.StepInfo) -> None:
        """Keeps which rows the step has, where only reading tells."""
        logs, own = self._progress.logs, self._plan.streams
        if self._log is None:
            # What the rank had read of a stream of its own before a saved state is not known.
            self._logs_rows = reads_in_order(self._native.state_dict()) and not (own and info.step > 0)
            if not self._logs_rows:
                return
            rank = group_size_and_rank(self._config.ranks)[1] if own else None
            self._log = logs.begin(self._start.epoch, info.step, 0 if own else info.row_start, rank)
        logs.add(self._log, sum(info.valid) if own else info.global_valid)

    def _follow_pinned_epoch(self) -> None:
        """Begins the epoch that `set_epoch` pinned after this iterator was made and before its first step."""
        progress = self._progress
        if progress.position is not self._position:
            return
        epoch, progress.pinned = progress.pinned, None
        assert epoch is not None, "checked by the caller"
        if epoch == self._start.epoch:
            return
        seed = self._position.native().get("seed")
        self._native.close()
        progress.seed = progress.seed if seed is None else seed % 2**64
        progress.epoch, progress.start = epoch, Start(epoch)
        self._start = self._position.start = progress.start
        self._native = self._open()

    def _finish(self) -> None:
        self._position.finished = True
        if self._reads is not None:
            self._reads.close()
        if self._peers is not None:
            self._compare(self._peers.at_end)
        if self._observer is not None:
            self._observer.end()

    def _leave_peers(self, failure: str | None = None) -> None:
        if self._reads is not None:
            self._reads.close()
        if self._peers is not None:
            self._peers.leave(failure)

    def _compare(self, compare: Callable[[], None]) -> None:
        """Where peers got other rows, the other ranks are told before this one raises."""
        try:
            compare()
        except _C.DistributedDatasetError:
            self.close()
            raise

    def _open(self) -> _C.DistributedIterator:
        # Without a seed of the user's, the seed of a loaded state decides the order of all later epochs.
        seed = self._progress.seed if self._config.seed is None else None
        assert self._plan.dataset is not None, "only a stream has none"
        by_number = self._skip_is_arithmetic()
        if by_number and seed is None and self._config.seed is None:
            seed = 0  # nothing is random, but positions hold a seed that ranks have agreed on
        native = self._progress.next_epoch.take(self._early_key(self._start.epoch, seed))
        if native is None:
            native = native_of(self._plan.dataset).iterate(
                epoch=self._start.epoch, seed=seed, facts=self._plan.facts, with_rows=self._reads_rows
            )
        if self._start.state is not None:
            native.load_state_dict(self._start.state["distributed"])
        else:
            if self._progress.weights is not None:
                native.set_weights(self._progress.weights)
            if self._progress.excluded:
                native.load_state_dict(native.state_dict() | {"excluded": self._progress.excluded})
        if by_number:
            native.load_state_dict(native.state_at(min(self._config.skip, len(self._plan.dataset))))
        self._position.native = native.state_dict
        return native

    def _may_read_early(self) -> bool:
        """Whether this rank reads rows by itself, in the order of whole epochs. Where members come and go, the next
        step may be another part's; a peer reads for those that `share`."""
        config = self._config
        return self._reads_rows and self._reads is None and config.membership is None and not config.skip

    def _early_key(self, epoch: int, seed: int | None) -> tuple[Any, ...]:
        """Of the iterator of `epoch`, which is made with `seed`."""
        return self._plan.dataset, self._reads_rows, epoch, seed

    def _begin_next_epoch(self) -> None:
        progress, plan, epoch = self._progress, self._plan, self._start.epoch + 1
        agreed = self._position.seed
        if agreed is None or plan.dataset is None or not progress.may_read_after(self._position):
            return
        assigned = native_of(plan.dataset)
        seed = progress.seed if self._config.seed is None else None

        def begun() -> _C.DistributedIterator:
            native = assigned.iterate(epoch=epoch, seed=seed, facts=plan.facts)
            native.begin_reading(agreed)
            return native

        progress.next_epoch.begin(self._early_key(epoch, seed), begun)

    def _skip_is_arithmetic(self) -> bool:
        """Whether the position after skipped steps follows from their number. An order without a seed does not exist
        before the first step."""
        config = self._config
        if not config.skip or self._plan.dataset is None or isinstance(config.dataset, Dataset):
            return False
        return not config.is_random or config.seed is not None or self._progress.seed is not None

    def _pass_over(self, steps: int) -> None:
        """Goes to the position after the first `steps` steps of the epoch, also after a state was loaded."""
        if not self._skip_is_arithmetic():
            if self._start.batches > steps:
                raise ValueError(
                    f"skip_first_batches: `num_batches` must be at least {self._start.batches}, where the loaded state "
                    f"stands, because this data cannot be read backwards, but is {steps}."
                )
            for _ in range(steps - self._start.batches):
                if self._take() is None:
                    break
        self._start.batches, self._progress.used = steps, True

    def _take(self) -> tuple[Any, _C.StepInfo] | None:
        step = self._read_step() if self._reads is None else self._shared_step(self._reads)
        if step is None:
            return None
        batch, info = step
        return (pin_memory(batch) if self._pin else batch), info

    def _read_step(self) -> tuple[Any, _C.StepInfo] | None:
        step = self._native.next(None)
        if step is None or self._plan.convert is None:
            return step
        batch, info = step
        return self._plan.convert(batch), info

    def _shared_step(self, reads: SharedReads) -> tuple[Any, _C.StepInfo] | None:
        if self._pending is None:
            self._pending = reads.take(self._moved.release)
        if self._pending is None and self._follows_stream:
            raise self._lost(reads)
        if self._pending is None:
            step = reads.give(self._read_step, self._shown, _SHOWN_PARTS)
        else:
            step = self._followed(*self._pending.batch())  # may be interrupted, and is then done again
            self._pending = None
        return None if step is None else (self._moved(step[0]), step[1])

    def _shown(self, step: tuple[Any, _C.StepInfo] | None) -> list[Any]:
        """What a peer needs to take the same step: the batch, the fields of the info, and the position after it, or why
        there is none."""
        batch, info = (None, None) if step is None else step
        after = attempt(self._position.native)
        fields = None if info is None else info.__reduce__()[1]
        return [batch, fields, *((None, str(after.error)) if isinstance(after, Failed) else (after(), None))]

    def _followed(self, batch: Any, fields: Any, after: Any, why_none: str | None) -> tuple[Any, _C.StepInfo] | None:
        """The step that a peer has `_shown`."""
        info = None if fields is None else _C.StepInfo(*fields)
        if self._follows_stream:
            self._position.native = Taken(after) if why_none is None else Failed(RuntimeError(why_none))
        else:
            self._native.follow(info, after)
        return None if info is None else (batch, info)

    @staticmethod
    def _lost(reads: SharedReads) -> SharingError:
        """What a peer raises whose reader is gone; its own followers are told."""
        reads.fail(reads.lost)
        return SharingError(
            f"DataLoader: another rank reads this rank's streams for it (`share`), and nobody else can read the rest "
            f"of them, but {reads.lost}"
        )

    @functools.cached_property
    def _moved(self) -> DeviceMover:
        """Copies batches in host memory to the loader's device."""
        return DeviceMover(accelerator_of(self._config.device))

    def set_weights(self, weights: list[float], step: int | None) -> None:
        """As `DataLoader.set_weights`."""
        self._native.set_weights(weights, step)

    def exclude(self, rows: list[int]) -> None:
        """As `DataLoader.exclude`."""
        self._native.exclude(rows)

    def excluded(self) -> list[Any]:
        """The entries of the position for all that was excluded."""
        return excluded_in(self._position.native())

    def __repr__(self) -> str:
        found = self.__dict__
        kind = f"distributed, {getattr(found.get('_plan'), 'kind', 'unknown')}"
        return described_iterator(self, kind, found.get("_start"), found.get("_position"))

    def stats(self) -> Stats:
        """What this iterator has counted."""
        stats = self._native.stats()
        return replace(stats, batches=self._position.yielded) if self._follows_stream else stats

    def close(self) -> None:
        """Ends the iteration, and reports that to the other ranks."""
        self.leave()

    def leave(self) -> None:
        """As `close`, but processes that read rows stay for the next iterator."""
        if self._observer is not None:
            self._observer.end()
        self._leave_peers(self._failure)
        self._position.native = Taken(self._position.native())
        self._native.close()
        self._progress.keep_stats(self._position, self.stats())

    def hand_over(self) -> None:
        """As `leave`, for an iterator that reads something else instead: what was read ahead is not wanted."""
        self.leave()

    def __del__(self) -> None:
        try:  # noqa: SIM105 - at the interpreter's exit, names of modules are gone
            self.leave()
        except Exception:  # noqa: BLE001 - half made, a forked child's copy, or the interpreter is exiting
            pass


class PythonSteps(Steps):
    """Steps whose batches an inner loader makes: zero-row parts and padding."""

    _last: Any = None

    def _dummy(self, rows: int) -> Any:
        """The batch for a step in which this rank has no rows, in host memory: `rows` rows of padding."""
        if self._last is None:
            self._last = self._example()
        return repeated(self._last, rows) if rows else without_rows(self._last)

    def _example(self) -> Any:
        """A batch to cut rows from, for a rank that has had none."""
        raise NotImplementedError

    def _kept(self, batch: Any) -> Any:
        self._last = batch
        return batch

    def close(self) -> None:
        super().close()
        self._plan.inner.close()


def explained(error: _C.DistributedDatasetError, job_ranks: list[int] | None) -> _C.DistributedDatasetError:
    """`error`, with advice if ranks passed different datasets, and with the ranks of the job if it numbers the ranks of
    a group that has others."""
    text = str(error)
    if error.disagreed_on in _TWO_DATASETS:
        advice = "pass the whole one on every rank, or leave `distributed=None`"
        text = f"DataLoader: each rank passed another dataset: {advice}. {text}"
    if job_ranks is not None:
        shown = ", ".join(map(str, job_ranks[:_SHOWN])) + (", ..." if len(job_ranks) > _SHOWN else "")
        text += f" (Numbered are the {len(job_ranks)} ranks that rows are dealt to: ranks {shown} of the job.)"
    if text == str(error):
        return error
    advised = _C.DistributedDatasetError(text)
    advised.disagreed_on = error.disagreed_on
    return advised
