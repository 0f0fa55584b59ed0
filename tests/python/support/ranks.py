# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Real processes with a gloo group, for tests: `run_ranks(function, world)`, and examples: `run_example(name)`.

Processes are forked from a server that has imported torch and what tests need once, so that a group of them starts in
a twentieth of a second. They fork their own worker processes: a server of forks for each rank, Python 3.14's default,
would import torch as often. Examples start theirs as they do in a process of torchrun's.
Their store is a file: no ports are chosen, and no process has to live longer than others. A frozen process may hold
the lock of the file, and one that ends may leave half a record in it, which torch's readers never finish. So a process
that does not fail stays until all have their results, and a test that freezes or kills one asks for a store in this
process, as torchrun's agent has one; a test in which the store must end asks for one in rank 0. Both are at a port that
the system chooses.
"""

import contextlib
import faulthandler
import multiprocessing
import os
import pickle
import runpy
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from multiprocessing import connection, forkserver
from pathlib import Path
from typing import Any
from unittest import mock

import pools
import torch
import torch.distributed as dist
from network_hosts import Network
from places import EXAMPLES

import torch_distinput as tdi

_context = multiprocessing.get_context("forkserver")
_PRELOADED = ["torch.distributed", "torch._dynamo"]
_PRELOADED += ["torch_distinput", "pytest", "hypothesis"]
_context.set_forkserver_preload(_PRELOADED)

# What examples and the tests of frameworks import, which takes seconds, where it is installed. To fork a process that
# has it takes 25 ms of CPU, not 10, so that it is in a server of its own.
_FRAMEWORKS = ["accelerate", "datasets", "lightning", "torchmetrics.classification", "transformers.trainer"]
_with_frameworks = forkserver.ForkServer()
_with_frameworks.set_forkserver_preload([*_PRELOADED, "sklearn.datasets", *_FRAMEWORKS])

# The result of a process that ended without one, because a test killed it or it crashed.
GONE = "gone"
# The result of a process that was killed at the time limit.
LATE = "late"


@contextlib.contextmanager
def frameworks_preloaded() -> Iterator[None]:
    """Lets the processes that start meanwhile be forked from the server that has imported the frameworks."""
    with mock.patch.object(forkserver, "connect_to_new_process", _with_frameworks.connect_to_new_process):
        yield


def run_ranks(
    function: Callable[..., Any],
    world: int,
    *args: Any,
    limit: float = 60,
    may_hang: tuple[int, ...] = (),
    store: str = "file",
    may_fork: bool = False,
    backend: str = "gloo",
    per_host: int | None = None,
    network: Network | None = None,
    **env: str,
) -> list[Any]:
    """Calls `function(rank, *args)` in `world` processes with an initialised group; the results by rank.

    An exception in a process is its result, with the traceback as a note. A process that has not ended after `limit`
    seconds is killed; the test fails unless its rank is in `may_hang`: those are not waited for. `store`: "file",
    "agent" or "rank 0". `may_fork`: the processes may have children. `backend`: of the group; "fake" has no connections
    between the ranks. `per_host`: ranks of one host; None: all. `network`: where the hosts are; the store is then in
    rank 0. `env` goes into the processes' environment.
    """
    with tempfile.TemporaryDirectory() as folder:
        agent = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False) if store == "agent" else None
        where = agent.port if agent else os.path.join(folder, "store")
        pipes, processes = [], []
        for rank in range(world):
            ours, theirs = _context.Pipe()
            host = {} if per_host is None else {"TDI_HOST_ID": f"node{rank // per_host}"}
            home = None if network is None else (network, rank // (per_host or world))
            setting = (store, where, rank, world, backend, home, pools.asked_pool() | host | env)
            process = _context.Process(target=_main, args=(theirs, setting, function, args), daemon=not may_fork)
            process.start()
            theirs.close()
            pipes.append(ours)
            processes.append(process)
        deadline = time.monotonic() + limit
        try:
            waited = {rank: _result(pipes[rank], deadline) for rank in range(world) if rank not in may_hang}
            results = [waited[rank] if rank in waited else _result(pipes[rank], 0) for rank in range(world)]
            for rank, process in enumerate(processes):
                if results[rank] == LATE and rank not in may_hang:
                    _show_stacks(process)
        finally:
            for pipe, process in zip(pipes, processes):
                pipe.close()
                process.kill()
                process.join()
    late = [rank for rank, result in enumerate(results) if result == LATE and rank not in may_hang]
    assert not late, f"ranks {late} of {world} had not ended after {limit} s"
    return results


def returned(results: list[Any]) -> list[Any]:
    """The results; raises the first that is an exception."""
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


def _result(pipe: Any, deadline: float) -> Any:
    if not pipe.poll(max(0.0, deadline - time.monotonic())):
        return LATE
    try:
        return pickle.loads(pipe.recv_bytes())
    except EOFError:
        return GONE


def _show_stacks(process: Any) -> None:
    """Lets a process that is late write the stacks of its Python threads to stderr."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGUSR1)
        process.join(1)


def _main(pipe: Any, setting: tuple, function: Callable, args: tuple) -> None:
    kind, where, rank, world, backend, home, env = setting
    if home is not None:
        home[0].enter(home[1])
    faulthandler.register(signal.SIGUSR1)
    multiprocessing.set_start_method("fork", force=True)
    os.environ.update(env)
    pools.take_asked_pool()
    if kind == "file":
        store = dist.FileStore(where, world)
    elif kind == "agent":
        store = dist.TCPStore("127.0.0.1", where, is_master=False)
    else:
        store = _store_in_rank_0(where, rank, "127.0.0.1" if home is None else home[0].addresses[0])
    if backend == "fake":
        import torch.testing._internal.distributed.fake_pg  # noqa: F401 - it registers the backend
    dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=timedelta(seconds=60))
    try:
        result = function(rank, *args)
    except Exception as error:  # noqa: BLE001 - it is the result
        result = _picklable(error, f"in rank {rank}:\n{traceback.format_exc()}")
    with contextlib.suppress(OSError):
        # multiprocessing itself would pass tensors in memory that ends with this process.
        pipe.send_bytes(pickle.dumps(result))
        if not isinstance(result, Exception):  # as a program that fails, it ends, and its connections with it
            with contextlib.suppress(EOFError):
                pipe.recv_bytes()  # returns when the test's process has all results


def _store_in_rank_0(file: str, rank: int, address: str) -> dist.TCPStore:
    """A store in rank 0. A FileStore tells the other ranks its port, and lets them wait for it."""
    ports = dist.FileStore(file, -1)
    if rank == 0:
        store = dist.TCPStore(address, 0, is_master=True, wait_for_workers=False)
        ports.set("port", str(store.port))
        return store
    return dist.TCPStore(address, int(ports.get("port")), is_master=False)


def _picklable(error: Exception, note: str) -> Exception:
    """The error without objects that only its process has: type, text and notes remain."""
    plain = type(error)(str(error))
    plain.__notes__ = [*getattr(error, "__notes__", ()), note]  # add_note came with Python 3.11
    return plain


def run_example(name: str, *arguments: str, world: int | None = None) -> str:
    """What an example prints, in a forked process; `world`: in so many processes, with the variables and the store that
    torchrun's agent gives them, but forked from the server: an agent has threads, whose locks a fork may get."""
    store = None if world is None else dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder, f"{rank}.log") for rank in range(world or 1)]
        processes = []
        for rank, log in enumerate(logs):
            env = {} if store is None else _torchrun_variables(rank, len(logs), store.port)
            given = (log, env, str(EXAMPLES / name), *arguments)
            processes.append(_context.Process(target=_logged, args=given))
        try:
            with frameworks_preloaded():
                for process in processes:
                    process.start()
            _wait_for_all(processes, limit=120)
            codes = [process.exitcode for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.join()
        output = "".join(log.read_text() for log in logs if log.exists())
    assert codes == [0] * len(codes), f"exit codes {codes}:\n{output}"
    return output


def _wait_for_all(processes: list[Any], limit: float) -> None:
    """Returns when all have ended, one of them has failed, or `limit` seconds are over."""
    deadline = time.monotonic() + limit
    running = {process.sentinel: process for process in processes}
    while running:
        ended = connection.wait(list(running), max(0.0, deadline - time.monotonic()))
        if not ended or any(running.pop(sentinel).exitcode for sentinel in ended):
            return


def _torchrun_variables(rank: int, world: int, port: int) -> dict[str, str]:
    ranks = dict.fromkeys(["RANK", "LOCAL_RANK", "ROLE_RANK"], rank)
    sizes = dict.fromkeys(["WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE"], world)
    node = {"GROUP_RANK": 0, "GROUP_WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    elastic = {"RESTART_COUNT": 0, "MAX_RESTARTS": 0, "RUN_ID": "example", "USE_AGENT_STORE": True}
    given = ranks | sizes | node | {f"TORCHELASTIC_{name}": value for name, value in elastic.items()}
    return {name: str(value) for name, value in given.items()}


def _logged(log: Path, env: dict[str, str], file: str, *arguments: str) -> None:
    with log.open("wb") as opened:
        os.dup2(opened.fileno(), 1)
        os.dup2(opened.fileno(), 2)
    os.environ.update(env)
    _run_as_main(file, *arguments)


def _run_as_main(file: str, *arguments: str) -> None:
    # By the system's method, not by that of the server.
    multiprocessing.set_start_method(multiprocessing.get_all_start_methods()[0], force=True)
    torch.set_num_threads(1)
    # The package under test, also where it is not installed, for programs that the example starts.
    path = [str(Path(tdi.__file__).parents[1]), os.environ.get("PYTHONPATH")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    sys.argv = [file, *arguments]
    runpy.run_path(file, run_name="__main__")
    sys.stdout.flush()
