# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Starts `job.py` by a TorchTrainer of Ray Train: `ray_job.py FOLDER WORKERS`."""

import sys

import ray
import ray.train
from job import read
from ray.train.torch import TorchTrainer


def main() -> None:
    folder, workers = sys.argv[1], int(sys.argv[2])
    ray.init(num_cpus=workers + 1, include_dashboard=False)
    TorchTrainer(
        lambda config: read(config["folder"]),
        train_loop_config={"folder": folder},
        scaling_config=ray.train.ScalingConfig(num_workers=workers),
        run_config=ray.train.RunConfig(storage_path=f"{folder}/ray"),
    ).fit()


if __name__ == "__main__":
    main()
