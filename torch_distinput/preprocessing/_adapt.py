# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`adapt`: one pass over data in which a layer learns, in one process or several, in one call or in pieces.

A learner gathers what a layer needs. Token counts may be added in any order, so they are merged once, at the end.
Moments and quantile summaries of numbers depend on the order of the batches, so processes exchange them in rounds, and
each process merges all batches in the order of the dataset: the result equals that of one process, bit for bit.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterable
from typing import Any

import torch

from torch_distinput import _C
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.distribute._base_strategy import all_values, input_context_of
from torch_distinput.distribute._strategy import get_strategy
from torch_distinput.ops._preprocessing_layer import PreprocessingLayer, flatten_rows, is_ragged

# Elements between two looks at the clock and, for numbers over several processes, between two exchanges.
_ROUND = 256


class AdaptedLayer(PreprocessingLayer):
    """A layer that can learn from data."""

    def start_adapt(self, data: Any, steps: int | None = None, *, strategy: Any = None) -> Adaptation:
        """An `Adaptation` of this layer to a `Dataset`: `adapt` in pieces that can be saved and resumed."""
        return Adaptation(self, self._adapted_to(data), steps, strategy)

    def _adapted_to(self, data: Any) -> Any:
        """`data` as it is read. Raises ValueError where the layer cannot learn."""
        raise NotImplementedError

    def _learner(self) -> Any:
        raise NotImplementedError

    def _whole(self, data: Any) -> Any:
        """An array as one batch."""
        return data

    def _finish_adapt(self, learner: Any) -> None:
        """Takes what was learned."""
        raise NotImplementedError


class TokenLearner:
    """Counts tokens natively."""

    in_rounds = False
    lists_are_batches = False

    def __init__(self, integers: bool, documents: bool, text: tuple[str, str, list[int]] | None = None):
        self._documents = documents
        self._counter = _C.TokenCounter(integers, text)
        self._make = (integers, text)
        self._splits = text is not None and text[1] != ""

    def reset(self) -> None:
        self._counter = _C.TokenCounter(*self._make)

    def add(self, batch: Any) -> None:
        if is_ragged(batch):
            if self._splits:
                raise ValueError("adapt: the data must be texts of one shape, but has rows of different length.")
            self._counter.add(*flatten_rows("adapt", batch))
        else:
            self._counter.add(batch)

    def consume(self, iterator: Any, count: int) -> int:
        """Adds up to `count` elements of a dataset's iterator without the GIL; returns how many there were."""
        return self._counter.consume(iterator, count)

    def take(self) -> Any:
        """What other processes need to know about the elements since the last call."""
        state = self.state()
        self.reset()
        return state

    def absorb(self, everyone: list[Any]) -> None:
        for state in everyone:
            self.load(state)

    def state(self) -> Any:
        return self._counter.state()

    def load(self, state: Any) -> None:
        """Adds a saved state."""
        self._counter.merge(*state)

    def is_empty(self) -> bool:
        return len(self._counter) == 0

    def num_documents(self) -> int:
        return self._counter.num_documents()

    def top(self, room: int | None, excluded: list[Any]) -> tuple[_C.Vocabulary | None, torch.Tensor]:
        """The vocabulary of the most frequent tokens, and in how many documents each was."""
        return self._counter.top(room, excluded)


class OrderedLearner:
    """A learner whose summaries of batches are merged in the order of the data."""

    in_rounds = True
    lists_are_batches = True

    def __init__(self) -> None:
        self._pending: list[Any] = []

    def reset(self) -> None:
        self._pending = []

    def summary(self, batch: torch.Tensor) -> Any:
        """The summary of one batch: a tensor or None."""
        raise NotImplementedError

    def merge(self, summary: Any) -> None:
        raise NotImplementedError

    def add(self, batch: Any) -> None:
        self._pending.append(self.summary(_numbers(batch)))
        self.absorb([self.take()])

    def consume(self, iterator: Any, count: int) -> int:
        before = len(self._pending)
        self._pending.extend(self.summary(_numbers(batch)) for batch in itertools.islice(iterator, count))
        return len(self._pending) - before

    def take(self) -> list[Any]:
        pending, self._pending = self._pending, []
        return pending

    def absorb(self, everyone: list[list[Any]]) -> None:
        """Merges the summaries of all processes: element k of a round is number k // W of process k mod W."""
        for row in itertools.zip_longest(*everyone):
            for summary in row:
                if summary is not None:
                    self.merge(summary)


def _numbers(batch: Any) -> torch.Tensor:
    value = batch[0] if isinstance(batch, tuple) else batch
    if isinstance(value, torch.Tensor) and value.is_nested:
        return value.values()
    if is_ragged(value):
        return torch.as_tensor(flatten_rows("adapt", value)[0])
    return torch.as_tensor(value)


class Adaptation:
    """`adapt` in pieces: the pass over the data can stop anywhere, be saved, and continue in another process.

    All processes must make the same calls.

    >>> layer = tdi.preprocessing.IntegerLookup()
    >>> adaptation = layer.start_adapt(tdi.Dataset.from_tensor_slices([5, 5, 6]).batch(1))
    >>> while adaptation.step(1):
    ...     saved = adaptation.state_dict()
    >>> adaptation.finish()
    >>> layer.get_vocabulary()
    [-1, 5, 6]
    """

    def __init__(self, layer: AdaptedLayer, data: Any, steps: int | None = None, strategy: Any = None):
        if not isinstance(data, Dataset):
            raise TypeError(f"start_adapt: `data` must be a Dataset, but is a {type(data).__name__}.")
        self._layer = layer
        self._strategy: Any = strategy if strategy is not None else get_strategy()
        context = input_context_of(self._strategy)
        self._workers = context.num_input_pipelines
        if steps is not None:
            data = data.take(steps)
        if self._workers > 1:
            data = data.shard(self._workers, context.input_pipeline_id)
        self._iterator = iter(data)
        self._learner = layer._learner()
        self._elements = 0
        self._ended = False

    @property
    def elements(self) -> int:
        """Elements that this process has read."""
        return self._elements

    def step(self, count: int) -> bool:
        """Reads up to `count` elements on each process; False once the data has ended on all of them."""
        read = 0 if self._ended else self._learner.consume(self._iterator, count)
        self._elements += read
        self._ended = self._ended or read < count
        if not self._learner.in_rounds:
            return not self._ended
        everyone = self._everyone((self._ended, self._learner.take()))
        self._learner.absorb([summaries for _, summaries in everyone])
        self._ended = all(ended for ended, _ in everyone)
        return not self._ended

    def finish(self) -> None:
        """Reads the rest, merges what the processes counted, and sets what the layer has learned."""
        while self.step(_ROUND):
            pass
        if not self._learner.in_rounds and self._workers > 1:
            self._learner.absorb(self._everyone(self._learner.take()))
        self._layer._finish_adapt(self._learner)

    def _everyone(self, value: Any) -> list[Any]:
        return [value] if self._workers == 1 else all_values(self._strategy, [value])

    def state_dict(self) -> dict[str, Any]:
        """This process's position and what it learned so far, as plain values and tensors."""
        return {
            "elements": self._elements,
            "ended": self._ended,
            "workers": self._workers,
            "iterator": self._iterator.state_dict(),
            "learned": self._learner.state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues where `state` was saved. Raises ValueError for a state of another number of processes or another
        dataset."""
        if state["workers"] != self._workers:
            raise ValueError(
                f"load_state_dict: the state is one of {state['workers']} processes, but there are {self._workers}."
            )
        self._iterator.load_state_dict(state["iterator"])
        self._learner.reset()
        self._learner.load(state["learned"])
        self._elements, self._ended = state["elements"], state["ended"]


def adapt(layer: AdaptedLayer, data: Any, steps: int | None, strategy: Any, progress: bool | None) -> None:
    """Runs a whole pass over a dataset, an iterable of batches, or an array."""
    data = layer._adapted_to(data)
    if isinstance(data, Dataset):
        adaptation = Adaptation(layer, data, steps, strategy)
        bar = _Progress(type(layer).__name__, data, steps, progress)
        while adaptation.step(_ROUND):
            bar.show(adaptation.elements * adaptation._workers)
        bar.close()
        return adaptation.finish()
    learner = layer._learner()
    is_list = isinstance(data, (list, tuple)) and not learner.lists_are_batches
    if isinstance(data, Iterable) and not is_list and not isinstance(data, torch.Tensor) and not hasattr(data, "shape"):
        for batch in itertools.islice(data, steps):
            learner.add(batch)
    else:
        learner.add(layer._whole(data))
    layer._finish_adapt(learner)


def _total(data: Dataset, steps: int | None) -> int | None:
    cardinality = data.cardinality()
    if cardinality < 0:
        return steps
    return cardinality if steps is None else min(cardinality, steps)


class _Progress:
    """A line on stderr, at most twice a second: elements and their rate."""

    def __init__(self, name: str, data: Dataset, steps: int | None, wanted: bool | None):
        self._wanted = sys.stderr.isatty() if wanted is None else wanted
        self._name, self._total = name, _total(data, steps) if self._wanted else None
        self._start = self._last = time.monotonic()
        self._shown = False

    def show(self, elements: int) -> None:
        now = time.monotonic()
        if not self._wanted or (self._shown and now - self._last < 0.5):
            return
        self._last, self._shown = now, True
        share = f"/{self._total} ({100 * elements // max(self._total, 1)} %)" if self._total is not None else ""
        rate = elements / max(now - self._start, 1e-9)
        text = f"\radapt {self._name}: {elements}{share} elements, {rate:.0f}/s"
        print(text, end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._shown:
            print(file=sys.stderr, flush=True)
