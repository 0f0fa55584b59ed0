# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The position of a DataLoader's iterator as plain values, and how another iterator continues from it."""

import itertools
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Protocol

from torch.utils.data import BatchSampler

from torch_distinput import _C
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.loader._config import LoaderConfig
from torch_distinput.loader.orders._draws import Drawn, Draws, samplers_of
from torch_distinput.loader.orders._exchanged import is_own_stream
from torch_distinput.loader.orders._order import Start, stock_order
from torch_distinput.recognize._contents import rows_of
from torch_distinput.recognize._stateful import Failed, Taken, has_state, take_state


class WorkersState(Protocol):
    """The states of a dataset in worker processes."""

    def state(self) -> dict[str, Any]: ...


class Position:
    """The position of one iterator, with the states of dataset and sampler where these have any.

    It outlives the iterator, whose finalizer therefore need not save anything: a finalizer may run at any point, also
    while torch holds the lock of a generator. `yielded`: batches yielded. `finished`: the iterator has raised
    StopIteration. `ended`: the stream or the sampler has nothing after these batches. `native`: returns the position of
    a native iterator. `total`: returns the batches of an epoch; negative: unknown. `seed`: with the epoch, decides the
    order. `base_seed`: the workers', if any. `reused`: the iterator had an epoch before. `workers`: the states of the
    dataset in workers.
    """

    def __init__(self, config: LoaderConfig, start: Start, draws: Draws, reads_ahead: bool):
        self.yielded = 0
        self.finished = self.ended = self.reused = False
        self.native: Callable[[], Any] | None = None
        self.total: Callable[[], int] | None = None
        self.seed: int | None = None
        self.base_seed: int | None = None
        self.workers: WorkersState | None = None
        self._start, self._draws = start, draws
        self._dataset = config.dataset if has_state(config.dataset) else None
        self._stream: Any = None
        self._sampler = stateful_sampler(config)
        # The sampler's state, and whether it ended, after the batch last yielded and after each one pulled ahead.
        self._sampler_states: deque[tuple[Taken | Failed, bool]] = deque()
        self._reads_ahead = reads_ahead
        if self._sampler is not None and reads_ahead:
            self._sampler_states.append((take_state(self._sampler), False))
        self._batch_size = config.batch_size
        self._cutter = config.batch_sampler if type(config.batch_sampler) is BatchSampler else None
        if self._cutter is not None:
            self._batch_size = self._cutter.batch_size
        order = stock_order(config.batch_sampler)
        self._most_rows = None if order is None else order.size
        if order is not None:
            self.total = lambda: order.batches
        self._persistent = config.persistent_workers
        self._num_workers = config.num_workers
        self._drawn_by = config.order
        self._size = size_of(config)

    @property
    def num_batches(self) -> int | None:
        """The batches of this epoch; None if unknown."""
        return None if self._start.resized or self.total is None else batches_of(self.total(), self._start.state)

    def follow(self, stream: Any) -> None:
        """Brings `stream`, which the caller's thread reads, to the start: by the saved state, else by reading it again.

        Raises ValueError if only one of the saved state and `stream` has a state of a stream.
        """
        start, state = self._start, self._start.state
        self.watch(stream)
        if state is None:
            return
        if (state["stream"] is not None) != (self._stream is not None):
            raise ValueError(
                "load_state_dict: `stream` must be a state exactly if the dataset's iterators have states, but is "
                f"{'none' if state['stream'] is None else 'one'}."
            )
        self.ended = state["ended"]
        if self._stream is not None:
            self._stream.load_state_dict(state["stream"])
        elif self._dataset is None and not self.ended:
            next(itertools.islice(stream, start.rows, start.rows), None)

    def watch(self, stream: Any) -> None:
        """Notes `stream`, which the caller's thread reads, for its state."""
        self._stream = stream if has_state(stream) else None

    @property
    def follows_sampler(self) -> bool:
        """Whether the sampler has a state, so that `pulled` must be called for all indices taken from it."""
        return self._sampler is not None

    def pulled(self, indices: Any) -> None:
        """Notes that `indices` were taken from the sampler, which may be long before their batch is yielded."""
        if self._sampler is None:
            return
        # The batch size may have been set since the start. A sampler that drops the last batch yields no short one.
        cutter = self._cutter
        short = cutter is not None and not cutter.drop_last and len(indices) < cutter.batch_size
        if self._reads_ahead:
            self._sampler_states.append((take_state(self._sampler), short))
        else:
            self.ended = short

    def handed_out(self) -> None:
        """Counts one more yielded batch."""
        self.yielded += 1
        self.passed()

    def passed(self) -> None:
        """Moves past the next batch of pulled indices, which was yielded or failed."""
        if self._sampler_states:
            self._sampler_states.popleft()
            self.ended = self._sampler_states[0][1]

    def let_go(self) -> None:
        """Called before the iterator is freed: replaces native iterators, which hold threads, by their states. Runs no
        users' code, which a finalizer must not."""
        if self.native is not None:
            self.native = Taken(self.native())
        if isinstance(self._stream, _C.DatasetIterator):
            self._stream = SimpleNamespace(state_dict=Taken(self._stream.state_dict()))

    def state(self) -> dict[str, Any]:
        """The position as plain values and tensors."""
        start = self._start
        begin, first = self._drawn()
        rows = start.row_after(self.yielded, self._batch_size or 1)
        return {
            "epoch": start.epoch,
            "finished": self.finished,
            "batches": start.batches + self.yielded,
            "num_batches": self.num_batches,
            "rows": rows if self._most_rows is None else min(rows, self._most_rows),
            "num_workers": self._num_workers,
            "size": self._size,
            "seed": self.seed,
            "base_seed": self.base_seed,
            "reused": self._persistent if self.finished else self.reused,
            "rng": begin.rng,
            "generator": begin.generator,
            "sampler_generator": begin.sampler,
            "first": None if first is None else [first.rng, first.generator, first.sampler],
            "dataset": None if self._dataset is None or self.workers is not None else take_state(self._dataset)(),
            "stream": None if self._stream is None else take_state(self._stream)(),
            "ended": self.ended,
            "sampler": self._sampler_state(),
            "workers": None if self.workers is None else self.workers.state(),
            "native": None if self.native is None else self.native(),
            "permutation": start.permutation,
        } | ({} if self._drawn_by is None else {"order": self._drawn_by})

    def _drawn(self) -> tuple[Drawn, Drawn | None]:
        """The generators' states before the iterator was made, and before its order was drawn (None if they follow from
        the former). If nothing is left to be drawn: the current states, for the next iterator."""
        start = self._start
        self._draws.keep(start)
        if not self.finished and not self.ended:
            same = start.first is None or start.first.equals(start.begin.opened())
            return start.begin, None if same else start.first
        now = self._draws.snapshot()
        # A continued epoch and a reused iterator draw no seed for workers.
        return now, None if self.finished and not self._persistent else now

    def _sampler_state(self) -> Any:
        if self._sampler is None:
            return None
        if self._reads_ahead and not self.finished:
            return self._sampler_states[0][0]()
        return take_state(self._sampler)()


def restore(config: LoaderConfig, state: dict[str, Any], draws: Draws) -> Start:
    """Loads the states in `state` into generators, dataset and sampler; returns where to begin."""
    finished, first = state["finished"], state["first"]
    draws.restore(Drawn(state["rng"], state["generator"], state["sampler_generator"]))
    if state["dataset"] is not None:
        config.dataset.load_state_dict(state["dataset"])
    if state["sampler"] is not None:
        stateful_sampler(config).load_state_dict(state["sampler"])
    permutation = state.get("permutation")
    start = Start(state["epoch"], state["batches"], state["rows"], state=state, permutation=permutation)
    if finished:
        start = Start(state["epoch"] + 1)
    start.at_end = finished or not state["batches"]
    start.saved, start.reuses = state, state["reused"]
    # Each epoch has new workers, unless they are persistent.
    start.base_seed = None if finished and not config.persistent_workers else state["base_seed"]
    start.first = None if first is None else Drawn(*first)
    return start


def batches_of(total: int | None, state: dict[str, Any] | None) -> int | None:
    """The batches of an epoch that continues from `state`: `total`, which is that of the present batch size. None if
    unknown: `total` is None or negative, or the epoch began with another number."""
    if total is None or total < 0 or (state is not None and state.get("num_batches") != total):
        return None
    return total


def order_of(config: LoaderConfig) -> dict[str, Any]:
    """What decides the order in which ranks read a map-style dataset; for other data, all None."""
    if isinstance(config.dataset, Dataset) or is_own_stream(config):
        return {"size": None, "rows": None, "shuffle": None, "given_seed": None}
    return {
        "size": config.num_rows,
        "rows": rows_of(config.dataset),
        "shuffle": config.shuffle,
        "given_seed": config.seed,
    }


def steps_of(config: LoaderConfig, world: int) -> dict[str, Any] | None:
    """What decides which of `world` ranks gets which rows of an order; None where costs, lanes or a stream do, too."""
    if is_own_stream(config) or config.shared_order is not None:
        return None
    if config.balance is not None or config.split == "lanes":
        return None
    known = config.auto_collation or not isinstance(config.dataset, Dataset)
    return {
        "batch": config.global_batch(world) if known else None,
        "world": world,
        "split": config.split,
        "tail": config.steps_tail,
        "weighted": config.weighted is not None,
    }


def size_of(config: LoaderConfig) -> int | None:
    """The number of samples of a map-style dataset; None without `len` and for a stream."""
    if not config.is_stream and hasattr(config.dataset, "__len__"):
        return len(config.dataset)
    return None


def stateful_sampler(config: LoaderConfig) -> Any:
    """The batch sampler or sampler that has a state; None if neither has."""
    return next(filter(has_state, samplers_of(config)), None)
