# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Worker processes over many epochs, and many that are killed: nothing grows, nothing is lost or comes twice."""

import contextlib
import gc
import os
import random
import signal
import threading
import time

import pytest
from processes import descriptors, is_alive, mappings, wait_until
from torch_datasets import loader_of, processes_of

pytestmark = pytest.mark.slow


def usage():
    """Threads, descriptors, mapped pools, and resident bytes of this process."""
    gc.collect()
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return len(os.listdir("/proc/self/task")), descriptors(), mappings(), resident


def check_growth(before, after):
    assert after[0] <= before[0]  # a thread of pytest's may have ended
    assert after[1:3] == before[1:3]
    assert after[3] - before[3] < 8 * 2**20


@pytest.mark.parametrize("persistent_workers", [False, True])
def test_a_thousand_epochs_leave_nothing_behind(persistent_workers):
    loader = loader_of(size=16, persistent_workers=persistent_workers)
    before = None
    for epoch in range(1000):
        rows, processes = [], set()
        for values, workers in loader:
            rows += values[:, 0].tolist()
            processes |= set(workers.tolist())
        assert rows == list(range(16))
        assert len(processes) == 2
        assert persistent_workers or not any(map(is_alive, processes))
        if epoch == 100:
            before = usage()
    after = usage()
    print(f"before {before}, after {after}")
    check_growth(before, after)
    loader.close()
    wait_until(lambda: not any(map(is_alive, processes)))


def test_ten_thousand_batches_with_kills_lose_and_repeat_nothing():
    random.seed(11)
    batches = kills = 0
    gc.collect()
    before = usage()
    while batches < 10_000:
        seen, errors = run_until_killed(random.randrange(120), random.random() / 500)
        assert seen == list(range(len(seen)))
        batches += len(seen) // 4
        kills += errors
    print(f"{batches} batches, {kills} kills")
    check_growth(before, usage())


def run_until_killed(when, pause):
    """The rows that were read until a worker, killed `pause` seconds after batch `when`, was missed."""
    iterator = iter(loader_of(size=100_000))
    processes, seen, reached = processes_of(iterator), [], threading.Event()

    def kill():
        reached.wait()
        time.sleep(pause)
        os.kill(random.choice(processes), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    errors = 0
    try:
        for count, (values, _) in enumerate(iterator):
            seen += values[:, 0].tolist()
            if count >= when:
                reached.set()
        killer.join()
        raise AssertionError("the loader ended as if nothing had happened")
    except RuntimeError as error:  # from the iterator, or from the signal's handler between two batches
        assert "DataLoader worker (pid" in str(error)
        errors += 1
    with contextlib.suppress(RuntimeError):  # the handler's, where the iterator had noticed before
        killer.join()
        del iterator
    wait_until(lambda: not any(map(is_alive, processes)))
    return seen, errors
