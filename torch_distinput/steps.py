# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Losses and predictions of ragged steps: means over the global batch, rows back in the pipeline's order."""

from typing import Any

from torch import Tensor

from torch_distinput import _C
from torch_distinput._arguments import instance
from torch_distinput._C import StepInfo
from torch_distinput._structure import map_leaves
from torch_distinput.replica import current_frame


def scaled_mean(loss: Tensor, info: StepInfo, anchor: Tensor) -> Tensor:
    """Scales this replica's mean loss so that the average over the replicas is the global batch's mean.

    Args:
        loss: the mean over this replica's valid rows; NaN is fine where it has none.
        info: the step's `step_info`. Inside `strategy.run` this replica's entry counts.
        anchor: a tensor of the replica's graph, such as the model's output. A replica without rows returns a zero
            that hangs on it, so that `backward` works there too.
    """
    info = instance("scaled_mean", "info", info, StepInfo)
    return _C.scaled_mean(loss, info, anchor, _replica(info, "scaled_mean"))


def distributed_mean(loss_sum: Tensor, info: StepInfo) -> Tensor:
    """Scales this replica's summed loss so that the average over the replicas is the global batch's mean.

    Args:
        loss_sum: the sum over this replica's valid rows (0 where it has none).
        info: the step's `step_info`.
    """
    return _C.distributed_mean(loss_sum, instance("distributed_mean", "info", info, StepInfo))


def restore_order(rows: Any, info: StepInfo) -> Any:
    """Puts one step's gathered rows back into the order of the pipeline and leaves padding out.

    Args:
        rows: what `strategy.gather(value, axis=0)` returned for the step; or a structure of such tensors.
        info: the step's `step_info`.
    """
    info = instance("restore_order", "info", info, StepInfo)
    return map_leaves(lambda leaf: _C.restore_order(leaf, info), rows)


def _replica(info: StepInfo, name: str) -> int:
    frame = current_frame()
    if frame is not None and frame.replica is not None:
        return frame.replica._local_replica
    if len(info.valid) == 1:
        return 0
    raise ValueError(
        f"{name}: `info` has entries for {len(info.valid)} replicas; call it inside strategy.run, where the replica "
        "is known."
    )
