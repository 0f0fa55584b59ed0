# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`Strategy`: what every strategy can do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from torch_distinput._C import InputContext, ValueContext
from torch_distinput._reduce import Axis, ReduceOp
from torch_distinput.dataset import Dataset
from torch_distinput.input_options import InputOptions


class Strategy:
    """What every strategy can do. Use one of its subclasses, or `get_strategy()`."""

    _num_local_replicas = 1
    _wraps = False  # values come as PerReplica

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas take part in a step, over all processes."""
        return 1

    @property
    def enable_partial_batch_handling(self) -> bool:
        """Whether a step that lacks a replica's part is completed with a zero-row one."""
        return False

    def scope(self) -> contextlib.AbstractContextManager:
        """A context in which `get_strategy()` is this strategy. RuntimeError inside another strategy's scope."""
        raise NotImplementedError

    def run(self, fn: Callable, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """Calls `fn` once for each replica, each in its own thread where there are several.

        A `PerReplica` anywhere in `args` or `kwargs` gives way to the replica's component; everything else goes to
        all replicas as it is. Grad mode, inference mode, autocast, streams and context variables go along.

        Returns the results as one structure with `PerReplica` leaves. A leaf that is the same Python object on
        every replica stays itself, and so does the result of a strategy with one replica.
        """
        raise NotImplementedError

    def reduce(self, op: ReduceOp | str, value: Any, axis: Axis = None) -> Any:
        """Combines the replicas' values to one tensor, on the first replica's device.

        Args:
            op: `ReduceOp.SUM`, `ReduceOp.MEAN`, or their names in any case.
            value: a `PerReplica` of tensors; a plain tensor counts once for each replica.
            axis: None combines item by item, and the shapes must agree. A dimension, or several, are summed first;
                MEAN then divides by the number of items, so that short and empty parts weigh what they hold.
        """
        raise NotImplementedError

    def distribute_dataset(self, dataset: Dataset, options: InputOptions | None = None) -> Any:
        """Deals out the global batches of `dataset` over the replicas.

        Raises ValueError for elements without a batch dimension, where there are several replicas.
        """
        raise NotImplementedError

    def experimental_distribute_dataset(self, dataset: Dataset, options: InputOptions | None = None) -> Any:
        """The name that tf.distribute has for `distribute_dataset`."""
        return self.distribute_dataset(dataset, options)

    def distribute_datasets_from_function(
        self, dataset_fn: Callable[[InputContext], Dataset], options: InputOptions | None = None
    ) -> Any:
        """Hands out the elements of the dataset that `dataset_fn` returns as they are, one for each replica in turn.

        Args:
            dataset_fn: called now, once (with `InputReplicationMode.PER_REPLICA` once for each replica, which then
                reads its own dataset). It shards by `num_input_pipelines` and `input_pipeline_id` and batches by
                `get_per_replica_batch_size(global_batch_size)`.
            options: `split` and `weights` have no meaning here.

        Raises TypeError where `dataset_fn` returns something else than a Dataset, NotImplementedError for PER_REPLICA
        where the strategy is no MirroredStrategy.
        """
        raise NotImplementedError

    def experimental_distribute_datasets_from_function(
        self, dataset_fn: Callable[[InputContext], Dataset], options: InputOptions | None = None
    ) -> Any:
        """The name that tf.distribute had for `distribute_datasets_from_function`."""
        return self.distribute_datasets_from_function(dataset_fn, options)

    def distribute_values_from_function(self, value_fn: Callable[[ValueContext], Any]) -> Any:
        """What `value_fn(ValueContext)` returns, called now for each replica of this process in order.

        Returns one structure with `PerReplica` leaves, for `run`; with one device the value itself. Values stay on
        the device that `value_fn` put them on.
        """
        raise NotImplementedError

    def experimental_distribute_values_from_function(self, value_fn: Callable[[ValueContext], Any]) -> Any:
        """The name that tf.distribute has for `distribute_values_from_function`."""
        return self.distribute_values_from_function(value_fn)

    def gather(self, value: Any, axis: int) -> torch.Tensor:
        """Concatenates the replicas' values in replica order, on the first replica's device.

        Args:
            value: a `PerReplica` of tensors that may differ in dimension `axis` alone (also in having no rows); a
                plain tensor is returned as it is.
            axis: a dimension; negative ones count from the last.
        """
        raise NotImplementedError

    def local_results(self, value: Any) -> tuple[Any, ...]:
        """The components of `value` for the replicas of this process; a plain value is one result."""
        return (value,)

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        """The name that tf.distribute has for `local_results`."""
        return self.local_results(value)

    def _input_context(self) -> InputContext:
        return InputContext()

    def _distribute_whole(self, dataset: Dataset) -> Any:
        """The elements of `dataset` for one replica each; a step that lacks one is not delivered."""
        return dataset

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
