# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Python programs that find torch and this library imported, which takes two seconds otherwise: their processes are
forked from one that has done so. All else is as with `python -X faulthandler -c`: the interpreter is theirs, to its
end."""

import atexit
import functools
import io
import multiprocessing
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import torch_distinput as tdi

SERVER = "exec(*__import__('program_server').next_program())"


def python_path() -> str:
    """Where a process of its own finds the package under test, and what supports the tests."""
    return f"{Path(tdi.__file__).parents[1]}:{Path(__file__).parent}"


@functools.cache
def server() -> socket.socket:
    """Connected to a process that lives as long as this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", SERVER, str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        env=os.environ | {"PYTHONPATH": python_path()},
    )
    theirs.close()
    # In this order, the last first. A fork of this process, where hooks run, too, has no child that it would kill.
    atexit.register(process.wait)
    atexit.register(process.kill)
    return ours


class ForkedProgram:
    """A running program, with the methods of `subprocess.Popen` that tests call. `variables`: of the environment,
    besides those of this process."""

    def __init__(self, text: str, *arguments: str, **variables: str):
        self._connection, connection = multiprocessing.Pipe()
        outputs = [os.pipe(), os.pipe()]
        with connection:
            socket.send_fds(server(), [b"x"], [connection.fileno(), *(write for _, write in outputs)])
        for _, write in outputs:
            os.close(write)
        # Without buffers, in which `communicate` would not find what `readline` has read ahead.
        self.stdout, self.stderr = (io.FileIO(read) for read, _ in outputs)
        environment = os.environ | {"PYTHONPATH": python_path()} | variables
        self._connection.send((text, arguments, environment, os.getcwd()))
        self.pid: int = self._connection.recv()
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int | None:
        """The exit code, or None if there is none in time."""
        if self.returncode is None and self._connection.poll(timeout):
            self.returncode = self._connection.recv()
            self._connection.close()
        return self.returncode

    def poll(self) -> int | None:
        return self.wait(0)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """The rest of what the program writes, when it and the processes that write there, too, have ended. Raises
        `subprocess.TimeoutExpired`."""
        end = None if timeout is None else time.monotonic() + timeout
        texts = dict.fromkeys((self.stdout, self.stderr), b"")
        with selectors.DefaultSelector() as ready:
            for file in texts:
                ready.register(file, selectors.EVENT_READ)
            while ready.get_map():
                found = ready.select(None if end is None else max(0.0, end - time.monotonic()))
                for key, _ in found:
                    texts[key.fileobj] += (more := os.read(key.fd, 1 << 16))
                    if not more:
                        ready.unregister(key.fileobj)
                if not found:
                    raise subprocess.TimeoutExpired("a forked program", timeout)
        if self.wait(None if end is None else max(0.0, end - time.monotonic())) is None:
            raise subprocess.TimeoutExpired("a forked program", timeout)
        out, err = (text.decode() for text in texts.values())
        return out, err

    def close(self) -> None:
        """Ends the program where it runs. A second call does nothing."""
        self.kill()
        self.wait()
        self.stdout.close()
        self.stderr.close()
