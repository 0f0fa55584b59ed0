# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What goes wrong in workers of a DataLoader or in their consumer: an error or a clean end, and nothing is left."""

import contextlib
import gc
import os
import random
import signal
import threading
import time

import pytest
import torch
from processes import SOON, descriptors, is_alive, mappings, run_script, wait_until
from torch_datasets import Made, loader_of, processes_of

import torch_distinput as tdi


def never_ends(row):
    while row >= 8:
        pass


def sleeps(row):
    if row >= 8:
        time.sleep(100)


def closes_descriptors_and_sleeps(row):
    if row >= 8:
        os.closerange(3, 1024)
        time.sleep(100)


@pytest.fixture(autouse=True)
def nothing_is_left():
    gc.collect()
    before = descriptors(), mappings()
    yield
    gc.collect()
    assert (descriptors(), mappings()) == before


@pytest.mark.parametrize("in_thread", [False, True])
def test_a_killed_worker_is_an_error_after_whole_batches(in_thread):
    def run(seed):
        iterator = iter(loader_of(size=100000))
        processes, seen = processes_of(iterator), 0
        random.seed(seed)
        timer = threading.Timer(random.random() / 20, os.kill, (random.choice(processes), signal.SIGKILL))
        timer.start()
        with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid.* (is killed by signal|exited unexpectedly)"):
            for rows, _ in iterator:
                assert rows[:, 0].tolist() == list(range(4 * seen, 4 * seen + 4))
                seen += 1
            timer.join()
            time.sleep(SOON)  # the signal's handler raises here
        timer.join()
        del iterator
        assert not any(map(is_alive, processes))

    for seed in range(4):
        if in_thread:
            errors, ended = [], threading.Event()

            def guarded(seed=seed, errors=errors, ended=ended):
                try:
                    run(seed)
                except BaseException as error:  # noqa: BLE001 - of the test
                    errors.append(error)
                ended.set()

            # The main thread, which handles signals, gets the error of its own. Python forgets threads that run if it
            # is raised in `join`.
            threading.Thread(target=guarded).start()
            while not ended.is_set():
                with contextlib.suppress(RuntimeError):
                    ended.wait(0.1)
            assert not errors, errors
        else:
            run(seed)


@pytest.mark.parametrize("act", [never_ends, sleeps, closes_descriptors_and_sleeps])
@pytest.mark.parametrize("persistent_workers", [False, True])
def test_a_worker_that_hangs_does_not_keep_the_end_waiting(act, persistent_workers):
    loader = loader_of(act, persistent_workers=persistent_workers)
    iterator = iter(loader)
    processes = processes_of(iterator)
    assert next(iterator)[0][:, 0].tolist() == [0, 1, 2, 3]
    begin = time.monotonic()
    loader.close()
    del iterator
    assert time.monotonic() - begin < SOON
    assert not any(map(is_alive, processes))


def test_a_stopped_worker_is_a_timeout_and_is_killed():
    iterator = iter(loader_of(size=4000, timeout=1, multiprocessing_context="fork"))
    next(iterator)
    processes = processes_of(iterator)
    os.kill(processes[1], signal.SIGSTOP)
    with pytest.raises(RuntimeError, match="DataLoader timed out after 1 seconds"):
        list(iterator)
    begin = time.monotonic()
    del iterator
    assert time.monotonic() - begin < SOON
    assert not any(map(is_alive, processes))


def raises_what_cannot_be_pickled(row):
    class Local(Exception):
        pass

    if row == 5:
        raise Local("of a row")


def test_an_error_of_an_unknown_type_is_told():
    iterator = iter(loader_of(raises_what_cannot_be_pickled, size=12))
    next(iterator)
    with pytest.raises(RuntimeError, match="(?s)DataLoader worker process 1.*Local: of a row"):
        next(iterator)
    assert [rows[:, 0].tolist() for rows, _ in iterator] == [[8, 9, 10, 11]]


def unpicklable(samples):
    return (lambda: 0) if samples[0][0][0] == 4 else samples[0][0]


def test_a_batch_that_cannot_be_pickled_is_an_error():
    iterator = iter(loader_of(size=12, collate_fn=unpicklable))
    next(iterator)
    with pytest.raises(Exception, match="(?s)in DataLoader worker process 1.*lambda"):
        next(iterator)
    assert next(iterator)[0] == 8


def forks(row):
    if row == 5:
        os.fork()  # the child goes on with the worker's loop


def closes_descriptors(row):
    os.closerange(3, 1024)


@pytest.mark.parametrize("act", [forks, closes_descriptors])
def test_workers_may_fork_and_close_their_descriptors(act, capfd):
    assert [rows[:, 0].tolist() for rows, _ in loader_of(act, size=24)] == [
        list(range(begin, begin + 4)) for begin in range(0, 24, 4)
    ]


def growing_row(row):
    return torch.full((2 ** (2 * row),), row, dtype=torch.uint8)


def test_batches_may_grow_and_be_kept():
    growing = Made(12, growing_row)
    kept = list(tdi.DataLoader(growing, num_workers=2))
    assert [batch.numel() for batch in kept] == [2 ** (2 * row) for row in range(12)]
    assert all(batch.eq(row).all() for row, batch in enumerate(kept))


def test_many_epochs_leave_nothing_behind():
    loader, persistent = loader_of(size=16), loader_of(size=16, persistent_workers=True)
    processes = set()
    before = None
    for epoch in range(6):
        for each in (loader, persistent):
            processes |= {process for _, workers in each for process in workers.tolist()}
        next(iter(loader))
        if epoch == 1:
            before = descriptors(), mappings(), len(os.listdir("/proc/self/task"))
    assert (descriptors(), mappings(), len(os.listdir("/proc/self/task"))) == before
    persistent.close()
    wait_until(lambda: not any(map(is_alive, processes)))


def test_a_forked_process_cannot_use_the_iterator_and_does_not_end_it():
    iterator = iter(loader_of(size=40))
    kept, _ = next(iterator)
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            try:
                next(iterator)
            except RuntimeError as error:
                status = 0 if "parent process" in str(error) and kept[0, 0] == 0 else 2
            iterator._shutdown_workers()
            del iterator, kept
        os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert [rows[0, 0].item() for rows, _ in iterator] == list(range(4, 40, 4))


def test_workers_end_with_a_consumer_that_is_killed():
    reader, writer = os.pipe()
    consumer = os.fork()
    if consumer == 0:
        iterator = iter(loader_of(never_ends, multiprocessing_context="fork"))
        next(iterator)
        os.write(writer, " ".join(map(str, processes_of(iterator))).encode())
        time.sleep(100)
    processes = list(map(int, os.read(reader, 100).split()))
    os.kill(consumer, signal.SIGKILL)
    os.waitpid(consumer, 0)
    wait_until(lambda: not any(map(is_alive, processes)))
    os.close(reader)
    os.close(writer)


def test_the_interpreter_ends_beside_a_stopped_worker():
    ran = run_script("""
        import os, signal
        from torch_datasets import loader_of, processes_of
        iterator = iter(loader_of(size=4000))
        next(iterator)
        processes = processes_of(iterator)
        os.kill(processes[0], signal.SIGSTOP)
        print(*processes)
        """)
    assert not any(map(is_alive, map(int, ran.stdout.split())))
    assert not ran.stderr
