# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Everything here needs a CUDA device: `make test-gpu`."""

from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    if torch.cuda.is_available():
        return
    for item in items:  # of the whole run, not of this folder alone
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.skip(reason="not measured: torch sees no CUDA device here"))
