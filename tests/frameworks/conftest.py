# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Settings of the tests against real frameworks: they take the processes of tests/python."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

import ranks

# Imported once for all processes, where they are there.
FRAMEWORKS = ["datasets", "lightning", "torchmetrics.classification"]
ranks._context.set_forkserver_preload(["torch.distributed", "torch_distinput", *FRAMEWORKS])

torch.set_num_threads(1)
