# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""States of a dataset's copies in worker processes: they arrive with the batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from torch._utils import ExceptionWrapper
from torch.utils.data import IterableDataset, get_worker_info
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data._utils.worker import WorkerInfo

from torch_distinput.loader._config import LoaderConfig
from torch_distinput.loader.orders._order import Start
from torch_distinput.recognize import _hugging_face as hugging_face
from torch_distinput.recognize._stateful import Failed, Taken, has_state, take_state


def has_place(dataset: Any) -> bool:
    """Whether the place of a stream in a worker can be restored in another process."""
    return has_state(dataset)


class WorkerStates:
    """The states of the workers' datasets after the batches that were yielded.

    `last`: the worker that made the last batch. `begun`: for each worker, whether it made a batch in this epoch; if
    not, its state is of the epoch before. `ended`: for each worker, whether it then had no more samples.
    """

    def __init__(self, config: LoaderConfig, start: Start):
        workers = config.num_workers
        self._is_stream = config.is_stream
        self._states: list[Taken | Failed] = [Taken(None)] * workers
        self.ended = [False] * workers
        self._latest: list[_Latest] = []
        self.next_epoch()
        saved = None if start.saved is None else start.saved["workers"]
        # Each epoch has new workers, unless they are persistent.
        if saved is not None and (start.state is not None or config.persistent_workers):
            self._states, self.ended = [Taken(state) for state in saved["states"]], list(saved["ended"])
            if start.state is not None:
                self.begun, self.last = list(saved["begun"]), saved["last"]
        self._latest = list(map(_Latest, self._states, self.begun, self.ended))

    def next_epoch(self) -> None:
        """Called when persistent workers begin another epoch."""
        self.begun, self.last = [False] * len(self._states), len(self._states) - 1
        self._latest = [_Latest(state, False, ended) for state, _, ended in self._latest]

    def state(self) -> dict[str, Any]:
        """The states and fields as plain values; raises if a worker's state could not be taken."""
        states = [state() for state in self._states]
        return {"states": states, "begun": list(self.begun), "ended": list(self.ended), "last": self.last}

    def seen_by_workers(self, config: LoaderConfig) -> LoaderConfig:
        """`config` with functions that send the states to workers and back."""
        starts = [(state(), begun, ended) for state, begun, ended in zip(self._states, self.begun, self.ended)]
        collate_fn = _Tagging(config.collate_fn, config.batch_size if self._is_stream else None)
        return replace(config, collate_fn=collate_fn, **self._restored(config, starts))

    def arrived(self, data: Any) -> None:
        """Notes a result of a worker, which may be handed out much later."""
        if isinstance(data, _Tagged):
            self._latest[data.worker] = _Latest(data.state, True, data.ended)

    def resumed_by_worker(self, config: LoaderConfig, worker: int, begins: bool) -> dict[str, Any]:
        """Arguments of torch's loop for a process that goes on after the latest result of `worker`, or, if it `begins`,
        with the epoch. `config`: as `seen_by_workers` got it. Raises what taking the worker's state raised."""
        state, begun, ended = self._latest[worker]
        starts = [(None, False, False)] * len(self._latest)
        starts[worker] = (state(), begun and not begins, ended)
        changes = self._restored(config, starts)
        return {{"worker_init_fn": "init_fn"}.get(name, name): value for name, value in changes.items()}

    def _restored(self, config: LoaderConfig, starts: list[tuple[Any, bool, bool]]) -> dict[str, Any]:
        """The fields of `config` with which workers begin at `starts`: their states, whether these are of this epoch,
        and whether the workers had no more samples."""
        states, begun, ended = map(list, zip(*starts, strict=True))
        changes: dict[str, Any] = {"worker_init_fn": _Restoring(config.worker_init_fn, states)}
        if self._is_stream and any(state is not None for state in states):
            fresh = [state is None for state in states]
            changes["dataset"] = _RestoredStream(config.dataset, fresh, begun, ended)
        return changes

    def unwrap(self, tagged: _Tagged) -> Any:
        """The batch inside `tagged`; notes the state that came with it."""
        worker = tagged.worker
        self._states[worker], self.begun[worker], self.ended[worker] = tagged.state, True, tagged.ended
        self.last = worker
        return tagged.batch


class _Latest(NamedTuple):
    """What came with the latest result of a worker."""

    state: Taken | Failed
    begun: bool
    ended: bool


class _RestoredStream(IterableDataset):
    """A stream whose copies in workers get saved states: some had ended, or had not begun the epoch."""

    def __init__(self, stream: IterableDataset, fresh: list[bool], begun: list[bool], ended: list[bool]):
        self.__dict__.update(_stream=stream, _fresh=fresh, _begun=begun, _ended=ended)

    def __iter__(self) -> Iterator[Any]:
        worker = _this_worker().id
        if self._fresh[worker]:
            hugging_face.rewind(self._stream)
            return iter(self._stream)
        if self._begun[worker]:
            self._begun[worker] = False
            if self._ended[worker]:
                return iter(())
            self._fresh[worker] = True
            return iter(self._stream)
        self._fresh[worker] = True
        if not self._ended[worker]:
            for _ in self._stream:  # the rest, less than a batch, was dropped in the saved epoch too
                pass
            hugging_face.rewind(self._stream)
            return iter(self._stream)
        return self._after_the_end()

    def _after_the_end(self) -> Iterator[Any]:
        """A stream restored at the end of an epoch may need one empty iteration first; then it is iterated again."""
        empty = True
        for sample in self._stream:
            empty = False
            yield sample
        if empty:
            hugging_face.rewind(self._stream)
            yield from self._stream

    def __reduce__(self) -> tuple[Any, ...]:
        own = self.__dict__
        return type(self), (own["_stream"], own["_fresh"], own["_begun"], own["_ended"])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_stream"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._stream, name, value)


class _Tagged(NamedTuple):
    """A batch with the state of the dataset that made it."""

    batch: Any
    worker: int
    state: Any
    ended: bool

    def pin_memory(self, device: str | None = None) -> _Tagged:
        """Called by torch's pinning thread."""
        return self._replace(batch=pin_memory(self.batch, device))


_Tagged.fields_are_values = True  # type: ignore[attr-defined]  # for messages: fields share no objects


class _Tagging:
    """A collate_fn that adds the state of the worker's dataset. `batch_size`: of a stream, to see its end, or None."""

    def __init__(self, collate_fn: Callable, batch_size: int | None):
        self._collate_fn, self._batch_size = collate_fn, batch_size

    def __call__(self, samples: Any) -> _Tagged:
        batch = self._collate_fn(samples)
        info = _this_worker()
        # torch cuts a short batch only from a stream that has ended.
        ended = self._batch_size is not None and len(samples) < self._batch_size
        state = take_state(info.dataset)
        if isinstance(state, Failed):
            state = _FailedInWorker(state, info.id)
        return _Tagged(batch, info.id, state, ended)


class _FailedInWorker(Failed):
    """A failed state on its way from a worker: wrapped as torch wraps errors, because some cannot be pickled."""

    def __init__(self, failed: Failed, worker: int):
        error = failed.error
        self._wrapped = ExceptionWrapper((type(error), error, error.__traceback__), f"in DataLoader worker {worker}")

    def __call__(self) -> Any:
        self._wrapped.reraise()


class _Restoring:
    """A worker_init_fn that calls the user's and then loads the state of the worker's dataset."""

    def __init__(self, worker_init_fn: Callable | None, states: list[Any]):
        self._worker_init_fn, self._states = worker_init_fn, states

    def __call__(self, worker: int) -> None:
        if self._worker_init_fn is not None:
            self._worker_init_fn(worker)
        if self._states[worker] is not None:
            dataset: Any = _this_worker().dataset
            dataset.load_state_dict(self._states[worker])


def _this_worker() -> WorkerInfo:
    info = get_worker_info()
    assert info is not None, "this runs in worker processes only"
    return info
