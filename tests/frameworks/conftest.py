# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Settings of the tests against real frameworks: they take the processes of tests/python/support."""

import os
import sys

import pytest
import ranks
import torch

# A source tree of torchtitan's that the tests run with, instead of an installed release; for processes of theirs, too.
if TORCHTITAN := os.environ.get("TDI_TORCHTITAN"):
    sys.path.insert(0, TORCHTITAN)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [TORCHTITAN, os.environ.get("PYTHONPATH")]))

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _frameworks_preloaded():
    with ranks.frameworks_preloaded():
        yield
