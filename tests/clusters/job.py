# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The program that launchers start: `job.py FOLDER` reads a small dataset and leaves what this rank saw in FOLDER."""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import TensorDataset

import torch_distinput as tdi

ROWS = 103  # neither the number of processes nor the batch divides it


def read(folder: str) -> None:
    group = tdi.process_group_from_env()
    rows = TensorDataset(torch.arange(ROWS))
    loader = tdi.DataLoader(rows, batch_size=4, shuffle=True, distributed=True)
    report = {
        "size": group.size(),
        "local_rank": dist.get_node_local_rank(),
        "epochs": [[batch[0].tolist() for batch in loader] for _ in range(2)],
    }
    Path(folder, f"rank{group.rank()}.json").write_text(json.dumps(report))


if __name__ == "__main__":
    read(sys.argv[1])
    dist.destroy_process_group()
