# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`DistributedDataset` and its iterator: a dataset after a strategy assigned its rows to replicas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch_distinput import _C
from torch_distinput.base._arguments import count, function, number, optional_integer, sequence
from torch_distinput.base._spec import PerReplicaSpec
from torch_distinput.base._structure import map_leaves
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.distribute._base_strategy import Strategy
from torch_distinput.distribute._cardinality import Cardinality
from torch_distinput.distribute._empty_parts import EmptyParts
from torch_distinput.distribute._replica import current_frame
from torch_distinput.distribute._values import PerReplica
from torch_distinput.observe._explanation import Explanation
from torch_distinput.observe._stats import Stats


class Optional:
    """A step, or nothing at the end of the data. Returned by `DistributedIterator.get_next_as_optional`.

    >>> tdi.Optional(True, 5).get_value(), tdi.Optional(False).has_value()
    (5, False)
    """

    __slots__ = ("_has_value", "_value")

    def __init__(self, has_value: bool, value: Any = None):
        self._has_value = has_value
        self._value = value

    def has_value(self) -> bool:
        """Whether there is a step."""
        return self._has_value

    def get_value(self) -> Any:
        """The step; raises InvalidArgumentError where there is none."""
        if not self._has_value:
            raise _C.InvalidArgumentError("get_value: the given optional does not have a value.")
        return self._value

    def __repr__(self) -> str:
        return f"Optional({self._value!r})" if self._has_value else "Optional()"


class DistributedIterator:
    """An iterator over the steps of a distributed dataset. Use it from one thread at a time.

    A step holds one value for each replica of this process: `PerReplica` at the leaves where the strategy has several
    replicas, plain values otherwise. After an error of the pipeline each call raises it again. Calls inside the
    function of `strategy.run` raise ValueError, calls in the scope of another strategy RuntimeError.

    >>> steps = iter(tdi.MirroredStrategy(["cpu", "cpu"]).distribute_dataset(tdi.Dataset.range(3).batch(2)))
    >>> next(steps).values, steps.step_info.global_valid
    ((tensor([0]), tensor([1])), 2)
    """

    def __init__(self, native: _C.DistributedIterator, dataset: DistributedDataset):
        self._native = native
        self._dataset = dataset
        self._wrap = PerReplica if dataset._wraps else None
        self._step_info: _C.StepInfo | None = None

    def __iter__(self) -> DistributedIterator:
        return self

    def __next__(self) -> Any:
        self._check_frame("next(iterator)")
        step = self._native.next(self._wrap)
        if step is None:
            raise StopIteration
        return self._value(step)

    def get_next(self) -> Any:
        """The next step, as `next` returns it; raises OutOfRangeError at the end."""
        self._check_frame("iterator.get_next()")
        return self._value(self._native.get_next(self._wrap))

    def get_next_as_optional(self) -> Optional:
        """The next step as an `Optional`, which is empty at the end.

        Also returns a last step in which some replicas have no part, which `next` does not deliver where partial-batch
        handling is off.
        """
        self._check_frame("iterator.get_next_as_optional()")
        step = self._native.get_next_as_optional(self._wrap)
        return Optional(False) if step is None else Optional(True, self._value(step))

    @property
    def element_spec(self) -> Any:
        """The spec of a step, with `PerReplicaSpec` at the leaves where values are `PerReplica`."""
        return self._dataset.element_spec

    @property
    def step_info(self) -> _C.StepInfo:
        """The `StepInfo` of the step last returned; raises FailedPreconditionError before the first one.

        Safe from any thread, so that replicas can read it inside `run`.
        """
        return self._native.step_info if self._step_info is None else self._step_info

    def state_dict(self) -> dict[str, Any]:
        """The position after the step last returned, as plain values that JSON can hold. Never communicates.

        Where all processes read one stream, every process has the same state, and it restores on any number of
        replicas. Where processes read streams of their own, each state is local; see `load_state_dict`.
        """
        return self._native.state_dict()

    def load_state_dict(self, state: dict[str, Any] | list[dict[str, Any]]) -> None:
        """Moves to a saved position.

        Args:
            state: one that this process saved. Where processes read streams of their own (files under policy FILE),
                another number of processes needs a list of the states of all of them, saved after the same step; the
                processes then read what each of those streams has left.

        Raises ValueError for the state of another pipeline, and for another number of processes where only the user's
        code knows which process read which rows (policies OFF and HINT, datasets from a function).
        """
        self._native.load_state_dict(state)
        self._step_info = None

    def set_weights(self, weights: Sequence[float], step: int | None = None) -> None:
        """Gives the datasets of the pipeline's `sample_from_datasets` other weights from `step` on (None: the next).

        They hold to the end of the epoch, instead of a schedule. Positions keep the change. All processes call it after
        the same step: where they differ, the next step raises DistributedDatasetError. Raises ValueError for wrong
        weights and an earlier step, and where no mixture, or not all before the step, is known.
        """
        op = "set_weights"
        self._native.set_weights(sequence(op, "weights", weights, number), optional_integer(op, "step", step))

    def stats(self) -> Stats:
        """What this iterator has counted since it was made."""
        return self._native.stats()

    def close(self) -> None:
        """Stops reading ahead, frees what was read, and reports to the other processes that this one left.

        `next` then raises.
        """
        self._native.close()

    def _value(self, step: tuple[Any, _C.StepInfo]) -> Any:
        value, self._step_info = step
        self._dataset._empty_parts.after_step(self._step_info, stacklevel=3)
        return value

    def __repr__(self) -> str:
        info = self.__dict__.get("_step_info")
        place = "before its first step" if info is None else f"epoch {info.epoch}, step {info.step + 1}"
        return f"{type(self).__name__}({place})"

    def _check_frame(self, call: str) -> None:
        frame = current_frame()
        if frame is None:
            return
        strategy = self._dataset._strategy
        if frame.strategy is not strategy:
            raise RuntimeError(f"Mixing different strategies: {strategy} made the iterator, but {frame.strategy} runs.")
        if frame.replica is not None:
            raise ValueError(
                f"{call} should be called from outside of the replica's function, for example "
                "strategy.run(fn, args=(next(iterator),))."
            )


class DistributedDataset:
    """A dataset whose global batches a strategy assigns to its replicas. Made by `Strategy.distribute_dataset`.

    `iter` opens an epoch. `len` is the number of steps; TypeError where that is infinite or unknown before iterating.

    >>> distributed = tdi.MirroredStrategy(["cpu", "cpu"]).distribute_dataset(tdi.Dataset.range(6).batch(4))
    >>> distributed
    DistributedDataset(Dataset(range(start=0, stop=6, step=1).batch(...)), MirroredStrategy('cpu', 'cpu'))
    >>> len(distributed)
    2
    """

    def __init__(
        self,
        native: _C.DistributedDataset,
        strategy: Strategy,
        wraps: bool,
        num_local_replicas: int,
        empty_parts: EmptyParts,
        pipeline: Dataset | None,
    ):
        self._native = native
        self._empty_parts = empty_parts
        self._num_local_replicas = num_local_replicas
        self._strategy = strategy
        self._wraps = wraps
        self._pipeline = pipeline  # what is shown below the report

    def __iter__(self) -> DistributedIterator:
        self._empty_parts.at_start(self._native, stacklevel=2)
        return DistributedIterator(self._native.iterate(), self)

    def __len__(self) -> int:
        steps = self._native.num_steps
        if steps is None:
            kind = "infinite" if self._native.cardinality == _C.INFINITE else "unknown before iterating"
            raise TypeError(f"len: the number of steps of this DistributedDataset is {kind}.")
        return steps

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        known = (self.__dict__.get("_pipeline"), self.__dict__.get("_strategy"))
        return f"{type(self).__name__}({', '.join(repr(part) for part in known if part is not None)})"

    @property
    def element_spec(self) -> Any:
        """The spec of a step, with `PerReplicaSpec` at the leaves where values are `PerReplica`."""
        spec = self._native.element_spec
        if not self._wraps:
            return spec
        return map_leaves(lambda leaf: PerReplicaSpec(*[leaf] * self._num_local_replicas), spec)

    @property
    def cardinality(self) -> Cardinality:
        """A method: `cardinality()` is the number of global batches, `INFINITE` (-1) or `UNKNOWN` (-2).

        Without the call, as in tf.distribute, it still is that number, with a DeprecationWarning when it is used.

        >>> tdi.OneDeviceStrategy("cpu").distribute_dataset(tdi.Dataset.range(5).batch(2)).cardinality()
        3
        """
        return Cardinality(self._native.cardinality)

    @property
    def partial_batch_handling(self) -> bool:
        """Whether a step in which a replica has no part is completed with a zero-row part."""
        return self._native.partial_batch_handling

    def set_epoch(self, epoch: int) -> None:
        """Pins the epoch of the next iterator, at least 0 (else ValueError). All processes must pin the same one."""
        self._native.set_epoch(count("set_epoch", "epoch", epoch))

    def reduce(self, initial: Any, fn: Callable[[Any, Any], Any]) -> Any:
        """Runs `state = fn(state, step)` over all steps of an epoch, from `initial`; returns the last state.

        >>> distributed = tdi.OneDeviceStrategy("cpu").distribute_dataset(tdi.Dataset.range(6).batch(4))
        >>> distributed.reduce(0, lambda total, batch: total + int(batch.sum()))
        15
        """
        state, fn = initial, function("reduce", "fn", fn)
        for step in self:
            state = fn(state, step)
        return state

    def explain(self) -> Explanation:
        """A report: auto-shard policy, splitter, path and sizes, each with the reason, and the dataset's ops below."""
        ops = None if self._pipeline is None else self._pipeline.explain().ops
        return Explanation("distributed dataset", self._native.explain().splitlines(), ops)


def native_of(dataset: DistributedDataset) -> _C.DistributedDataset:
    """The handle in C++ of `dataset`."""
    return dataset._native


def empty_parts_of(dataset: DistributedDataset) -> EmptyParts:
    """What warns of the parts without rows of `dataset`."""
    return dataset._empty_parts
