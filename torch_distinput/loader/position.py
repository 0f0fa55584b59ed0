# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Where an iterator of a DataLoader stands, as plain values, and how another one goes on from there."""

from __future__ import annotations

import itertools
from collections import deque
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import BatchSampler
from torch.utils.data.dataloader import _DatasetKind

from torch_distinput.dataset import Dataset
from torch_distinput.loader.order import Start, peek_seed

if TYPE_CHECKING:
    from torch_distinput.data_loader import DataLoader


class Position:
    """The position of one iterator, and of the dataset and the sampler where these have states."""

    def __init__(self, loader: DataLoader, start: Start):
        self.finished = False
        self._start = start
        self._loader_generator = loader.generator
        self._sampler_generator = _generator_of(loader)
        self._generator = _state_of(self._loader_generator)
        self._own_generator = _state_of(self._sampler_generator)
        self._dataset = loader.dataset if has_state(loader.dataset) else None
        self._fetcher: Any = None
        self.sampler = stateful_sampler(loader)
        self._sampler_states: deque[Any] = deque()
        if self.sampler is not None:
            self._sampler_states.append((self.sampler.state_dict(), False))
        self._batch_size = loader.batch_size
        self._cuts_batches = type(loader.batch_sampler) is BatchSampler
        if self._cuts_batches:
            self._batch_size = loader.batch_sampler.batch_size
        self._num_workers = loader.num_workers
        self._size = _size_of(loader)

    def follow(self, fetcher: Any) -> None:
        """`fetcher` reads a stream in the caller's thread: brings it to the start, by a state where there is one, else
        by reading it again."""
        self._fetcher = fetcher
        state, stream = self._start.state or {}, fetcher.dataset_iter
        fetcher.ended = state.get("ended", False)
        if has_state(stream):
            if state.get("stream") is not None:
                stream.load_state_dict(state["stream"])
        elif self._dataset is None:
            next(itertools.islice(stream, self._start.rows, self._start.rows), None)

    def pulled(self, indices: Any) -> None:
        """`indices` were taken from a sampler with a state, perhaps long before their batch is handed out."""
        short = self._cuts_batches and len(indices) < self._batch_size
        self._sampler_states.append((self.sampler.state_dict(), short))

    def handed_out(self) -> None:
        """A batch at indices of a sampler with a state was handed out."""
        self._sampler_states.popleft()

    def state(self, num_yielded: int) -> dict[str, Any]:
        """After `num_yielded` batches of this iterator."""
        start = self._start
        if self.finished:
            # What the next epoch draws from.
            generator, own = _state_of(self._loader_generator), _state_of(self._sampler_generator)
        else:
            generator, own = self._generator, self._own_generator
        drawn, rng = start.drawn, start.rng
        if num_yielded == 0 and drawn is None and rng is None:
            # Nothing was drawn yet; this is what would be.
            drawn, rng = peek_seed(torch.default_generator), torch.get_rng_state()
        sampler, sampler_ended = self._sampler_states[0] if self._sampler_states else (None, False)
        stream = None if self._fetcher is None else self._fetcher.dataset_iter
        return {
            "epoch": start.epoch,
            "finished": self.finished,
            "batches": start.batches + num_yielded,
            "rows": start.row_after(num_yielded, self._batch_size or 1),
            "num_workers": self._num_workers,
            "size": self._size,
            "drawn": drawn,
            "rng": rng,
            "generator": generator,
            "sampler_generator": own,
            "dataset": None if self._dataset is None else self._dataset.state_dict(),
            "stream": stream.state_dict() if has_state(stream) else None,
            "ended": sampler_ended if self._fetcher is None else self._fetcher.ended,
            "sampler": sampler,
            "workers": None,
            "native": None,
        }


def restore(loader: DataLoader, state: dict[str, Any]) -> Start:
    """Gives generators, dataset and sampler of `loader` what `state` holds for them; where to begin."""
    if "distributed" in state:
        epoch, finished = state["epoch"], state["finished"]
        return Start(epoch + 1) if finished else Start(epoch, state["batches"], state=state)
    for generator, name in ((loader.generator, "generator"), (_generator_of(loader), "sampler_generator")):
        if generator is not None and state[name] is not None:
            generator.set_state(state[name])
    if has_state(loader.dataset) and state["dataset"] is not None:
        loader.dataset.load_state_dict(state["dataset"])
    sampler = stateful_sampler(loader)
    if sampler is not None and state["sampler"] is not None:
        sampler.load_state_dict(state["sampler"])
    if state["finished"]:
        return Start(epoch=state["epoch"] + 1)
    return Start(state["epoch"], state["batches"], state["rows"], state["drawn"], state["rng"], state)


def check(loader: DataLoader, state: dict[str, Any]) -> None:
    """Raises ValueError where `state` cannot be one of this loader."""
    if ("distributed" in state) != bool(loader.distributed):
        raise ValueError("load_state_dict: a loader with `distributed` and one without have no states in common.")
    if "distributed" in state:
        return
    size = _size_of(loader)
    if None not in (size, state["size"]) and size != state["size"]:
        raise ValueError(f"load_state_dict: saved over {state['size']} rows, but the dataset has {size}.")
    streams = loader._dataset_kind == _DatasetKind.Iterable and state["native"] is None and not state["finished"]
    if streams and state["num_workers"] != loader.num_workers:
        raise ValueError(
            f"load_state_dict: the state is of a stream in {state['num_workers']} worker processes, but the loader has "
            f"num_workers={loader.num_workers}: another number deals the stream out otherwise."
        )
    if (state["native"] is None) == (isinstance(loader.dataset, Dataset) and loader._lane().name == "native"):
        raise ValueError("load_state_dict: a pipeline of torch_distinput and other data have no states in common.")


def _size_of(loader: DataLoader) -> int | None:
    """Samples of a map-style dataset."""
    if loader._dataset_kind == _DatasetKind.Map and hasattr(loader.dataset, "__len__"):
        return len(loader.dataset)
    return None


def stateful_sampler(loader: DataLoader) -> Any:
    """The batch sampler or sampler that has a state; None without one."""
    return next(filter(has_state, (loader.batch_sampler, loader.sampler)), None)


def has_state(value: Any) -> bool:
    """Whether `value` follows the `Stateful` protocol."""
    return callable(getattr(value, "state_dict", None)) and callable(getattr(value, "load_state_dict", None))


def _generator_of(loader: DataLoader) -> torch.Generator | None:
    """The sampler's generator, where it is not the loader's."""
    generator = getattr(loader.sampler, "generator", None)
    return generator if isinstance(generator, torch.Generator) and generator is not loader.generator else None


def _state_of(generator: torch.Generator | None) -> torch.Tensor | None:
    return None if generator is None else generator.get_state()
