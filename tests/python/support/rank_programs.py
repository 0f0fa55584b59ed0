# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Programs of ranks that several test modules run."""

import torch

import torch_distinput as tdi

ROWS = 10_000


def counts(rank, streams):
    """The rows of this rank, and its steps."""
    strategy = tdi.MultiWorkerMirroredStrategy()
    if streams:
        own = tdi.Dataset.range(rank, ROWS // 10, 7).batch(3)
        steps = strategy.distribute_datasets_from_function(lambda context: own)
    else:
        steps = strategy.distribute_dataset(tdi.Dataset.range(ROWS).batch(64))
    parts = [part.values[0] for part in steps]
    return torch.cat(parts).tolist(), len(parts)


def wanted_rows(world, streams):
    """The rows of all ranks of `counts`, in order."""
    return sorted(row for rank in range(world) for row in range(rank, ROWS // 10, 7)) if streams else list(range(ROWS))
