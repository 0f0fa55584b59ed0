# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Everything here needs a CUDA device: `make test-gpu`."""

import pytest
import torch


def pytest_collection_modifyitems(items):
    if torch.cuda.is_available():
        return
    for item in items:
        item.add_marker(pytest.mark.skip(reason="not measured: torch sees no CUDA device here"))
