# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The input calls of TensorFlow 1's `tf.distribute.Strategy`, as they behave in eager mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch_distinput._C import InputContext, InputReplicationMode, OutOfRangeError
from torch_distinput.base._arguments import function
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.distribute._base_strategy import Strategy as BaseStrategy
from torch_distinput.distribute._base_strategy import distribute_whole, input_context_of, local_replicas
from torch_distinput.distribute._values import regroup

__all__ = ["InputIterator", "InputReplicationMode", "Strategy"]


class InputIterator:
    """An iterator over the steps of an input, which can be started again.

    Made by `Strategy.make_dataset_iterator` and `Strategy.make_input_fn_iterator`. It may be used at once, without
    `initialize`.

    >>> strategy = tdi.compat.v1.Strategy(tdi.MirroredStrategy(["cpu", "cpu"]))
    >>> strategy.make_dataset_iterator(tdi.Dataset.range(4).batch(4)).get_next().values
    (tensor([0, 1]), tensor([2, 3]))
    """

    def __init__(self, open_steps: Callable[[], Iterator[Any]]):
        self._open_steps = open_steps
        self._steps = open_steps()

    def initialize(self) -> None:
        """Starts again from the first step of a new epoch. The values of a callable continue instead."""
        self._steps = self._open_steps()

    @property
    def initializer(self) -> None:
        """Reading this property calls `initialize`."""
        return self.initialize()

    def get_next(self) -> Any:
        """The next step, with one value for each replica; raises OutOfRangeError at the end."""
        try:
            return next(self._steps)
        except StopIteration:
            raise OutOfRangeError("InputIterator.get_next: the end; call `initialize` to start again.") from None


class _CallableSteps:
    """Values of a callable as steps. If a call fails, the values taken before it are kept for the next try."""

    def __init__(self, source: Callable[[], Any], strategy: BaseStrategy):
        self._source = source
        self._strategy = strategy
        self._taken: list[Any] = []

    def __iter__(self) -> _CallableSteps:
        return self

    def __next__(self) -> Any:
        count, wraps = local_replicas(self._strategy)
        while len(self._taken) < count:
            self._taken.append(self._source())
        values, self._taken = self._taken, []
        return regroup(values, always_wrap=True) if wraps else values[0]


class Strategy:
    """A strategy with the calls of TensorFlow 1. All other attributes are those of `strategy`.

    Args:
        strategy: such as `MirroredStrategy(["cpu", "cpu"])`; TypeError for anything but a Strategy.
    """

    def __init__(self, strategy: BaseStrategy):
        if not isinstance(strategy, BaseStrategy):
            raise TypeError(f"compat.v1.Strategy: `strategy` must be a Strategy, but is a {type(strategy).__name__}.")
        object.__setattr__(self, "_wrapped", strategy)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._wrapped, name, value)

    def __reduce__(self):
        return Strategy, (self._wrapped,)

    def __repr__(self) -> str:
        return f"compat.v1.Strategy({self._wrapped!r})"

    def make_dataset_iterator(self, dataset: Dataset) -> InputIterator:
        """An iterator over the steps of `dataset`, assigned as by `Strategy.distribute_dataset`."""
        distributed = self._wrapped.distribute_dataset(dataset)
        return InputIterator(lambda: iter(distributed))

    def make_input_fn_iterator(
        self,
        input_fn: Callable[[InputContext], Dataset | Callable[[], Any]],
        replication_mode: InputReplicationMode = InputReplicationMode.PER_WORKER,
    ) -> InputIterator:
        """An iterator that gives each replica in turn a value from what `input_fn` returns.

        An incomplete last step is left out.

        Args:
            input_fn: called at once, one time, with an `InputContext`. It returns a dataset, batched for one replica;
                or a callable that returns one value a call and raises OutOfRangeError or StopIteration at the end.
            replication_mode: PER_WORKER; else ValueError.
        """
        if replication_mode is not InputReplicationMode.PER_WORKER:
            raise ValueError(f"Input replication mode not supported: {replication_mode!r}")
        source = function("make_input_fn_iterator", "input_fn", input_fn)(input_context_of(self._wrapped))
        if isinstance(source, Dataset):
            distributed = distribute_whole(self._wrapped, source)
            return InputIterator(lambda: iter(distributed))
        if not callable(source):
            raise ValueError(
                "make_input_fn_iterator: `input_fn` must return a torch_distinput.Dataset or a callable, but returned "
                f"a {type(source).__name__}."
            )
        steps = _CallableSteps(source, self._wrapped)
        return InputIterator(lambda: steps)

    def experimental_run(self, fn: Callable, input_iterator: InputIterator | None = None) -> Any:
        """Runs `fn` on the next step of `input_iterator`, or without arguments where that is None; returns what `run`
        returns."""
        with self._wrapped.scope():
            args = () if input_iterator is None else (input_iterator.get_next(),)
            return self._wrapped.run(fn, args)

    def experimental_run_v2(
        self, fn: Callable, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """TensorFlow 1's name for `run`."""
        return self._wrapped.run(fn, args, kwargs)
