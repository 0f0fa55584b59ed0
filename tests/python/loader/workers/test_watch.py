# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What errors and warnings say about workers that hang or have died."""

import faulthandler
import itertools
import os
import signal
import socket
import time
from pathlib import Path

import pytest
from processes import is_alive, wait_until
from torch_datasets import loader_of, processes_of

from torch_distinput.loader.workers import _memory as memory
from torch_distinput.loader.workers import _stacks as stacks
from torch_distinput.loader.workers import _watch as watch

HOST = socket.gethostname()


def waits_in_python(row):
    while row == 9:
        pass


def waits_in_sleep(row):
    if row == 9:
        time.sleep(100)


def waits_in_c_with_the_lock(row):
    if row == 9:
        sum(itertools.repeat(0))


def error_of(iterator):
    with pytest.raises(RuntimeError) as caught:
        while True:
            next(iterator)
    return str(caught.value)


@pytest.mark.parametrize("act", [waits_in_python, waits_in_sleep, waits_in_c_with_the_lock])
@pytest.mark.parametrize("method", ["fork", pytest.param("forkserver", marks=pytest.mark.slow)])
def test_a_timeout_names_the_batch_the_worker_and_its_stack(act, method):
    limit = 3 if method == "fork" else 10  # processes begin within it on a machine with other work, too
    iterator = iter(loader_of(act, timeout=limit, multiprocessing_context=method))
    process = processes_of(iterator)[0]
    lines = error_of(iterator).splitlines()
    assert lines[0].startswith(f"DataLoader timed out after {limit}")
    assert lines[1].startswith(f"Worker 0 (pid {process} on {HOST}) has been at batch 2 (rows 8, 9, 10, 11) for ")
    assert "most recent call first" in lines[2]
    assert f" in {act.__name__}" in lines[3]
    assert " in run_worker" in lines[-1]


def test_a_stopped_worker_is_named_without_a_stack():
    iterator = iter(loader_of(size=4000, timeout=3))
    next(iterator)
    wait_until(lambda: iterator._pool.end.activity(1)[0])
    os.kill(processes_of(iterator)[1], signal.SIGSTOP)
    text = error_of(iterator)
    assert text.startswith("DataLoader timed out after 3 seconds\nWorker 1 (pid ")
    assert "is stopped by a signal. Its Python stack:\nnot known, because the process is stopped" in text


def closes_descriptors(row):
    if row == 9:
        os.closerange(3, 1024)
        time.sleep(100)


def removes_the_handler(row):
    if row == 9:
        faulthandler.unregister(stacks._SIGNAL)
        time.sleep(100)


@pytest.mark.parametrize("act", [closes_descriptors, removes_the_handler])
def test_a_worker_that_cannot_be_asked_is_not_harmed(act):
    # A process that has just been forked may need a second to begin, on a machine with other work.
    iterator = iter(loader_of(act, timeout=3, multiprocessing_context="fork"))
    text = error_of(iterator)
    assert "Its Python stack:\nnot known, because the process has" in text
    assert all(map(is_alive, processes_of(iterator)))


def test_a_slow_batch_is_a_warning_without_timeout(monkeypatch):
    monkeypatch.setattr(watch, "_SLOW", 0.3)
    monkeypatch.setattr(watch, "_LOOK", 0.05)

    def act(row):
        time.sleep(0.8 * (row == 5))

    loader = loader_of(act, size=16, multiprocessing_context="fork")  # others may be late with their first batch
    with pytest.warns(RuntimeWarning, match="a batch is late") as caught:
        rows = [row for values, _ in loader for row in values[:, 0].tolist()]
    assert rows == list(range(16))
    (text,) = (str(entry.message) for entry in caught if entry.category is RuntimeWarning)  # Python warns of the fork
    assert "Worker 1 (pid " in text
    assert "at batch 1 (rows 4, 5, 6, 7) for 0." in text
    assert " in act\n" in text


def test_a_killed_worker_is_named_with_its_signal_its_batch_and_memory():
    iterator = iter(loader_of(waits_in_sleep))
    next(iterator)
    process = processes_of(iterator)[0]
    wait_until(lambda: iterator._pool.end.activity(0)[1] == 2)
    os.kill(process, signal.SIGKILL)
    text = error_of(iterator)
    assert text.startswith("DataLoader worker (pid")
    assert f"Worker 0 (pid {process} on {HOST}) was killed by SIGKILL at batch 2 (rows 8, 9, 10, 11)." in text
    assert "The kernel " in text
    assert "GiB (PSS)" in text


def exits(row):
    if row == 9:
        os._exit(3)


def test_the_memory_of_workers_is_that_of_a_moment_ago_or_of_their_end(monkeypatch):
    monkeypatch.setattr(memory, "_LOOK_AGAIN", 0.0)
    found = memory.MemoryOfWorkers()
    own = found.bytes([os.getpid()])
    assert own > 1 << 20
    assert found.bytes([]) == own  # all have ended
    monkeypatch.setattr(memory, "_LOOK_AGAIN", 1e9)
    found = memory.MemoryOfWorkers()
    assert found.bytes([os.getpid()]) == found.bytes([os.getpid(), os.getppid()])


def test_the_exit_code_of_a_worker_is_told():
    with pytest.raises(RuntimeError) as caught:  # also from `iter`
        list(loader_of(exits))
    text = str(caught.value)
    assert text.startswith("DataLoader worker (pid")
    assert "ended with exit code 3 at batch 2 (rows 8, 9, 10, 11)." in text
    assert "PSS" not in text


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (1, 1, "The kernel has not killed for want of memory"),
        (1, 3, r"The kernel has killed 2 time\(s\) because the memory of this control group ran out"),
        (None, None, "The kernel sends SIGKILL when memory runs out, but does not say"),
    ],
)
def test_the_kernels_count_of_kills_is_compared_with_that_at_the_start(monkeypatch, before, after, told):
    counts = itertools.chain([before], itertools.repeat(after))
    monkeypatch.setattr(watch, "out_of_memory_kills", lambda: next(counts))
    monkeypatch.setattr(watch, "limit_and_use", lambda: (2 << 30, 1 << 30))
    iterator = iter(loader_of(waits_in_sleep))
    os.kill(processes_of(iterator)[0], signal.SIGKILL)
    with pytest.raises(RuntimeError, match=told) as caught:
        list(iterator)
    assert "1.00 GiB of the 2.00 GiB of the control group are in use" in str(caught.value)


@pytest.mark.parametrize(
    ("groups", "files", "kills", "limit"),
    [
        ("0::/a/b", {"a/b/memory.events": "low 0\noom_kill 3\n", "a/b/memory.max": "max\n"}, 3, None),
        ("0::/not/here", {"memory.events": "oom_kill 1\n", "memory.max": "100", "memory.current": "7"}, 1, (100, 7)),
        (
            "4:memory:/x\n0::/",
            {"memory/x/memory.oom_control": "under_oom 0\noom_kill 2", "memory/x/memory.limit_in_bytes": str(2**63)},
            2,
            None,
        ),
        ("", {}, None, None),
    ],
)
def test_control_groups_of_both_versions_are_read(monkeypatch, tmp_path, groups, files, kills, limit):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(memory, "_ROOT", tmp_path)
    read = memory._lines
    monkeypatch.setattr(
        memory, "_lines", lambda path: groups.splitlines() if path == Path("/proc/self/cgroup") else read(path)
    )
    assert memory.out_of_memory_kills() == kills
    assert memory.limit_and_use() == limit
