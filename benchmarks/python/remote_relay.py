# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The network of the remote benchmark: `benchmarks/cpp/relay.cpp`, compiled at the first use.

The relay of the tests can do more, and brings less: it would be what is measured.
"""

import atexit
import functools
import os
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

SOURCE = Path(__file__).resolve().parents[1] / "cpp" / "relay.cpp"


@functools.cache
def program() -> Path:
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    output = Path(folder.name) / "relay"
    subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-O2", str(SOURCE), "-o", output], check=True)
    return output


class Relay:
    """A relay to the server at `url`, in a process of its own, which ends with this one. Use it in a `with`."""

    def __init__(self, url: str):
        parts = urlsplit(url)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen([program(), str(parts.port)], **pipes)
        self.url = f"{parts.scheme}://127.0.0.1:{int(self._process.stdout.readline())}"

    def __enter__(self) -> "Relay":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()

    def shape(self, *, latency: float = 0.0, bandwidth: float = 0.0, total_bandwidth: float = 0.0) -> int:
        """What holds for all that is received from now on: `latency` in each direction (seconds), `bandwidth` of each
        connection and of all together, in each direction (bytes a second; 0: as much as there is). Returns the bytes
        that the server has sent until then."""
        self._process.stdin.write(f"{latency} {bandwidth} {total_bandwidth}\n")
        self._process.stdin.flush()
        told = self._process.stdout.readline()
        if not told:
            raise RuntimeError("the relay has ended")
        return int(told)
