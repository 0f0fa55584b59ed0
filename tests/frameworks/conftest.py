# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Settings of the tests against real frameworks: they take the processes of tests/python/support."""

import ranks
import torch

# Their imports take seconds; processes are forked from one that has made them, where they are there.
FRAMEWORKS = ["accelerate", "datasets", "lightning", "torchmetrics.classification", "transformers.trainer"]
ranks._context.set_forkserver_preload([*ranks.PRELOADED, *FRAMEWORKS])

torch.set_num_threads(1)
