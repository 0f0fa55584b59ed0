# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Iterators of a DataLoader with `distributed`: each takes the same number of steps on all ranks."""

from __future__ import annotations

import contextlib
import functools
import queue
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.profiler import record_function
from torch.utils.data._utils.pin_memory import pin_memory

from torch_distinput import _C, frameworks
from torch_distinput.dataset import Dataset
from torch_distinput.empty_parts import EmptyParts
from torch_distinput.input_options import InputOptions
from torch_distinput.loader.batches import DeviceMover, accelerator_of, joined, padded, repeated, rows_of, without_rows
from torch_distinput.loader.iterators import profiler_enabled
from torch_distinput.loader.order import Start
from torch_distinput.loader.stateful import Failed, Taken, attempt
from torch_distinput.loader.times import CallTimes
from torch_distinput.stats import Stats

if TYPE_CHECKING:
    from torch_distinput.data_loader import DataLoader
    from torch_distinput.loader.distributed_feed import Plan

_TWO_DATASETS = ("pipeline", "length", "content", "type of the elements")
_TOKENS = _C.TensorSpec([None], torch.int8)


class StepPosition:
    """The position of an iterator of steps, which it outlives. `native`: returns that of the native iterator."""

    native: Callable[[], Any]

    def __init__(self, start: Start, kind: str):
        self._start, self._kind = start, kind
        self.finished = False
        self.yielded = 0

    def state(self) -> dict[str, Any]:
        """The position after the step last yielded, as plain values."""
        native = self.native()
        seed = native.get("seed")
        return {
            "epoch": self._start.epoch,
            "finished": self.finished,
            "batches": self._start.batches + self.yielded,
            "seed": None if seed is None else seed % 2**64,
            "kind": self._kind,
            "distributed": native,
        }


class Steps:
    """An iterator over the steps of this rank. All ranks have the same number of steps."""

    _workers: Any = ()

    def __init__(self, loader: DataLoader, plan: Plan):
        self._memory, self._plan, self._loader = loader._memory, plan, loader
        self._with_info = loader.with_info
        self._pin = loader.pin_memory and torch.accelerator.is_available()
        self._profile_name = f"enumerate(DataLoader)#{type(self).__name__}.__next__"
        self._observer = frameworks.observer_of(loader)
        with self._memory.opening(loader):
            self._start: Start = self._memory.start
            self._take_pinned_epoch(loader)
            self._position = StepPosition(self._start, plan.kind)
            if self._start.state is not None and self._start.state["kind"] != plan.kind:
                raise ValueError(
                    f"load_state_dict: `kind` must be {plan.kind!r}, as this data is assigned, but is "
                    f"{self._start.state['kind']!r}."
                )
            self._native = self._open()
            self._empty_parts = (
                EmptyParts(loader.tail, given=True) if plan.dataset is None else plan.dataset._empty_parts
            )
            if loader._skip:
                self._pass_over(loader._skip)
            self._memory.attach(self, self._position)

    def _take_pinned_epoch(self, loader: DataLoader) -> None:
        """Takes an epoch that `set_epoch` of a dataset of this library has pinned."""
        epoch = loader.dataset._pop_pinned_epoch() if isinstance(loader.dataset, Dataset) else None
        if epoch is not None:
            self._start.epoch = self._memory.epoch = epoch

    def __iter__(self) -> Steps:
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")

    def __next__(self) -> Any:
        if profiler_enabled():
            with record_function(self._profile_name):
                return self._next_step()
        return self._next_step()

    def _next_step(self) -> Any:
        if self._memory.pinned is not None and not self._position.yielded:
            self._follow_pinned_epoch()
        try:
            step = self._take()
        except _C.DistributedDatasetError as error:
            raise explained(error) from error
        if step is None:
            self._finish()
            raise StopIteration
        batch, info = step
        self._memory.used, self._memory.info = True, info
        self._position.yielded += 1
        self._empty_parts.after_step(info, stacklevel=3)
        if self._observer is not None:
            self._observer.step(info)
        return (batch, info) if self._with_info else batch

    def _follow_pinned_epoch(self) -> None:
        """`set_epoch` came after this iterator was made and before its first step."""
        memory = self._memory
        if memory.position is not self._position:
            return
        epoch, memory.pinned = memory.pinned, None
        assert epoch is not None, "the caller has seen to it"
        if epoch == self._start.epoch:
            return
        seed = self._position.native().get("seed")
        self._native.close()
        memory.seed = memory.seed if seed is None else seed % 2**64
        memory.epoch, memory.start = epoch, Start(epoch)
        self._start = self._position._start = memory.start
        self._native = self._open()

    def _finish(self) -> None:
        self._position.finished = True
        if self._observer is not None:
            self._observer.end()

    def _open(self) -> _C.DistributedIterator:
        # Where the user gave no seed, the seed of a loaded state decides the order of all later epochs.
        seed = self._memory.seed if self._loader.seed is None else None
        assert self._plan.dataset is not None, "only a stream has none"
        by_number = self._skip_is_arithmetic()
        if by_number and seed is None and self._loader.seed is None:
            seed = 0  # nothing is random, but positions hold a seed that ranks have agreed on
        native = self._plan.dataset._native.iterate(epoch=self._start.epoch, seed=seed)
        if self._start.state is not None:
            native.load_state_dict(self._start.state["distributed"])
        if by_number:
            native.load_state_dict(self._plan.state_after(self._loader, self._loader._skip, native.state_dict()))
        self._position.native = native.state_dict
        return native

    def _skip_is_arithmetic(self) -> bool:
        """Whether the position after skipped steps follows from their number; an order without a seed begins with the
        first step."""
        loader = self._loader
        if not loader._skip or self._plan.dataset is None or isinstance(loader.dataset, Dataset):
            return False
        return not loader._shuffle or loader.seed is not None or self._memory.seed is not None

    def _pass_over(self, steps: int) -> None:
        """Goes to the position after the first `steps` steps of the epoch, also where a state was loaded."""
        if not self._skip_is_arithmetic():
            if self._start.batches > steps:
                raise ValueError(
                    f"skip_first_batches: `num_batches` must be at least {self._start.batches}, where the loaded state "
                    f"stands, because this data is not read backwards, but is {steps}."
                )
            for _ in range(steps - self._start.batches):
                if self._take() is None:
                    break
        self._start.batches, self._memory.used = steps, True

    def _take(self) -> tuple[Any, _C.StepInfo] | None:
        step = self._native.next(None)
        if step is None:
            return None
        batch, info = step
        if self._plan.convert is not None:
            batch = self._plan.convert(batch)
        return (pin_memory(batch) if self._pin else batch), info

    def stats(self) -> Stats:
        """What this iterator has counted."""
        return self._native.stats()

    def close(self) -> None:
        """Ends the iteration and reports it to the other ranks."""
        self._let_go()

    def _let_go(self) -> None:
        if self._observer is not None:
            self._observer.end()
        self._position.native = Taken(self._position.native())
        self._native.close()
        self._memory.keep_stats(self._position, self.stats())

    def __del__(self) -> None:
        # The iterator may be half made or a forked child's copy, or the interpreter may be exiting.
        with contextlib.suppress(Exception):
            self._let_go()


class _MadeByPython(Steps):
    """Steps whose batches an inner loader makes: zero-row parts, padding, copies to the device."""

    _last: Any = None

    def _dummy(self, rows: int) -> Any:
        """The batch for a step in which this rank has no rows: `rows` rows of padding, or zero rows."""
        if self._last is None:
            self._last = self._example()
        return self._moved(repeated(self._last, rows) if rows else without_rows(self._last))

    def _example(self) -> Any:
        """A batch from which to cut a zero-row one, for a rank that has had none."""
        raise NotImplementedError

    def _kept(self, batch: Any) -> Any:
        self._last = batch
        return self._moved(batch)

    def _moved(self, batch: Any) -> Any:
        return batch if self._mover is None else self._mover(batch)

    @functools.cached_property
    def _mover(self) -> DeviceMover | None:
        device = accelerator_of(self._loader.device)
        return None if device is None else DeviceMover(device)

    def close(self) -> None:
        super().close()
        self._plan.inner.close()


class IndexQueue:
    """Steps of indices on their way from the strategy, which assigns them, to the inner loader and the consumer."""

    def __init__(self, native: _C.DistributedIterator):
        self._native = native
        # Steps that the consumer has not got yet: rows, info, position after the step.
        self.pulled: deque[tuple[int, _C.StepInfo, Any]] = deque()
        # Indices of the steps with rows that the inner loader has not got yet.
        self.indices: deque[list[int]] = deque()

    def pull(self) -> bool:
        """Pulls one more step from the strategy; returns False at the end."""
        step = self._native.next(None)
        if step is None:
            return False
        (indices,), info = step[0].values(), step[1]
        self.pulled.append((len(indices), info, self._native.state_dict()))
        if len(indices):
            self.indices.append(indices.tolist())
        return True

    def __iter__(self) -> Iterator[list[int]]:
        while self.indices or self.pull():
            if self.indices:
                yield self.indices.popleft()


class Feed:
    """A batch sampler that yields the indices of this rank in the steps of the iterator made last."""

    queue: IndexQueue | None = None

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.queue or ())


class IndexSteps(_MadeByPython):
    """Steps whose indices the strategy assigns and whose rows Python loads."""

    def _open(self) -> _C.DistributedIterator:
        if self._loader._order is not None:
            self._loader._order.draw(self._start.epoch)
        native = super()._open()
        self._times = CallTimes()
        self._position.native = Taken(native.state_dict())
        self._queue = self._plan.feed.queue = IndexQueue(native)
        self._inner = iter(self._plan.inner)
        self._plan.feed.queue = None
        self._workers = self._inner._workers
        return native

    def _take(self) -> tuple[Any, _C.StepInfo] | None:
        self._times.begin()
        pulled = self._queue.pulled
        if not pulled and not self._queue.pull():
            return None
        rows, info, after = pulled.popleft()  # before the rows are loaded: as in torch, a step that fails is over
        batch = self._kept(self._load()) if rows else self._dummy(0)
        self._position.native = Taken(after)
        self._times.end()
        return batch, info

    def stats(self) -> Stats:
        native, times = self._native.stats(), self._times.fields()
        python = max(times["wait_seconds"] - native.wait_seconds, 0.0)
        return replace(native, batches=self._position.yielded, rows=None, bytes=None, python_seconds=python, **times)

    def _load(self) -> Any:
        try:
            return next(self._inner)
        except StopIteration:
            raise RuntimeError(
                f"DataLoader: {type(self._loader.dataset).__name__} raised StopIteration for a row; with `distributed` "
                "an epoch ends on all ranks at once."
            ) from None

    def _example(self) -> Any:
        return next(iter(self._loader._plain(batch_sampler=[[0]], num_workers=0)))


@dataclass
class _Place:
    """A position where each rank reads its own stream. `row`: over all ranks. `after`: the inner loader's state."""

    step: int
    row: int
    world: int
    after: Taken | Failed

    def __call__(self) -> dict[str, Any]:
        return {"step": self.step, "row": self.row, "inner": self.after(), "world": self.world}


class StreamSteps(_MadeByPython):
    """Steps where each rank reads a stream of its own.

    The strategy gets tokens instead of batches: a tensor with as many entries as the batch has rows.
    """

    def _open(self) -> _C.DistributedIterator:
        self._feed = self._loader._distributed_feed()
        strategy = self._feed.strategy(self._loader)
        self._pads = self._loader.tail == "padded"
        self._merges = self._loader.tail == "merge"
        self._full = self._loader.batch_size or 0  # rows of a full batch; without a batch size, the most seen
        self._first_step, self._first_row = self._restore(strategy.num_replicas_in_sync)
        self._inner = iter(self._plan.inner)
        self._workers = self._inner._workers
        self._batches: queue.SimpleQueue[tuple[Any, Taken | Failed]] = queue.SimpleQueue()
        after = attempt(self._plan.inner.state_dict)
        self._place = _Place(self._first_step, self._first_row, strategy.num_replicas_in_sync, after)
        self._position.native = self._place
        open_tokens = functools.partial(_tokens_of, self._inner, self._plan.inner, self._batches)
        tokens = Dataset(_C.Dataset.from_generator(open_tokens, _TOKENS, "DataLoader", lists_are_structure=False))
        options = InputOptions(
            per_replica_buffer_size=1 if self._loader.num_workers else 0,  # 0 reads in the caller's thread
            # Padding is done here, because the strategy does not know how many rows a full batch has.
            tail="zero_rows" if self._pads or self._loader.drop_last else self._loader.tail,
            peer_timeout=self._loader.peer_timeout,
        )
        assigned = strategy.distribute_datasets_from_function(lambda context: tokens, options)
        return assigned._native.iterate(epoch=self._start.epoch)

    def _restore(self, world: int) -> tuple[int, int]:
        """Loads the state of the inner loader, also that of a finished epoch; returns steps and rows before this
        iterator."""
        if self._start.saved is None:
            return 0, 0
        saved = self._start.saved["distributed"]
        if self._start.state is not None and saved["world"] != world:
            raise ValueError(
                f"load_state_dict: the state is of {saved['world']} ranks that read streams of their own, but "
                f"there are {world} ranks."
            )
        self._plan.inner.load_state_dict(saved["inner"])
        return (0, 0) if self._start.state is None else (saved["step"], saved["row"])

    def _follow_pinned_epoch(self) -> None:
        """A stream that has begun has no other epoch."""

    def _finish(self) -> None:
        # The epoch may end before this rank's stream does, as with tail="until_first".
        self._inner._position.finished = True
        self._place.after = attempt(self._plan.inner.state_dict)
        super()._finish()

    def _take(self) -> tuple[Any, _C.StepInfo] | None:
        step = self._native.next(None)
        if step is None:
            return None
        token, info = step
        if info.has_value[0]:
            batch, self._place.after = self._next_batch(info)
            self._full = max(self._full, len(token))
            self._feed.post_example(self._loader, batch)
            batch = self._kept(padded(batch, self._full) if self._pads and len(token) < self._full else batch)
        else:
            batch = self._dummy(self._full if self._pads else 0)
        self._place.step += 1
        self._place.row += info.global_valid
        return batch, self._placed(info)

    def _next_batch(self, info: _C.StepInfo) -> tuple[Any, Taken | Failed]:
        """The rank's next batch, with all that follow where the last step was merged, and the state after it."""
        batch, after = self._batches.get_nowait()
        batches = [batch]
        while self._merges and info.is_last and not self._batches.empty():
            batch, after = self._batches.get_nowait()
            batches.append(batch)
        return joined(batches), after

    def _example(self) -> Any:
        return self._feed.example(self._loader)

    def _placed(self, info: _C.StepInfo) -> _C.StepInfo:
        """`info` with step and row counted from the beginning of the epoch, not from the restored position."""
        if not self._first_step:
            return info
        return _C.StepInfo(
            info.epoch,
            info.step + self._first_step,
            info.row_start + self._first_row,
            info.valid,
            info.global_valid,
            info.num_replicas,
            info.loss_scale,
            info.is_last,
            info.has_value,
        )


def _tokens_of(inner: Any, loader: Any, batches: queue.SimpleQueue) -> Iterator[torch.Tensor]:
    for batch in inner:
        batches.put((batch, attempt(loader.state_dict)))
        yield torch.zeros(rows_of(batch), dtype=torch.int8)


def explained(error: _C.DistributedDatasetError) -> _C.DistributedDatasetError:
    """`error`, with advice where ranks passed different datasets to a DataLoader."""
    text = str(error)
    if not any(f"the ranks must agree on {fact}," in text for fact in _TWO_DATASETS):
        return error
    return _C.DistributedDatasetError(
        "DataLoader: each rank passed another dataset: pass the whole one on every rank, or leave `distributed=None`. "
        + text
    )
