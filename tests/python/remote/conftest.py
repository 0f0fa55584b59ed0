# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Servers for the tests of remote data. Each lives as long as its test."""

import pytest
from object_server import ObjectServer


@pytest.fixture
def object_server():
    with ObjectServer() as server:
        yield server
