# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What runs in a worker process of this library's pool: torch's own loop, between rings in shared memory."""

import enum
import inspect
import os
import queue
from multiprocessing.reduction import DupFd
from typing import Any

import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import default_collate
from torch.utils.data._utils import fetch
from torch.utils.data._utils.collate import collate_tensor_fn, default_collate_fn_map
from torch.utils.data._utils.worker import _worker_loop

from torch_distinput import _C
from torch_distinput.base._messages import pickle_value, unpickle_value
from torch_distinput.loader.workers._packed import Arrived
from torch_distinput.loader.workers._stacks import offer_stack
from torch_distinput.recognize._fetch import NamingFetcher

# Seconds that a worker gets to clean up after its consumer has ended.
_GRACE = 0.5


class Place(enum.Enum):
    """Placeholders among the arguments of torch's loop: for the consumer's objects, and for those that were pickled
    once for all workers."""

    TASKS = enum.auto()
    RESULTS = enum.auto()
    DONE = enum.auto()
    PACKED = enum.auto()


class SharedMemory:
    """A pool's memory and its consumer's process id, as they are passed to a worker."""

    def __init__(self, consumer: _C.ConsumerEnd):
        self._consumer = consumer
        self.process = os.getpid()

    def open(self, worker: int) -> _C.WorkerEnd:
        """The end of `worker`, in a forked process."""
        return self._consumer.worker(worker)

    def __reduce__(self) -> tuple[Any, ...]:
        return _AttachedMemory, (DupFd(self._consumer.fd), self.process)


class _AttachedMemory:
    """`SharedMemory` in a process that was not forked."""

    def __init__(self, fd: Any, process: int):
        self._fd, self.process = fd, process

    def open(self, worker: int) -> _C.WorkerEnd:
        return _C.WorkerEnd(self._fd.detach(), worker, pickle_value, unpickle_value)


_end: _C.WorkerEnd | None = None
_registry: dict[Any, Any] = {}


def run_worker(
    memory: SharedMemory,
    worker: int,
    loop: Any,
    arguments: tuple[Any, ...],
    environment: dict[str, str] | None = None,
) -> None:
    """Runs torch's `loop` with the pool's rings in place of queues. Where the loop is an `Arrived`, that has the loop
    and the packed arguments. `environment`: replaces this process's, unless it is empty."""
    global _end, _registry
    _C.end_with_process(memory.process, os.getppid() == memory.process, _GRACE)
    _end = memory.open(worker)
    _end.announce(offer_stack())
    if environment:
        os.environ.clear()
        os.environ.update(environment)
    if isinstance(loop, Arrived):
        try:
            loop, *packed = loop.open()
        except Exception as error:  # noqa: BLE001 - unpickling imports and runs users' code
            loop, arguments = _worker_loop, _failing(arguments, error)
        else:
            values = iter(packed)
            arguments = tuple(next(values) if value is Place.PACKED else value for value in arguments)
    if default_collate_fn_map[torch.Tensor] is collate_tensor_fn:
        default_collate_fn_map[torch.Tensor] = _collate_tensors
    _registry = dict(default_collate_fn_map)
    fetch._MapDatasetFetcher = NamingFetcher  # type: ignore[misc]  # torch's loop makes it
    ends = {Place.TASKS: _Tasks(_end), Place.RESULTS: _Results(_end, worker), Place.DONE: _Done(_end)}
    loop(*(ends[value] if isinstance(value, Place) else value for value in arguments))


def _failing(arguments: tuple[Any, ...], error: Exception) -> tuple[Any, ...]:
    """Arguments of torch's loop with which the consumer gets `error`, which unpickling has raised here."""
    if hasattr(error, "add_note"):  # from Python 3.11 on
        error.add_note(
            "raised where a worker reads what was pickled for it: functions and classes must be in a module that it "
            'can import, which a notebook is not, unless `multiprocessing_context="fork"` is passed'
        )

    def fail(worker: int) -> None:
        raise error

    # torch 2.14 takes the dataset out of a list.
    bound = inspect.signature(_worker_loop).bind(*([None] if value is Place.PACKED else value for value in arguments))
    bound.arguments["init_fn"] = fail
    return bound.args


def collate_into_message(samples: list[Any]) -> Any:
    """torch's default_collate, where possible straight into shared memory."""
    if _end is not None and default_collate_fn_map == _registry:
        collated = _end.collate(samples)
        if collated is not None:
            return collated
    return default_collate(samples)


def _collate_tensors(batch: list[Any], *, collate_fn_map: Any = None) -> torch.Tensor:
    """torch's function for tensors, without shared memory for the batch: the message has it."""
    first = batch[0]
    if type(first) is not torch.Tensor or first.is_nested or first.layout is not torch.strided or not first.is_cpu:
        return collate_tensor_fn(batch, collate_fn_map=collate_fn_map)
    return torch.stack(batch, 0, out=first.new_empty((len(batch), *first.shape)))


class _Tasks:
    """Stands for the queue of indices."""

    def __init__(self, end: _C.WorkerEnd):
        self._end = end

    def get(self, timeout: float) -> Any:
        task = self._end.receive(timeout)
        if task is None:
            raise queue.Empty
        return task[0]


class _Results:
    """Stands for the queue of batches."""

    def __init__(self, end: _C.WorkerEnd, worker: int):
        self._end, self._worker = end, worker

    def put(self, result: tuple[Any, Any]) -> None:
        task, data = result
        try:
            self._end.send(task, data)
        except Exception as error:  # noqa: BLE001 - pickling runs users' code
            self._end.send(task, self._unsendable(data, error))

    def _unsendable(self, data: Any, error: Exception) -> ExceptionWrapper:
        """The error that the consumer gets instead of `data`. Neither type need be known there."""
        where = f"in DataLoader worker process {self._worker}"
        if not isinstance(data, ExceptionWrapper):
            data = ExceptionWrapper((type(error), error, error.__traceback__), where)
        try:
            pickle_value(data, None)
        except Exception:  # noqa: BLE001 - see above
            data.exc_type = RuntimeError
        return data

    def cancel_join_thread(self) -> None:
        """There is no thread."""

    def close(self) -> None:
        """The memory ends with the process."""


class _Done:
    """Stands for the event that ends all workers."""

    def __init__(self, end: _C.WorkerEnd):
        self._end = end

    def is_set(self) -> bool:
        return self._end.stopped
