# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Processes that exit right after a collective of the library."""

import subprocess
import sys

import pytest

# Forked, so that a job starts fast and its interpreters exit as scripts do. A thread of gloo that frees a tensor of
# Python while the interpreter exits aborts the process; to provoke it, these threads get the processor last.
JOBS = """\
import os, sys, tempfile
import torch, torch.distributed as dist
import torch_distinput as tdi

torch.set_num_threads(1)

def rank_of_a_job(rank, path):
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-rank]})
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    sys.group = dist.group.WORLD
    strategy = tdi.MultiWorkerMirroredStrategy()
    for thread in os.listdir("/proc/self/task"):
        if open(f"/proc/self/task/{thread}/comm").read().startswith("pt_gloo"):
            os.sched_setscheduler(int(thread), os.SCHED_IDLE, os.sched_param(0))
    assert strategy.gather(torch.ones(10), axis=0).sum() == 20

for job in range(40):
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(2):
            ranks.append(os.fork())
            if ranks[-1] == 0:
                rank_of_a_job(rank, os.path.join(folder, "store"))
                sys.exit()
        statuses = [os.waitpid(rank, 0)[1] for rank in ranks]
    assert statuses == [0, 0], f"job {job} ended with {statuses}"
"""


@pytest.mark.slow
def test_no_thread_of_the_group_needs_python_when_the_interpreter_exits():
    """With tensors of Python (torch.distributed.all_gather_object), one job in five aborted."""
    result = subprocess.run([sys.executable, "-c", JOBS], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
