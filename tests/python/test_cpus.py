# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""How many CPUs threads are made for: those that the process may run on, within its container's quota."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

CPUS = """
import os
import torch_distinput as tdi
from torch_distinput import _C
print(len(os.sched_getaffinity(0)), _C.cpu_quota(), _C.available_cpus())
"""


@contextlib.contextmanager
def group_of_quota(share: float) -> Iterator[Path]:
    """A control group whose processes get the time of `share` CPUs; skips the test where none can be made."""
    version2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    group = Path("/sys/fs/cgroup", "" if version2 else "cpu", f"torch_distinput_{os.getpid()}")
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    try:
        try:
            if version2:
                (group / "cpu.max").write_text(f"{int(share * 100_000)} 100000")
            else:
                (group / "cpu.cfs_quota_us").write_text(str(int(share * 100_000)))
        except OSError as error:
            pytest.skip(f"no quota can be set: {error}")
        yield group
    finally:
        group.rmdir()


@pytest.mark.parametrize("share", [0.6, 1.0])
def test_threads_follow_the_quota_of_a_real_control_group(share):
    with group_of_quota(share) as group:
        ran = subprocess.run(
            ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh", sys.executable, "-c", CPUS],
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert ran.stdout.split()[1:] == [str(share), "1"], ran.stderr
