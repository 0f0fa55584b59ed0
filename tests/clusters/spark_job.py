# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Starts `job.py` by Spark's TorchDistributor: `spark_job.py FOLDER PROCESSES`."""

import sys
from pathlib import Path

from pyspark.ml.torch.distributor import TorchDistributor
from pyspark.sql import SparkSession


def main() -> None:
    folder, processes = sys.argv[1], int(sys.argv[2])
    settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.local.dir": f"{folder}/spark"}
    session = SparkSession.builder.master(f"local[{processes}]").config(map=settings).getOrCreate()
    job = str(Path(__file__).with_name("job.py"))
    TorchDistributor(num_processes=processes, local_mode=False, use_gpu=False).run(job, folder)
    session.stop()


if __name__ == "__main__":
    main()
