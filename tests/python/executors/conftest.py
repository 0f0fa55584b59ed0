# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What tests of executors share."""

import pytest
from child_processes import children


@pytest.fixture
def own_children():
    """The processes that the test has started and that run."""
    before = children()
    return lambda: children() - before
