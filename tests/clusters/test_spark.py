# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Spark's TorchDistributor, which runs torchrun in the tasks of a barrier stage."""

import os

import pytest
from launchers import HERE, PYTHON, check_rows, program_of_page, run


@pytest.mark.launcher("Spark")
def test_each_row_once_over_the_tasks_of_a_torch_distributor(tmp_path):
    env = os.environ | {"PYSPARK_PYTHON": str(PYTHON)}
    run([str(PYTHON), str(HERE / "spark_job.py"), str(tmp_path), "3"], limit=240, env=env)
    check_rows(tmp_path, 3, per_node=1)


@pytest.mark.launcher("Spark")
def test_the_program_of_the_page(tmp_path):
    session = "from pyspark.sql import SparkSession\nSparkSession.builder.master('local[2]').getOrCreate()\n"
    program = program_of_page("TorchDistributor").replace("num_processes=8", "num_processes=2")
    (tmp_path / "train.py").write_text(program_of_page("# train.py"))
    (tmp_path / "spark.py").write_text(session + program.replace("use_gpu=True", "use_gpu=False"))
    env = os.environ | {"PYSPARK_PYTHON": str(PYTHON)}
    said = run(["env", f"--chdir={tmp_path}", str(PYTHON), "spark.py"], limit=240, env=env)
    assert all(f"rank {rank} of 2 had 500 rows in 8 steps" in said for rank in range(2))
