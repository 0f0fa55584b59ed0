# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The process group of a launch, from the variables that its launcher set."""

from __future__ import annotations

import atexit
import datetime
import logging
import os
import socket
import time
from typing import cast

import torch
import torch.distributed as dist

from torch_distinput import _C
from torch_distinput.distribute._multi_worker import leave_groups

_OP = "process_group_from_env"
_PARTED = "torch_distinput/parted"
_MOST_WAIT = 30.0  # seconds
_PAUSE = 0.01
_logger = logging.getLogger("torch_distinput")


def process_group_from_env(backend: str | None = None, timeout: datetime.timedelta | None = None) -> dist.ProcessGroup:
    """The default process group of torch.distributed, initialised from the variables of the launcher if there is none.

    Launchers are torchrun, Slurm's srun, mpirun of Open MPI and MPICH, and what sets torchrun's variables, such as Ray
    Train, Spark's TorchDistributor and Kubeflow; `docs/clusters.md` says what they set and what goes wrong.
    MASTER_ADDR and MASTER_PORT are needed only where MPI started processes on several machines. Where the launcher has
    another name for LOCAL_RANK, sets it too: torch.distributed.get_node_local_rank() reads it. Before it
    connects, each process logs its rank, host and local rank with logger "torch_distinput", at level INFO. Where rank 0
    hosts the store, its interpreter waits at its end for those of the other ranks, 30 s at most.

    Args:
        backend: of a new group. None: gloo, and NCCL for tensors on CUDA devices where torch has both.
        timeout: of a new group, also for the other processes to appear. None: torch's default.

    Raises ValueError, which quotes them, for variables that are wrong, incomplete or in contradiction; RuntimeError
    without a launcher; torch.distributed.DistError where the processes cannot reach each other.

    >>> tdi.process_group_from_env()
    Traceback (most recent call last):
    RuntimeError: process_group_from_env: no launcher started this process: ...
    """
    if not dist.is_initialized():
        launch = _launch()
        _initialise(launch, backend or _default_backend(), timeout)
        if launch.local_rank is not None:
            os.environ.setdefault("LOCAL_RANK", str(launch.local_rank))
    return cast(dist.ProcessGroup, dist.group.WORLD)


def _launch() -> _C.Launch:
    launch = _C.launch(_OP)
    if launch is None:
        raise RuntimeError(
            f"{_OP}: no launcher started this process: neither RANK and WORLD_SIZE (torchrun) nor OMPI_COMM_WORLD_RANK "
            "(mpirun), PMI_RANK (mpiexec) or the SLURM_PROCID of a task (srun; the shell of a job is no task) are set. "
            "Start the program with one of them, such as `torchrun --nproc-per-node=2 train.py`; a single process "
            "needs no group."
        )
    _logger.info(
        "rank %d of %d, told by %s, is on host %s with local rank %s; the others are reached over %s:%d",
        *(launch.rank, launch.size, launch.launcher, launch.host or socket.gethostname()),
        *("unknown" if launch.local_rank is None else launch.local_rank, launch.master_addr, launch.master_port),
    )
    return launch


def _initialise(launch: _C.Launch, backend: str, timeout: datetime.timedelta | None) -> None:
    if launch.size == 1:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1, timeout=timeout)
        return
    address = f"[{launch.master_addr}]" if ":" in launch.master_addr else launch.master_addr
    # torch looks by itself whether torchrun's agent hosts the store at this address.
    where = f"tcp://{address}:{launch.master_port}"
    dist.init_process_group(backend, init_method=where, rank=launch.rank, world_size=launch.size, timeout=timeout)
    if not _C.starts_share_store():
        atexit.register(_part, dist.distributed_c10d._get_default_store(), launch.rank == 0, launch.size)


def _part(store: dist.Store, hosts: bool, size: int) -> None:
    """Rank 0, which hosts the store, ends last: ranks that still read data need it."""
    leave_groups()
    try:
        parted = store.add(_PARTED, 1)
        until = time.monotonic() + _MOST_WAIT
        while hosts and parted < size and time.monotonic() < until:
            time.sleep(_PAUSE)
            parted = store.add(_PARTED, 0)
    except dist.DistError:
        return  # the host is gone, so that no process waits for this one


def _default_backend() -> str:
    return "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
