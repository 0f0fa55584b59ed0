# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""srun, sbatch and salloc of a real Slurm on one node, alone and with other launchers inside."""

import shutil
import sys

import pytest
from launchers import JOB, TORCHRUN, check_rows, run
from slurm_cluster import slurm_cluster

pytestmark = pytest.mark.launcher("Slurm")
PROGRAM = [sys.executable, JOB]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with slurm_cluster(tmp_path_factory.mktemp("slurm")) as env:
        yield env


def test_each_row_once_over_the_tasks_of_srun(cluster, tmp_path):
    run(["srun", "-n", "4", *PROGRAM, str(tmp_path)], env=cluster)
    check_rows(tmp_path, 4)


def test_tasks_with_pmi_are_tasks_of_srun(cluster, tmp_path):
    run(["srun", "--mpi=pmi2", "-n", "3", *PROGRAM, str(tmp_path)], env=cluster)
    check_rows(tmp_path, 3)


def test_a_step_may_have_fewer_tasks_than_its_job(cluster, tmp_path):
    run(["salloc", "-n", "4", "srun", "-n", "3", *PROGRAM, str(tmp_path)], env=cluster)
    check_rows(tmp_path, 3)


def test_the_shell_of_a_job_is_not_a_task(cluster, tmp_path):
    with pytest.raises(AssertionError, match="no launcher started this process"):
        run(["salloc", "-n", "4", *PROGRAM, str(tmp_path)], env=cluster)
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\nexec {sys.executable} {JOB} {tmp_path}\n")
    with pytest.raises(AssertionError):
        run(["sbatch", "--wait", "-n", "4", "-o", str(tmp_path / "log"), str(script)], env=cluster)
    assert "no launcher started this process" in (tmp_path / "log").read_text()


def test_torchrun_under_srun_counts_alone(cluster, tmp_path):
    run(["srun", "-n", "1", *TORCHRUN, "--standalone", "--nproc-per-node=3", JOB, str(tmp_path)], env=cluster)
    check_rows(tmp_path, 3)


def test_mpirun_in_a_job_counts_alone(cluster, tmp_path):
    if shutil.which("mpirun.openmpi") is None:
        pytest.skip("mpirun.openmpi is not installed")
    mpirun = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "3"]
    run(["salloc", "-n", "3", *mpirun, *PROGRAM, str(tmp_path)], env=cluster)
    check_rows(tmp_path, 3)
