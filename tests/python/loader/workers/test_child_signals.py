# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""torch's handler of SIGCHLD raises at any place of the main thread: no pool is left there half made or half ended.

The signal comes for forked workers alone: others are not children of the program.
"""

import contextlib
import gc
import multiprocessing
import os
import random
import signal
import sys

import pytest
from processes import descriptors, is_alive, mappings, wait_until
from torch_datasets import loader_of, processes_of


def forking_loader(size):
    return loader_of(size=size, multiprocessing_context="fork")


def dies_at(line, process):
    """A trace function that kills `process`, a child, before the line numbered `line` of torch's and this library's
    loaders, and waits until its end could be handled."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        if "loader" not in frame.f_code.co_filename:
            return None
        if event == "line":
            count += 1
            if count == line:
                os.kill(process, signal.SIGKILL)
                wait_until(lambda: not is_alive(process))
        return trace

    return trace


def life_of_a_pool(trace):
    """Whether the error of another pool's worker was raised in the life of a pool."""
    try:
        sys.settrace(trace)
        iterator = iter(forking_loader(8))
        next(iterator)
        del iterator
    except RuntimeError as error:
        return "is killed by signal" in str(error)
    finally:
        sys.settrace(None)
    return False


def lines_of_a_life():
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        if "loader" not in frame.f_code.co_filename:
            return None
        count += event == "line"
        return trace

    life_of_a_pool(trace)
    return count


@pytest.mark.parametrize("trials", [4, pytest.param(80, marks=pytest.mark.slow)])
def test_an_error_at_any_line_leaves_nothing_of_a_pool(trials, monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)  # pytest's keeps the iterator
    list(forking_loader(8))  # installs the handler
    lines = lines_of_a_life()
    random.seed(9)
    raised = 0
    for line in sorted(random.sample(range(1, lines), min(trials, lines - 1))):
        gc.collect()
        before, children = (descriptors(), mappings()), set(multiprocessing.active_children())
        other = iter(forking_loader(40))
        next(other)
        processes = processes_of(other)
        raised += life_of_a_pool(dies_at(line, processes[0]))
        with contextlib.suppress(RuntimeError):
            del other
        gc.collect()
        assert (descriptors(), mappings()) == before, line
        assert set(multiprocessing.active_children()) <= children, line
    assert raised


def test_the_error_says_what_is_known_wherever_it_is_raised():
    iterator = iter(forking_loader(4000))
    next(iterator)
    process = processes_of(iterator)[0]
    with pytest.raises(RuntimeError, match=rf"^DataLoader worker \(pid {process}\) is killed by signal.*\nWorker 0 "):
        os.kill(process, signal.SIGKILL)
        wait_until(lambda: False)


def test_the_users_handler_still_runs():
    numbers = []
    before = signal.signal(signal.SIGCHLD, lambda number, frame: (numbers.append(number), before(number, frame)))
    try:
        list(forking_loader(8))
        wait_until(lambda: numbers)
    finally:
        signal.signal(signal.SIGCHLD, before)
