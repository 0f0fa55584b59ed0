# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""mpirun of Open MPI and of MPICH on one machine."""

import os
import sys

import pytest
from launchers import JOB, check_rows, free_port, run

OPEN_MPI = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]
PROGRAM = [sys.executable, JOB]


@pytest.mark.launcher("Open MPI")
def test_each_row_once_under_open_mpi(tmp_path):
    port = os.environ | {"MASTER_PORT": free_port()}
    run([*OPEN_MPI, "-x", "MASTER_PORT", "-n", "3", *PROGRAM, str(tmp_path)], env=port)
    check_rows(tmp_path, 3)


@pytest.mark.launcher("Open MPI")
def test_one_process_needs_no_address(tmp_path):
    run([*OPEN_MPI, "-n", "1", *PROGRAM, str(tmp_path)])
    check_rows(tmp_path, 1)


@pytest.mark.launcher("MPICH")
def test_each_row_once_under_mpich(tmp_path):
    run(["mpirun.mpich", "-n", "3", *PROGRAM, str(tmp_path)], env=os.environ | {"MASTER_PORT": free_port()})
    check_rows(tmp_path, 3)
