# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The engine "processes": workers on this host, which answer in memory that is mapped here.

An answer has sealed memory of its own. Those whose tensors go to devices lie in slabs, which a worker writes to again
once it is told, with a request, that nothing views them here.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import itertools
import os
import selectors
import signal
import socket
import struct
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.reduction import DupFd
from typing import Any

import torch

from torch_distinput import _C
from torch_distinput.base._batch_format import Packed
from torch_distinput.base._sealed_memory import map_sealed, seal
from torch_distinput.base._start_method import default_context, start_explained
from torch_distinput.executors._answer_slabs import GivenSlabs, OwnSlabs
from torch_distinput.executors._engine import Answer, Event, Lost, Ready, Work
from torch_distinput.executors._server import Server

# Seconds that workers get to end when they are told to, and then after SIGTERM; and after this process has ended.
_GRACE = 0.5
_GRACE_AFTER_SIGNAL = 0.25

_REQUEST = struct.Struct("<QQQ")  # number of the call, slabs that are free, bytes that follow these
_ANSWER = struct.Struct("<QQ")  # number of the call and of the slab; a descriptor goes with it, of a slab once
_SLAB = struct.Struct("<Q")
_OWN = 2**64 - 1  # in place of a slab: memory of the answer's own
_FD = struct.Struct("i")
_ROOM, _FLAGS = socket.CMSG_SPACE(_FD.size), socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
_READY = 2**64 - 1  # in place of a call, and without a descriptor


@dataclass(frozen=True)
class _Worker:
    process: Any
    link: socket.socket
    slabs: GivenSlabs


class Processes:
    """Workers in processes of this host, at most one a CPU. `for_devices`: answers lie in slabs."""

    def __init__(self, work: Work, for_devices: bool = False):
        self._work, self._for_devices = work, for_devices
        self._owner = os.getpid()
        self._numbers = itertools.count()
        self._workers: dict[int, _Worker] = {}
        self._ending: list[Any] = []
        self._selector = selectors.DefaultSelector()
        _live.add(self)

    def room(self) -> int:
        return _C.available_cpus()

    def start(self) -> int:
        number, context = next(self._numbers), default_context()
        here, there = socket.socketpair()
        arguments = (_Link(there), self._work, self._owner, self._for_devices)
        process = context.Process(target=_run, args=arguments, daemon=True)
        try:
            with start_explained("a worker", "the pipeline", context.get_start_method()):
                process.start()
        except BaseException:
            here.close()
            raise
        finally:
            there.close()
        self._workers[number] = _Worker(process, here, GivenSlabs())
        self._selector.register(here, selectors.EVENT_READ, number)
        self._selector.register(process.sentinel, selectors.EVENT_READ, number)
        return number

    def stop(self, worker: int) -> None:
        process = self._let_go(worker)
        process.terminate()
        self._ending = [ended for ended in self._ending if ended.is_alive()] + [process]

    def ask(self, worker: int, call: int, request: bytes) -> None:
        free = self._workers[worker].slabs.freed()
        head = _REQUEST.pack(call, len(free), len(request)) + b"".join(map(_SLAB.pack, free))
        with contextlib.suppress(OSError):  # it has ended, which the next `wait` says
            self._workers[worker].link.sendall(head + request)

    def wait(self, seconds: float) -> list[Event]:
        seen = dict.fromkeys(key.data for key, _ in self._selector.select(seconds))
        return [event for worker in seen for event in self._events(worker)]

    def _events(self, worker: int) -> list[Event]:
        """What a worker has sent, and whether it has ended."""
        events: list[Event] = []
        link = self._workers[worker].link
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while True:
                head, beside, _, _ = link.recvmsg(_ANSWER.size, _ROOM, _FLAGS)
                if not head:
                    break
                call, slab = _ANSWER.unpack(head)
                descriptors = [_FD.unpack(data)[0] for _, _, data in beside]
                if call == _READY:
                    events.append(Ready(worker))
                elif slab == _OWN:
                    events.append(Answer(worker, call, map_sealed(*descriptors)))
                else:
                    memory = self._workers[worker].slabs.lent(slab, *descriptors)
                    events.append(Answer(worker, call, memory.numpy(), memory))
        if not self._workers[worker].process.is_alive():
            events.append(Lost(worker, _ending(self._let_go(worker))))
        return events

    def _let_go(self, worker: int) -> Any:
        gone = self._workers.pop(worker)
        self._selector.unregister(gone.link)
        self._selector.unregister(gone.process.sentinel)
        gone.link.close()
        return gone.process

    def close(self) -> None:
        if os.getpid() != self._owner:
            return  # a forked child has copies
        processes = self._ending
        for worker in self._workers.values():
            with contextlib.suppress(OSError):
                worker.link.shutdown(socket.SHUT_RDWR)
        processes += [self._let_go(worker) for worker in list(self._workers)]
        for stop, grace in ((None, _GRACE), ("terminate", _GRACE_AFTER_SIGNAL), ("kill", _GRACE)):
            deadline = time.monotonic() + grace
            for process in processes:
                if stop is not None and process.is_alive():
                    getattr(process, stop)()
            for process in processes:
                process.join(max(0.0, deadline - time.monotonic()))
        self._ending = []


class _Link:
    """A worker's end of its socket, as it is passed to the process."""

    def __init__(self, end: socket.socket):
        self._end = end

    def open(self) -> socket.socket:
        return self._end

    def __reduce__(self) -> tuple[Any, ...]:
        return _AttachedLink, (DupFd(self._end.fileno()),)


class _AttachedLink:
    """`_Link` in a process that was not forked."""

    def __init__(self, fd: Any):
        self._fd = fd

    def open(self) -> socket.socket:
        return socket.socket(fileno=self._fd.detach())


def _run(link: _Link | _AttachedLink, work: Work, owner: int, for_devices: bool) -> None:
    """What a worker does. Ctrl-C is for the process that it works for, and so is the garbage of that one."""
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _C.end_with_process(owner, os.getppid() == owner, _GRACE)
    torch.set_num_threads(1)
    end, server = link.open(), Server(work)
    give = _give_slab if for_devices else _give_sealed
    slabs = OwnSlabs()
    with contextlib.suppress(ConnectionError):  # who asked is gone
        end.sendall(_ANSWER.pack(_READY, _OWN))
        while head := _received(end, _REQUEST.size):
            call, free, size = _REQUEST.unpack(head)
            slabs.free(slab for (slab,) in _SLAB.iter_unpack(_received(end, free * _SLAB.size)))
            give(end, call, server.answer(_received(end, size)), slabs)


def _give_sealed(end: socket.socket, call: int, answer: Packed, _: OwnSlabs) -> None:
    fd = seal(answer)
    try:
        socket.send_fds(end, [_ANSWER.pack(call, _OWN)], [fd])
    finally:
        os.close(fd)


def _give_slab(end: socket.socket, call: int, answer: Packed, slabs: OwnSlabs) -> None:
    slab, fd = slabs.write(answer)
    socket.send_fds(end, [_ANSWER.pack(call, slab)], [] if fd is None else [fd])


def _received(end: socket.socket, size: int) -> bytes:
    """The next `size` bytes; none where the other end is closed."""
    found = bytearray()
    while len(found) < size:
        some = end.recv(size - len(found))
        if not some:
            return b""
        found += some
    return bytes(found)


def _ending(process: Any) -> str:
    process.join(_GRACE)
    code = process.exitcode
    if code is not None and code < 0:
        names = {known.value: known.name for known in signal.Signals}
        return f"process {process.pid} was killed by {names.get(-code, f'signal {-code}')}"
    return f"process {process.pid} ended with exit code {code}"


_live: weakref.WeakSet[Processes] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """At exit, multiprocessing would wait without end for a process that ignores SIGTERM."""
    for processes in list(_live):
        processes.close()


def open_processes(options: dict[str, Any]) -> Callable[[Work, bool], Processes]:
    """Raises ValueError for options: a process has none."""
    if options:
        raise ValueError(f'Executor: the engine "processes" has no `worker_options`, but got {options!r}.')
    return Processes
