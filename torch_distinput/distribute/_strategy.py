# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Strategies: which replicas there are, and how values are distributed to them and combined again."""

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from torch_distinput import _C
from torch_distinput._C import InputContext, ValueContext
from torch_distinput.base import _arguments
from torch_distinput.base._structure import children
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.distribute._base_strategy import Strategy
from torch_distinput.distribute._called_pipeline import CalledDataset, called_pipeline, why_unplanned
from torch_distinput.distribute._distributed import DistributedDataset
from torch_distinput.distribute._empty_parts import EmptyParts
from torch_distinput.distribute._executed import ExecutedDataset
from torch_distinput.distribute._executed_work import PipelineWork
from torch_distinput.distribute._input_options import InputOptions, native_options, tail_given
from torch_distinput.distribute._reduce import Axis, ReduceOp, combine, concatenate
from torch_distinput.distribute._replica import Frame, ReplicaContext, current_frame, enter_frame
from torch_distinput.distribute._replica_exchange import ReplicaExchange, ReplicaThreads
from torch_distinput.distribute._values import PerReplica, local_results, regroup, select
from torch_distinput.ops._base import native_of
from torch_distinput.typing import Reduction

if torch.backends.cuda.is_built():
    # torch counts devices through NVML if that is installed, without calling the driver: once a process has called the
    # driver, its forked children cannot use CUDA.
    _C.count_devices_with("cuda", torch.cuda.device_count)


class DefaultStrategy(Strategy):
    """The strategy outside every scope: one replica, nothing is distributed. Returned by `get_strategy()`."""

    @contextlib.contextmanager
    def scope(self) -> Iterator[Strategy]:
        _check_not_mixed(self)
        yield self

    def run(self, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        _arguments.function("run", "fn", fn)
        _check_arguments(args, kwargs)
        return fn(*args, **(kwargs or {}))

    def reduce(self, op: ReduceOp | Reduction, value: Any, axis: Axis = None) -> Any:
        op = ReduceOp.of(op)
        return value if axis is None else combine(op, [value], axis)

    def distribute_dataset(self, dataset: Dataset, options: InputOptions | None = None) -> Dataset:
        """Returns `dataset` itself."""
        return dataset

    def distribute_datasets_from_function(
        self, dataset_fn: Callable[[InputContext], Dataset], options: InputOptions | None = None
    ) -> Dataset:
        """Returns the dataset that `dataset_fn` returns."""
        _input_options("distribute_datasets_from_function", options)
        return _call_dataset_fn(dataset_fn, InputContext())

    def distribute_values_from_function(self, value_fn: Callable[[ValueContext], Any]) -> Any:
        """Returns the value that `value_fn` returns."""
        _arguments.function("distribute_values_from_function", "value_fn", value_fn)
        return value_fn(ValueContext())

    def gather(self, value: Any, axis: int) -> torch.Tensor:
        """Returns `value` itself."""
        return concatenate([value], axis)


class NativeStrategy(Strategy):
    """A strategy with devices."""

    def __init__(self, native: _C.Strategy):
        self._native = native
        self._wraps = native.wraps
        self._num_local_replicas = len(native.devices)
        self._devices = tuple(torch.device(device) for device in native.devices)
        self._threads = ReplicaThreads(len(self._devices))

    @property
    def devices(self) -> tuple[torch.device, ...]:
        """The devices of this process's replicas."""
        return self._devices

    @property
    def num_replicas_in_sync(self) -> int:
        return self._native.num_replicas_in_sync

    @property
    def enable_partial_batch_handling(self) -> bool:
        return self._native.enable_partial_batch_handling

    @enable_partial_batch_handling.setter
    def enable_partial_batch_handling(self, value: bool) -> None:
        name = "enable_partial_batch_handling"
        self._native.enable_partial_batch_handling = _arguments.flag(type(self).__name__, name, value)

    @contextlib.contextmanager
    def scope(self) -> Iterator[Strategy]:
        _check_not_mixed(self)
        # A scope that is entered again, also inside `run`, changes nothing.
        with contextlib.nullcontext() if current_frame() else enter_frame(Frame(self)):
            yield self

    def run(self, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        _arguments.function("run", "fn", fn)
        _check_arguments(args, kwargs)
        self._check_cross_replica("run")
        count = len(self._devices)
        run = _C.ReplicaRun(self._native.devices, _accelerator_in_use())
        exchange = ReplicaExchange(run, self._all_values)
        calls = [functools.partial(self._call, replica, exchange, fn, args, kwargs or {}) for replica in range(count)]
        if count == 1:
            return run.call(0, calls[0])
        return regroup(self._threads.run(calls, run))

    def reduce(self, op: ReduceOp | Reduction, value: Any, axis: Axis = None) -> torch.Tensor:
        op = ReduceOp.of(op)
        self._check_cross_replica("reduce")
        if isinstance(value, PerReplica):
            return combine(op, self._all_values(local_results(value, len(self._devices))), axis)
        if len(self._devices) == 1 or axis is not None or not isinstance(value, torch.Tensor):
            return combine(op, self._all_values([value] * len(self._devices)), axis)
        if op is ReduceOp.MEAN:
            return value
        raise ValueError(
            f"reduce: a plain value cannot be summed over {len(self._devices)} replicas; `value` must be a PerReplica, "
            f"but is {value!r}."
        )

    def distribute_dataset(self, dataset: Dataset, options: InputOptions | None = None) -> DistributedDataset:
        if not isinstance(dataset, Dataset):
            raise TypeError(
                f"distribute_dataset: `dataset` must be a torch_distinput.Dataset, but is a {type(dataset).__name__}."
            )
        options = _input_options("distribute_dataset", options)
        native = self._native.distribute_dataset(native_of(dataset), native_options(options))
        empty_parts = self._empty_parts(options.tail, tail_given(options))
        if options.executor is None:
            return self._distributed(native, empty_parts, dataset)
        index, count = self._native.input_pipeline_id, self._native.num_input_pipelines
        if (why := why_unplanned(native)) is not None:
            ahead = dataset.options().prefetch_bytes
            calling, called = called_pipeline("distribute_dataset", dataset, options.executor, count, ahead, why)
            native = self._native.distribute_dataset(calling, native_options(options))
            assigned = CalledDataset(native, self, self._wraps, self._num_local_replicas, empty_parts, dataset)
            return assigned.asking(called, options.executor)
        work = PipelineWork(dataset, None, options, index, count, len(self._devices), self._wraps)
        return ExecutedDataset(native, self, self._wraps, empty_parts, work, self._devices)

    def distribute_datasets_from_function(
        self, dataset_fn: Callable[[InputContext], Dataset], options: InputOptions | None = None
    ) -> DistributedDataset:
        self._check_cross_replica("distribute_datasets_from_function")
        options = _input_options("distribute_datasets_from_function", options)
        if options.executor is not None:
            raise ValueError(
                "distribute_datasets_from_function: `executor` makes parts of one dataset that all processes read; use "
                "`distribute_dataset`."
            )
        _arguments.function("distribute_datasets_from_function", "dataset_fn", dataset_fn)

        made = []  # lets the garbage collector see the functions of these datasets until the distributed dataset exists

        def make(context: InputContext) -> _C.Dataset:
            made.append(native_of(_call_dataset_fn(dataset_fn, context)))
            return made[-1]

        native = self._native.distribute_datasets_from_function(make, native_options(options))
        return self._distributed(native, self._empty_parts(options.tail, tail_given(options)))

    def distribute_values_from_function(self, value_fn: Callable[[ValueContext], Any]) -> Any:
        self._check_cross_replica("distribute_values_from_function")
        _arguments.function("distribute_values_from_function", "value_fn", value_fn)
        first = self._native.input_pipeline_id * len(self._devices)
        contexts = [ValueContext(first + replica, self.num_replicas_in_sync) for replica in range(len(self._devices))]
        return regroup([value_fn(context) for context in contexts], always_wrap=True)

    def gather(self, value: Any, axis: int) -> torch.Tensor:
        self._check_cross_replica("gather", "; inside it, use get_replica_context().all_gather")
        values = local_results(value, len(self._devices)) if isinstance(value, PerReplica) else [value]
        if children(value) is not None:
            raise TypeError(f"gather: `value` is a {type(value).__name__}; gather each leaf of a structure.")
        return concatenate(self._all_values(values), axis)

    def local_results(self, value: Any) -> tuple[Any, ...]:
        return local_results(value, len(self._devices))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(repr(str(device)) for device in self._devices)})"

    def _call(
        self,
        replica: int,
        exchange: ReplicaExchange,
        fn: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        mine = functools.partial(select, replica=replica, num_replicas=len(self._devices))
        first = self._native.input_pipeline_id * len(self._devices)
        context = ReplicaContext(first + replica, self.num_replicas_in_sync, exchange, replica)
        with enter_frame(Frame(self, context)):
            return fn(*[mine(arg) for arg in args], **{name: mine(arg) for name, arg in kwargs.items()})

    def _distributed(
        self, native: _C.DistributedDataset, empty_parts: EmptyParts, pipeline: Dataset | None = None
    ) -> DistributedDataset:
        return DistributedDataset(native, self, self._wraps, self._num_local_replicas, empty_parts, pipeline)

    def _empty_parts(self, tail: str, given: bool) -> EmptyParts:
        return EmptyParts(tail, given, self._native.input_pipeline_id, self.num_replicas_in_sync)

    def _input_context(self) -> InputContext:
        native = self._native
        return InputContext(native.num_input_pipelines, native.input_pipeline_id, native.num_replicas_in_sync)

    def _distribute_whole(self, dataset: Dataset) -> DistributedDataset:
        native = copy.copy(self._native)
        native.enable_partial_batch_handling = False
        options = _C.InputOptions()
        distributed = native.distribute_datasets_from_function(lambda context: native_of(dataset), options)
        return self._distributed(distributed, self._empty_parts(options.tail, given=True))

    def _check_cross_replica(self, call: str, instead: str = "") -> None:
        _check_not_mixed(self)
        frame = current_frame()
        if frame is not None and frame.replica is not None:
            raise RuntimeError(f"{call}: must be called outside of the function that `run` runs{instead}.")


class OneDeviceStrategy(NativeStrategy):
    """One replica on `device`. Batches are not split, and values are plain instead of `PerReplica`.

    Raises ValueError for a device that does not exist.

    >>> [batch for batch in tdi.OneDeviceStrategy("cpu").distribute_dataset(tdi.Dataset.range(3).batch(2))]
    [tensor([0, 1]), tensor([2])]
    """

    def __init__(self, device: str | torch.device):
        super().__init__(_C.OneDeviceStrategy(_arguments.device("OneDeviceStrategy", "device", device)))

    def reduce(self, op: ReduceOp | Reduction, value: Any, axis: Axis = None) -> Any:
        if axis is None and not isinstance(value, PerReplica):
            ReduceOp.of(op)
            return value
        return super().reduce(op, value, axis)

    def distribute_values_from_function(self, value_fn: Callable[[ValueContext], Any]) -> Any:
        self._check_cross_replica("distribute_values_from_function")
        return _default_strategy.distribute_values_from_function(value_fn)


class MirroredStrategy(NativeStrategy):
    """Several replicas in this process, one for each device; global batches are split over them.

    Args:
        devices: such as `["cuda:0", "cuda:1"]`, or `["cpu", "cpu"]` for two CPU replicas. None: every accelerator that
            torch sees, else one CPU.

    Raises ValueError for a device that does not exist.

    >>> strategy = tdi.MirroredStrategy(["cpu", "cpu"])
    >>> [batch.values for batch in strategy.distribute_dataset(tdi.Dataset.range(3).batch(4))]
    [(tensor([0, 1]), tensor([2]))]
    """

    def __init__(self, devices: Sequence[str | torch.device] | None = None):
        super().__init__(_C.MirroredStrategy(_arguments.devices("MirroredStrategy", devices)))


def get_strategy() -> Strategy:
    """The strategy whose scope or `run` encloses the call, else the default strategy of one replica.

    >>> tdi.get_strategy().num_replicas_in_sync
    1
    """
    frame = current_frame()
    return _default_strategy if frame is None else frame.strategy


_default_strategy = DefaultStrategy()


def _input_options(call: str, options: InputOptions | None) -> InputOptions:
    options = InputOptions() if options is None else options
    if not isinstance(options, InputOptions):
        raise TypeError(f"{call}: `options` must be InputOptions, but is a {type(options).__name__}.")
    return options


def _call_dataset_fn(dataset_fn: Callable[[InputContext], Dataset], context: InputContext) -> Dataset:
    dataset = dataset_fn(context)
    if not isinstance(dataset, Dataset):
        raise TypeError(
            "distribute_datasets_from_function: `dataset_fn` must return a torch_distinput.Dataset, but returned a "
            f"{type(dataset).__name__}."
        )
    return dataset


def _check_arguments(args: Any, kwargs: Any) -> None:
    if not isinstance(args, (list, tuple)):
        raise ValueError(f"run: positional args must be a list or tuple, got {type(args).__name__}.")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise TypeError(f"run: `kwargs` must be a dict, but is a {type(kwargs).__name__}.")


def _check_not_mixed(strategy: Strategy) -> None:
    frame = current_frame()
    if frame is not None and frame.strategy is not strategy:
        raise RuntimeError(f"Mixing different strategies: {strategy} is used in the scope of {frame.strategy}.")


def _accelerator_in_use() -> str | None:
    """The caller's current CUDA device, which replicas on a CPU may use too; None: this process has not set CUDA up."""
    return f"cuda:{torch.cuda.current_device()}" if torch.cuda.is_initialized() else None
