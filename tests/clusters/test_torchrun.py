# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""torchrun on two nodes of one machine, and with Kubeflow's variables alone."""

import os

import pytest
from launchers import JOB, TORCHRUN, check_rows, free_port, output_of, program_of_page, run, start


@pytest.mark.launcher("torchrun")
def test_each_row_once_on_one_node(tmp_path):
    run([*TORCHRUN, "--standalone", "--nproc-per-node=3", JOB, str(tmp_path)])
    check_rows(tmp_path, 3)


@pytest.mark.launcher("torchrun")
def test_the_program_of_the_page(tmp_path):
    (tmp_path / "train.py").write_text(program_of_page("# train.py"))
    said = run([*TORCHRUN, "--standalone", "--nproc-per-node=2", str(tmp_path / "train.py")])
    assert all(f"rank {rank} of 2 had 500 rows in 8 steps" in said for rank in range(2))


@pytest.mark.launcher("Kubeflow's variables")
def test_torchrun_needs_no_arguments_beside_kubeflows_variables(tmp_path):
    """The contract with Kubeflow's trainer: it sets these five in each pod."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    job = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "2", "PET_MASTER_ADDR": "localhost", "PET_MASTER_PORT": free_port()}
    pods = [start([*TORCHRUN, JOB, str(tmp_path)], inherited | job | {"PET_NODE_RANK": str(node)}) for node in range(2)]
    for pod in pods:
        output_of(pod)
    check_rows(tmp_path, 4, per_node=2)


@pytest.mark.launcher("Kubeflow's variables")
def test_a_program_in_such_a_pod_without_torchrun_is_told_so(tmp_path):
    with pytest.raises(AssertionError, match="PET_NNODES=2 is an argument of torchrun"):
        run([TORCHRUN[0], JOB, str(tmp_path)], env=os.environ | {"PET_NNODES": "2", "PET_NODE_RANK": "0"})
