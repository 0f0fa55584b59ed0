# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Whether a restart by torchrun would break gloo, judged by the environment of a process."""

import os
import warnings

import torch.distributed as dist

from torch_distinput import _C

_warned = False


def risk_of_restarts() -> str:
    """Why a restart of this job would fail, and the cure; "" if it would not, or if nothing restarts."""
    restarts = os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")
    if restarts == "0" or not _C.starts_share_store():
        return ""
    return (
        f"torchrun may restart this job (--max-restarts={restarts}) and gives the processes of all starts one store, "
        "in which gloo finds the addresses of those that died: init_process_group then hangs or fails. Start torchrun "
        "with TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 in its environment."
    )


def warn_of_restarts(group: dist.ProcessGroup) -> None:
    """Warns once, on rank 0 of a group with gloo, before the first restart: after one, this code may not be reached."""
    global _warned
    if _warned or group.rank() != 0 or "gloo" not in str(dist.get_backend_config(group)):
        return
    risk = risk_of_restarts()
    if risk:
        _warned = True
        warnings.warn(f"torch_distinput: {risk}", stacklevel=4)
