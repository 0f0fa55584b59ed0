# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""States of a dataset whose copies live in worker processes: they travel with the batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from torch.utils.data import IterableDataset, get_worker_info
from torch.utils.data._utils.pin_memory import pin_memory

from torch_distinput.loader.position import has_state

if TYPE_CHECKING:
    from torch_distinput.data_loader import DataLoader


class WorkerStates:
    """What the workers' datasets said of themselves after the batches that were handed out.

    `last`: the worker that made the last one. `ended`: which of them had no more samples then.
    """

    def __init__(self, loader: DataLoader):
        workers = loader.num_workers
        self.states, self.ended, self.last = [None] * workers, [False] * workers, workers - 1
        loaded = loader._memory.loaded
        if loaded and not loaded["finished"] and loaded["workers"] is not None:
            saved = loaded["workers"]
            if len(saved["states"]) != workers:
                raise ValueError(
                    f"load_state_dict: the state holds states of the dataset in {len(saved['states'])} worker "
                    f"processes, but the loader has num_workers={workers}."
                )
            self.states, self.ended, self.last = list(saved["states"]), list(saved["ended"]), saved["last"]

    @staticmethod
    def of(loader: DataLoader) -> WorkerStates | None:
        """None where the dataset has no state."""
        return WorkerStates(loader) if has_state(loader.dataset) else None

    def state(self) -> dict[str, Any]:
        """As plain values."""
        return {"states": list(self.states), "ended": list(self.ended), "last": self.last}

    def view(self, loader: DataLoader) -> Any:
        """`loader` with functions that bring the states here and there."""
        changes: dict[str, Any] = {
            "collate_fn": _Tagging(loader.collate_fn, loader.batch_size),
            "worker_init_fn": _Restoring(loader.worker_init_fn, list(self.states)),
        }
        if any(self.ended):
            changes["dataset"] = _EndedStream(loader.dataset, list(self.ended))
        return _View(loader, **changes)

    def unwrap(self, tagged: _Tagged) -> Any:
        """The batch."""
        self.states[tagged.worker], self.ended[tagged.worker] = tagged.state, tagged.ended
        self.last = tagged.worker
        return tagged.batch


class _EndedStream(IterableDataset):
    """A stream of which some workers had nothing left when their states were saved."""

    def __init__(self, stream: IterableDataset, ended: list[bool]):
        self._stream, self._ended = stream, ended

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info().id
        ended, self._ended[worker] = self._ended[worker], False
        return iter(()) if ended else iter(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_stream"], name)


class _View:
    """Another object with a few attributes of its own."""

    def __init__(self, other: Any, **changed: Any):
        self.__dict__.update(changed, _other=other)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._other, name)


class _Tagged:
    """A batch with the state of the dataset that made it."""

    def __init__(self, batch: Any, worker: int, state: Any, ended: bool):
        self.batch, self.worker, self.state, self.ended = batch, worker, state, ended

    def pin_memory(self, device: str | None = None) -> _Tagged:
        """Called by torch's pinning thread."""
        return _Tagged(pin_memory(self.batch, device), self.worker, self.state, self.ended)


class _Tagging:
    def __init__(self, collate_fn: Callable, batch_size: int | None):
        self._collate_fn, self._batch_size = collate_fn, batch_size

    def __call__(self, samples: Any) -> _Tagged:
        batch = self._collate_fn(samples)
        info = get_worker_info()
        # torch cuts a short batch only from a stream that has ended.
        ended = self._batch_size is not None and len(samples) < self._batch_size
        return _Tagged(batch, info.id, info.dataset.state_dict(), ended)


class _Restoring:
    def __init__(self, worker_init_fn: Callable | None, states: list[Any]):
        self._worker_init_fn, self._states = worker_init_fn, states

    def __call__(self, worker: int) -> None:
        if self._worker_init_fn is not None:
            self._worker_init_fn(worker)
        if self._states[worker] is not None:
            get_worker_info().dataset.load_state_dict(self._states[worker])
