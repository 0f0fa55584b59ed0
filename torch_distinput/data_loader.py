# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`DataLoader`: torch's, with native lanes, states and exact distribution."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch.utils import data

from torch_distinput import _C
from torch_distinput.dataset import Dataset
from torch_distinput.loader.lanes import Lane, choose_lane
from torch_distinput.loader.memory import Memory
from torch_distinput.loader.position import check

_Item = TypeVar("_Item", covariant=True)

_STATE = "torch_distinput.DataLoader"
_VERSION = 1
_FIXED = ("seed", "prefetch_bytes")


class DataLoader(data.DataLoader[_Item]):
    """torch's `DataLoader` with the same arguments, attributes, errors and batches, only faster.

    Rows of tensors, numpy arrays, memory maps, torch's wrappers of these, and datasets of this library are copied by
    native code; `num_workers` then means threads. All others are read by Python as torch does it: in the caller's
    thread, or in worker processes. `explain()` says which and why. With native rows `shuffle=True` takes torch's draws
    from the generator, but gives another order than torch's.

    Args:
        dataset: as in torch. A dataset of this library that is batched needs `batch_size=None`.
        seed: makes the order of `shuffle=True`, or of a dataset of this library that shuffles, a function of this
            number and the epoch.
        prefetch_bytes: bytes of native rows read ahead.

    The other arguments are torch's.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: data.Sampler | Iterable | None = None,
        batch_sampler: data.Sampler[list] | Iterable[list] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list], Any] | None = None,
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
        seed: int | None = None,
        prefetch_bytes: int | None = None,
    ):
        self.seed = seed
        self.prefetch_bytes = prefetch_bytes
        self._memory = Memory()
        super().__init__(
            dataset,
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
        self._check_arguments(shuffle, sampler, batch_sampler)

    def _check_arguments(self, shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
        ours = isinstance(self.dataset, Dataset)
        if self.seed is not None and not ours and not (shuffle and sampler is None and batch_sampler is None):
            raise ValueError("DataLoader: `seed` orders the rows of `shuffle=True`; nothing else is random here.")
        if ours and self.batch_size is not None:
            size = self.dataset._batch_size()
            if size is not None:
                raise ValueError(
                    f"DataLoader: the dataset has batches of {size} rows already; pass `batch_size=None`, or the "
                    "dataset before `batch`."
                )

    # Iterating.

    def _get_iterator(self) -> Any:
        return self._lane().open()

    def __iter__(self) -> Any:
        pending, self._memory.pending = self._memory.pending, None
        return super().__iter__() if pending is None else pending

    def _lane(self) -> Lane:
        return choose_lane(self)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and self.__dict__.get("_DataLoader__initialized"):
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    def set_epoch(self, epoch: int) -> None:
        """Pins the epoch of the next iterator, also of a sampler or dataset that counts epochs itself. Never needed:
        without it each iterator that handed anything out is followed by the next epoch."""
        self._memory.pinned = epoch
        samplers = (self.sampler, self.batch_sampler, getattr(self.batch_sampler, "sampler", None))
        for part in {id(part): part for part in (*samplers, self.dataset)}.values():
            if callable(getattr(part, "set_epoch", None)):
                part.set_epoch(epoch)

    # States.

    def state_dict(self) -> dict[str, Any]:
        """The position after the batch last handed out: plain values and tensors.

        Legal at any time. After the end of an epoch it is the start of the next one.
        """
        state = self._memory.state()
        if state is None:
            self._memory.pending = iter(self)
            state = self._memory.state()
        return {_STATE: {"version": _VERSION} | state}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The next iterator goes on from a saved position; `{}` starts afresh.

        Other numbers of workers and other batch sizes are allowed, except for streams that worker processes read.
        Raises ValueError for what is no state of this class.
        """
        self._drop_pending()
        if not state_dict:
            return self._memory.load(None)
        state = state_dict.get(_STATE) if isinstance(state_dict, dict) else None
        if not isinstance(state, dict):
            raise ValueError(
                f"load_state_dict: not a state of torch_distinput.DataLoader: it needs the key {_STATE!r}, but has "
                f"{sorted(map(str, state_dict)) if isinstance(state_dict, dict) else type(state_dict).__name__}."
            )
        if state["version"] > _VERSION:
            raise ValueError(
                f"load_state_dict: the state is of version {state['version']}, but this library reads up to {_VERSION}."
            )
        check(self, state)
        self._memory.load(dict(state))

    def _drop_pending(self) -> None:
        pending, self._memory.pending = self._memory.pending, None
        if pending is not None:
            pending.close()

    # Questions.

    def cardinality(self) -> int:
        """The number of batches of an epoch, `INFINITE` (-1) or `UNKNOWN` (-2)."""
        if isinstance(self.dataset, Dataset) and self.dataset.cardinality() < 0:
            return self.dataset.cardinality()
        try:
            return len(self)
        except (TypeError, NotImplementedError):
            return _C.UNKNOWN

    def explain(self) -> str:
        """Which lane the next iterator takes, and why."""
        lane = self._lane()
        return f"lane: {lane.name}\nwhy: {lane.why}"

    def stats(self) -> dict[str, Any]:
        """Counters of the iterator made last; empty before the first and after its end."""
        latest = self._memory.latest()
        return {} if latest is None else latest.stats()

    # The end.

    def close(self) -> None:
        """Ends all iterators and their workers. Optional: they end with their last reference."""
        self._drop_pending()
        for iterator in list(self._memory.live):
            iterator.close()
        self._iterator = None

    def __enter__(self) -> DataLoader[_Item]:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles have the same arguments, the same epoch next, and no iterators."""
        return self.__dict__ | {"_iterator": None, "_memory": self._memory.for_copy()}
