# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Servers and networks for the tests of remote data. Each lives as long as its test."""

import contextlib

import pytest
from object_server import ObjectServer
from relay import Relay


@pytest.fixture
def object_server():
    with ObjectServer() as server:
        yield server


@pytest.fixture
def relay_to():
    """Makes a relay to the server at a URL."""
    with contextlib.ExitStack() as relays:
        yield lambda url: relays.enter_context(Relay(url))


@pytest.fixture
def relay(object_server, relay_to):
    """A relay to the object server's http."""
    return relay_to(object_server.url("http"))
