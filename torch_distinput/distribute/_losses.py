# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Losses and predictions of steps whose parts differ in size: means over the global batch, rows in pipeline order."""

from typing import Any

from torch import Tensor

from torch_distinput import _C
from torch_distinput._C import StepInfo
from torch_distinput.base._arguments import instance
from torch_distinput.base._structure import map_leaves
from torch_distinput.distribute._replica import current_frame, local_replica_of


def scaled_mean(loss: Tensor, info: StepInfo | None, anchor: Tensor) -> Tensor:
    """Scales this replica's mean loss so that the average over the replicas is the mean over the global batch.

    Multiplies by `info.loss_scale` = num_replicas * valid / global_valid.

    Args:
        loss: the mean over this replica's valid rows; may be NaN where it has none.
        info: the `step_info` of the step, or `last_info` of a DataLoader. Inside `strategy.run` the entry of this
            replica is used; outside it, `info` must have one entry (else ValueError).
        anchor: a tensor of the replica's graph, such as the model's output. A replica without rows returns a zero that
            depends on it, so that `backward` works and gives zero gradients.

    >>> steps = iter(tdi.OneDeviceStrategy("cpu").distribute_dataset(tdi.Dataset.range(4).batch(4)))
    >>> output = next(steps) * 1.0
    >>> tdi.scaled_mean(output.mean(), steps.step_info, anchor=output)
    tensor(1.5000)
    """
    step = _info("scaled_mean", info)
    return _C.scaled_mean(loss, step, anchor, _replica(step, "scaled_mean"))


def distributed_mean(loss_sum: Tensor, info: StepInfo | None) -> Tensor:
    """Scales this replica's summed loss so that the average over the replicas is the mean over the global batch.

    Multiplies by num_replicas / global_valid.

    Args:
        loss_sum: the sum over this replica's valid rows; 0 where it has none.
        info: the `step_info` of the step, or `last_info` of a DataLoader.

    Raises TypeError where `info` is None, as `last_info` is before the first batch.

    >>> steps = iter(tdi.OneDeviceStrategy("cpu").distribute_dataset(tdi.Dataset.range(4).batch(4)))
    >>> tdi.distributed_mean(next(steps).sum() * 1.0, steps.step_info)
    tensor(1.5000)
    """
    return _C.distributed_mean(loss_sum, _info("distributed_mean", info))


def restore_order(rows: Any, info: StepInfo | None) -> Any:
    """Puts the gathered rows of one step back into the order of the pipeline and removes padding.

    Args:
        rows: a tensor [n, ...] that `strategy.gather(value, axis=0)` returned for the step, or a structure of such
            tensors.
        info: the `step_info` of the step.

    Returns rows [global_valid, ...].

    >>> strategy = tdi.MirroredStrategy(["cpu", "cpu"])
    >>> steps = iter(strategy.distribute_dataset(tdi.Dataset.range(3).batch(4), tdi.InputOptions(tail="padded")))
    >>> gathered = strategy.gather(next(steps), axis=0)
    >>> gathered, tdi.restore_order(gathered, steps.step_info)
    (tensor([0, 1, 2, 2]), tensor([0, 1, 2]))
    """
    step = _info("restore_order", info)
    return map_leaves(lambda leaf: _C.restore_order(leaf, step), rows)


def _info(op: str, info: StepInfo | None) -> StepInfo:
    if info is None:
        raise TypeError(
            f"{op}: `info` must be a StepInfo, but is None. `last_info` of a DataLoader is None before its first "
            "batch, and without `distributed=True`."
        )
    return instance(op, "info", info, StepInfo)


def _replica(info: StepInfo, name: str) -> int:
    frame = current_frame()
    if frame is not None and frame.replica is not None:
        return local_replica_of(frame.replica)
    if len(info.valid) == 1:
        return 0
    raise ValueError(
        f"{name}: `info` has entries for {len(info.valid)} replicas; call it inside strategy.run, where the replica "
        "is known."
    )
