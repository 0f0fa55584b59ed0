# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Tables of Arrow for tests, and their rows as plain values."""

import numpy as np
import pytest
import torch

pa = pytest.importorskip("pyarrow")


def plain(value):
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return value.tolist() if isinstance(value, torch.Tensor) else value


def numbers(batches, name="i"):
    return [number for batch in batches for number in batch[name].tolist()]


def mixed(rows=23, chunk=5):
    table = pa.table(
        {
            "x": np.arange(rows, dtype=np.float32),
            "s": [f"row {i}" for i in range(rows)],
            "l": [[i, i + 1] for i in range(rows)],
        }
    )
    return pa.Table.from_batches(table.to_batches(max_chunksize=chunk))
