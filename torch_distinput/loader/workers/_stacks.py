# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Python stacks of processes that may hang: faulthandler writes them in a signal's handler, whatever else runs."""

import faulthandler
import os
import signal
import time

_SIGNAL = signal.SIGRTMIN + 7  # one that neither Python, torch nor CUDA's tools use
_FILE = "torch_distinput_stack"
_LIMIT = 0.5  # seconds for the whole stack to arrive
_PAUSE = 0.02  # after which a stack that does not grow has arrived


def offer_stack() -> int:
    """Lets other processes of this user call `stack_of` for this one, with the returned descriptor."""
    descriptor = os.memfd_create(_FILE)
    faulthandler.register(_SIGNAL, file=descriptor, all_threads=True)
    return descriptor


def stack_of(process: int, descriptor: int) -> str:
    """The Python stacks of all threads of `process`, innermost calls first, or why there are none."""
    path = f"/proc/{process}/fd/{descriptor}"
    try:
        if descriptor < 0:
            return "not asked for, because the process has only begun"
        if not os.path.exists(f"/proc/{process}"):
            return "not known, because the process has ended"
        if not os.path.lexists(path) or not os.readlink(path).startswith(f"/memfd:{_FILE}"):
            return "not known, because the process has closed its descriptors"
        if not _catches(process):
            return f"not known, because the process has no handler of signal {_SIGNAL} any more"
        if state_of(process) in "Tt":
            return "not known, because the process is stopped"
        return _ask(process, path)
    except OSError as error:
        return f"not known ({error})"


def state_of(process: int) -> str:
    """The letter for what `process` does now, as ps shows it: "R", "S", "D", "T", ... Raises OSError if it is gone."""
    with open(f"/proc/{process}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def _ask(process: int, path: str) -> str:
    with open(path, "rb") as file:
        file.seek(0, os.SEEK_END)
        os.kill(process, _SIGNAL)
        text, end = b"", time.monotonic() + _LIMIT
        while time.monotonic() < end:
            time.sleep(_PAUSE)
            arrived = file.read()
            if text and not arrived:
                break
            text += arrived
    return text.decode(errors="replace").rstrip() or "not known, because the process does not answer"


def _catches(process: int) -> bool:
    """Whether `process` has a handler: the signal would end it otherwise."""
    with open(f"/proc/{process}/status") as file:
        (mask,) = (line.split()[1] for line in file if line.startswith("SigCgt:"))
    return bool(int(mask, 16) >> (_SIGNAL - 1) & 1)
