# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Servers and networks for the tests of remote data; none keeps anything from one test to the next."""

import contextlib
import os

import pytest
import real_servers
from certificates import make_certificate
from object_server import S3_KEY, S3_SECRET, ObjectServer
from relay import Relay
from remote_store import RemoteStore

_VARIABLES = ("AWS_", "AZURE_", "CLOUDSDK_", "GOOGLE_", "HF_", "STORAGE_EMULATOR_HOST", "XDG_CACHE_HOME")


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch, tmp_path_factory):
    """Nobody has credentials or settings in the environment or at home."""
    for name in os.environ:
        if name.startswith(_VARIABLES):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path_factory.getbasetemp() / "nobody"))


class _Server:
    """A new server for each test, in one process as long as that runs."""

    def __init__(self):
        self._server = None

    def anew(self):
        if self._server is None or not self._server.is_running():
            self._server = ObjectServer()
        else:
            self._server.restart()
        return self._server

    def close(self):
        if self._server is not None:
            self._server.close()


@pytest.fixture(scope="session")
def _server():
    server = _Server()
    yield server
    server.close()


@pytest.fixture
def object_server(_server):
    return _server.anew()


@pytest.fixture(params=["http", "s3"])
def store(request, object_server):
    """A folder of the object server as users read it."""
    return RemoteStore(object_server, request.param)


@pytest.fixture
def s3_store(object_server):
    return RemoteStore(object_server, "s3")


@pytest.fixture
def http_store(object_server):
    return RemoteStore(object_server, "http")


@pytest.fixture
def certificate(tmp_path):
    """For a server of this machine: `ObjectServer(certificate=certificate.chain)`."""
    return make_certificate(tmp_path)


@pytest.fixture
def tls_object_server(certificate):
    """As `object_server`, over TLS. Clients trust it with SSL_CERT_FILE set to `certificate.authority`."""
    with ObjectServer(certificate=certificate.chain) as server:
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


# Servers of others; the test is skipped where one is not installed.


@pytest.fixture
def moto_server():
    with real_servers.moto() as server:
        yield server


@pytest.fixture
def rclone_server(tmp_path):
    """Knows the object server's S3_KEY."""
    with real_servers.rclone_s3(tmp_path, S3_KEY, S3_SECRET) as server:
        yield server


@pytest.fixture
def gcs_emulator():
    with real_servers.gcs_emulator() as server:
        yield server


@pytest.fixture
def nginx(tmp_path):
    with real_servers.nginx(tmp_path) as server:
        yield server
