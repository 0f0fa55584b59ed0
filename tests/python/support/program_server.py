# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The process that programs are forked from: it has imported torch and this library, and nothing else has happened in
it. `forked_programs` starts it, with a socket as its argument."""

import contextlib
import gc
import os
import selectors
import socket
import sys
from multiprocessing.connection import Connection
from types import CodeType, ModuleType
from typing import Any

import torch  # noqa: F401 - for the programs

import torch_distinput  # noqa: F401 - for the programs


def next_program() -> tuple[CodeType, dict[str, Any]]:
    """Forks a process for each program that is asked for, and returns there, with the program and its names: so it is
    the rest of a main program, after which the interpreter ends as always. Where nobody can ask any more, the process
    ends."""
    gc.collect()
    gc.freeze()  # or each end of an interpreter looks at all that torch has made
    asked = socket.socket(fileno=int(sys.argv[1]))
    running: dict[int, tuple[int, Connection]] = {}  # by the descriptor that tells the end
    ready = selectors.DefaultSelector()
    ready.register(asked, selectors.EVENT_READ)
    while True:
        for key, _ in ready.select():
            if key.fileobj is not asked:
                process, connection = running.pop(key.fd)
                ready.unregister(key.fd)
                os.close(key.fd)
                _tell(connection, os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
                connection.close()
                continue
            _, descriptors, _, _ = socket.recv_fds(asked, 1, 3)
            if not descriptors:
                os._exit(0)
            asking, *outputs = descriptors
            connection, process = Connection(asking), os.fork()
            if process == 0:
                asked.close()
                ready.close()
                for end, (_, other) in running.items():
                    os.close(end)
                    other.close()
                return _entered(connection, *outputs)
            for output in outputs:
                os.close(output)
            _tell(connection, process)
            end = os.pidfd_open(process)
            running[end] = (process, connection)
            ready.register(end, selectors.EVENT_READ)


def _tell(connection: Connection, number: int) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more
        connection.send(number)


def _entered(connection: Connection, stdout: int, stderr: int) -> tuple[CodeType, dict[str, Any]]:
    """Makes this the process that was asked for, and returns its program and the names of its main module, a new one
    under both names that multiprocessing knows: Python 3.14 does not free what one that was frozen holds."""
    with connection:
        text, arguments, environment, folder = connection.recv()
    for own, standard in ((stdout, 1), (stderr, 2)):
        os.dup2(own, standard)
        os.close(own)
    sys.argv[1:] = arguments
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    main = sys.modules["__main__"] = sys.modules["__mp_main__"] = ModuleType("__main__")
    return compile(text, "<string>", "exec"), vars(main)
