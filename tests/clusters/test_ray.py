# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Ray Train's TorchTrainer, which makes the group itself."""

import os

import pytest
from launchers import HERE, PYTHON, check_rows, program_of_page, run


@pytest.mark.launcher("Ray Train")
def test_each_row_once_over_the_workers_of_a_torch_trainer(tmp_path):
    env = os.environ | {"PYTHONPATH": str(HERE), "RAY_USAGE_STATS_ENABLED": "0"}
    run([str(PYTHON), str(HERE / "ray_job.py"), str(tmp_path), "3"], limit=240, env=env)
    check_rows(tmp_path, 3)


@pytest.mark.launcher("Ray Train")
def test_the_program_of_the_page():
    program = program_of_page("TorchTrainer").replace("num_workers=8, use_gpu=True", "num_workers=2")
    said = run([str(PYTHON), "-c", program], limit=240, env=os.environ | {"RAY_USAGE_STATS_ENABLED": "0"})
    assert all(f"rank {rank} had 500 rows" in said for rank in range(2))
