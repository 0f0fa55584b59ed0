# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Programs in a process of their own, and what processes hold: threads, descriptors, memory."""

import contextlib
import gc
import os
import select
import signal
import subprocess
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forked_programs import ForkedProgram, server

from torch_distinput.base._start_method import default_context

# Twice what is promised, and some for a machine that has other work to do.
SOON = 4.0


def run_script(body, timeout=60):
    """Runs a program, which knows the library as `tdi`, in a process of its own, to the end of its interpreter."""
    script = "import pools, torch_distinput as tdi\npools.take_asked_pool()\n" + textwrap.dedent(body)
    program = ForkedProgram(script)
    try:
        out, err = program.communicate(timeout)
    finally:
        program.close()
    return subprocess.CompletedProcess(program.pid, program.returncode, out, err)


def library_threads():
    """The library's threads that run Python; those of the arena stay for the life of the process.

    The system lists a thread for a moment after it was joined, while it exits (the kernel's PF_EXITING).
    """
    names = []
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/stat") as file:
                head, _, fields = file.read().rpartition(") ")
        except (FileNotFoundError, ProcessLookupError):
            continue
        exiting = int(fields.split()[6]) & 0x4
        names += [] if exiting else [head.partition("(")[2]]
    return [name for name in names if name in ("tdi-interleave", "tdi-pool", "tdi-map", "tdi-prefetch")]


def library_threads_end(within=20):
    """Whether they have ended within so many seconds: who drops an iterator waits for a second at most."""
    deadline = time.monotonic() + within
    while library_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    return library_threads() == []


@contextlib.contextmanager
def ctrl_c_ends(after):
    """Expects that the body is ended by a Ctrl-C that comes after so many seconds."""
    timer = threading.Timer(after, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        yield
    timer.join()


def is_alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(condition, limit=SOON):
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.005)


def becomes_true(condition):
    """Collects until it is. A call on another thread is a reference, so this may take more collections; one that began
    when the weak references were gone already keeps an object for the next."""
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        gc.collect()
    return condition()


def least(limit, seconds, tries=10):
    """The least that `seconds()` returns, which is called again while other programs may have made it too long."""
    took = seconds()
    for _ in range(tries - 1):
        if took < limit:
            break
        took = min(took, seconds())
    return took


def descriptors():
    return len(open_files())


def open_files():
    """The descriptors of this process, each with what it is of."""
    # What stays would come in between: the servers of `run_script` and, where processes start by one, of forks.
    server()
    default_context()
    folder, found = Path("/proc/self/fd"), set()
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):  # that of the list itself
            found.add(f"{name}: {os.readlink(folder / name)}")
    return found


def mappings():
    return sum("memfd:torch_distinput" in line for line in Path("/proc/self/maps").read_text().splitlines())


def resident() -> int:
    """The bytes of memory that this process has."""
    return _bytes("VmRSS")


def _bytes(name: str) -> int:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) << 10


def peak_rise(call: Callable[[], Any]) -> int:
    """Calls `call` and returns by how many bytes this process grew meanwhile, at most. Skips the test where the kernel
    cannot begin a new peak."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError as error:
        pytest.skip(f"no peak of memory can be measured: {error}")
    before = resident()
    call()
    return max(_bytes("VmHWM") - before, 0)


def in_child(body: Callable[[], Any], limit: float = 60) -> str:
    """What `body` returns in a forked child, or what it raises, as text. A child that does not end in time is killed:
    TimeoutError."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = str(body())
        except BaseException as error:  # noqa: BLE001 - it is the result
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        ended, _, _ = select.select([pipe], [], [], limit)
        if not ended:
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if not ended:
            raise TimeoutError(f"a forked child was not done in {limit} s")
        return pipe.read()
