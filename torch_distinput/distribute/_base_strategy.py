# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`Strategy`: what every strategy can do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from torch_distinput._C import InputContext, ValueContext
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.distribute._input_options import InputOptions
from torch_distinput.distribute._reduce import Axis, ReduceOp
from torch_distinput.typing import Reduction


class Strategy:
    """What every strategy can do. Use one of its subclasses, or `get_strategy()`.

    Call its methods from one thread at a time, outside the function that `run` runs (else RuntimeError).
    """

    _num_local_replicas = 1
    _wraps = False  # whether values are PerReplica

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas take part in a step, over all processes.

        >>> tdi.MirroredStrategy(["cpu", "cpu"]).num_replicas_in_sync
        2
        """
        return 1

    @property
    def enable_partial_batch_handling(self) -> bool:
        """Whether a step in which a replica has no part is completed with a zero-row part. May be set."""
        return False

    def scope(self) -> contextlib.AbstractContextManager[Strategy]:
        """A context in which `get_strategy()` is this strategy. RuntimeError inside another strategy's scope.

        >>> strategy = tdi.MirroredStrategy(["cpu"])
        >>> with strategy.scope():
        ...     tdi.get_strategy() is strategy
        True
        """
        raise NotImplementedError

    def run(self, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """Calls `fn` once for each replica of this process, each in its own thread where there are several.

        Each replica gets its own component of every `PerReplica` in `args` and `kwargs`, and all other values as they
        are. Grad mode, inference mode, autocast, torch's modes (such as `torch.device`), streams and context variables
        of the caller hold inside `fn`.

        Args:
            fn: called as `fn(*args, **kwargs)`. `get_replica_context()` inside it tells which replica calls.
            args: a list or tuple, else ValueError.
            kwargs: a dict or None, else TypeError.

        Returns the results as one structure with `PerReplica` leaves. A leaf that is the same Python object on every
        replica is not wrapped, and neither is the result of a strategy with one replica. Raises the error of the lowest
        replica that failed, and ValueError where the results have different structures.

        >>> strategy = tdi.MirroredStrategy(["cpu", "cpu"])
        >>> strategy.run(lambda: tdi.get_replica_context().replica_id_in_sync_group).values
        (0, 1)
        """
        raise NotImplementedError

    def reduce(self, op: ReduceOp | Reduction, value: Any, axis: Axis = None) -> Any:
        """Combines the replicas' values into one tensor, on the device of the first replica.

        Over several processes this is a collective: all processes must call it, in the same order.

        Args:
            op: `ReduceOp.SUM`, `ReduceOp.MEAN`, or their names in any case; else ValueError.
            value: a `PerReplica` of tensors. A plain tensor counts once for each replica where `axis` is given; without
                it, and with several replicas in this process, MEAN returns it and SUM raises ValueError.
            axis: None combines item by item, and the shapes must agree. An int, or several, are dims that are summed
                first; MEAN then divides by the number of items, so that a short or empty part weighs as many items as
                it holds.

        >>> strategy = tdi.MirroredStrategy(["cpu", "cpu"])
        >>> strategy.reduce("MEAN", tdi.PerReplica([torch.tensor([1.0, 2.0]), torch.tensor([6.0])]), axis=0)
        tensor(3.)
        """
        raise NotImplementedError

    def distribute_dataset(self, dataset: Dataset, options: InputOptions | None = None) -> Any:
        """Assigns the rows of each global batch of `dataset` to the replicas; returns a `DistributedDataset`.

        A part has leaves [b, ...] where the global batch has [B, ...]; the b of all replicas add up to B.

        Args:
            dataset: batched to the **global** batch size.
            options: how rows are assigned; None means `InputOptions()`.

        Raises ValueError for elements without a batch dim where there are several replicas, and TypeError unless
        `dataset` is a Dataset.

        >>> strategy = tdi.MirroredStrategy(["cpu", "cpu"])
        >>> for batch in strategy.distribute_dataset(tdi.Dataset.range(6).batch(4)):
        ...     print(batch.values)
        (tensor([0, 1]), tensor([2, 3]))
        (tensor([4]), tensor([5]))
        """
        raise NotImplementedError

    def experimental_distribute_dataset(self, dataset: Dataset, options: InputOptions | None = None) -> Any:
        """tf.distribute's name for `distribute_dataset`."""
        return self.distribute_dataset(dataset, options)

    def distribute_datasets_from_function(
        self, dataset_fn: Callable[[InputContext], Dataset], options: InputOptions | None = None
    ) -> Any:
        """Gives each replica in turn an element of the dataset that `dataset_fn` returns, without splitting elements.

        Args:
            dataset_fn: called at once: one time, or with `InputReplicationMode.PER_REPLICA` one time for each replica,
                which then reads its own dataset. It shards by `num_input_pipelines` and `input_pipeline_id` of its
                argument and batches by `get_per_replica_batch_size(global_batch_size)`.
            options: as for `distribute_dataset`; `split` and `weights` have no effect here.

        Raises TypeError where `dataset_fn` does not return a Dataset, and NotImplementedError for PER_REPLICA where the
        strategy is not a MirroredStrategy.

        >>> strategy = tdi.MirroredStrategy(["cpu", "cpu"])
        >>> steps = strategy.distribute_datasets_from_function(lambda context: tdi.Dataset.range(4).batch(2))
        >>> [batch.values for batch in steps]
        [(tensor([0, 1]), tensor([2, 3]))]
        """
        raise NotImplementedError

    def experimental_distribute_datasets_from_function(
        self, dataset_fn: Callable[[InputContext], Dataset], options: InputOptions | None = None
    ) -> Any:
        """tf.distribute's former name for `distribute_datasets_from_function`."""
        return self.distribute_datasets_from_function(dataset_fn, options)

    def distribute_values_from_function(self, value_fn: Callable[[ValueContext], Any]) -> Any:
        """Calls `value_fn(ValueContext)` at once for each replica of this process, in replica order.

        Returns the values as one structure with `PerReplica` leaves, for `run`; `OneDeviceStrategy` returns the value
        itself. Values stay on the device that `value_fn` put them on.

        >>> strategy = tdi.MirroredStrategy(["cpu", "cpu"])
        >>> strategy.distribute_values_from_function(lambda context: context.replica_id_in_sync_group).values
        (0, 1)
        """
        raise NotImplementedError

    def experimental_distribute_values_from_function(self, value_fn: Callable[[ValueContext], Any]) -> Any:
        """tf.distribute's name for `distribute_values_from_function`."""
        return self.distribute_values_from_function(value_fn)

    def gather(self, value: Any, axis: int) -> torch.Tensor:
        """Concatenates the replicas' values along dim `axis` in replica order, on the device of the first replica.

        Over several processes this is a collective: all processes must call it, in the same order.

        Args:
            value: a `PerReplica` of tensors whose shapes differ in dim `axis` at most, where 0 is allowed; a plain
                tensor is one value of this process. TypeError for a structure.
            axis: a dim; negative ones count from the last.

        >>> strategy = tdi.MirroredStrategy(["cpu", "cpu"])
        >>> strategy.gather(tdi.PerReplica([torch.tensor([1, 2]), torch.tensor([3])]), axis=0)
        tensor([1, 2, 3])
        """
        raise NotImplementedError

    def local_results(self, value: Any) -> tuple[Any, ...]:
        """The components of `value` for the replicas of this process; a plain value gives a tuple of one.

        >>> tdi.MirroredStrategy(["cpu", "cpu"]).local_results(tdi.PerReplica([1, 2]))
        (1, 2)
        """
        return (value,)

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        """tf.distribute's name for `local_results`."""
        return self.local_results(value)

    def _all_values(self, values: Sequence[Any]) -> list[Any]:
        """The values of all replicas over all ranks, given those of this process."""
        return list(values)

    def _input_context(self) -> InputContext:
        return InputContext()

    def _distribute_whole(self, dataset: Dataset) -> Any:
        """Each element of `dataset` goes to one replica; a step in which a replica has none is not delivered."""
        return dataset

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


# What other modules of this library ask a strategy for.


def local_replicas(strategy: Strategy) -> tuple[int, bool]:
    """The number of replicas of this process, and whether their values are `PerReplica`."""
    return strategy._num_local_replicas, strategy._wraps


def input_context_of(strategy: Strategy) -> InputContext:
    """What a function that makes a dataset is told."""
    return strategy._input_context()


def distribute_whole(strategy: Strategy, dataset: Dataset) -> Any:
    """A distributed dataset in which each replica gets whole batches, and an incomplete last step is left out."""
    return strategy._distribute_whole(dataset)


def all_values(strategy: Strategy, values: Sequence[Any]) -> list[Any]:
    """The values of all replicas over all ranks, given those of this process. A collective."""
    return strategy._all_values(values)
