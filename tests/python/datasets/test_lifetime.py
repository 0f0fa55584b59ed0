# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Nothing leaks and nothing hangs: callables, threads, forks, Ctrl-C and the interpreter's exit."""

import gc
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import pytest
import torch
from processes import in_child, library_threads, library_threads_end, run_script

import torch_distinput as tdi

SCALAR = tdi.TensorSpec((), torch.int64)


class Callable:
    def __call__(self, x):
        return x

    def rows(self):
        yield from range(100)


PIPELINES = {
    "map": lambda c: tdi.Dataset.range(100).map(c),
    "parallel map": lambda c: tdi.Dataset.range(100).map(c, num_parallel_calls=2),
    "parallel map of a stream": lambda c: tdi.Dataset.range(100).filter(lambda x: True).map(c, num_parallel_calls=2),
    "flat_map": lambda c: tdi.Dataset.range(9).map(c).flat_map(lambda x: tdi.Dataset.range(9).map(c)),
    "parallel interleave": lambda c: tdi.Dataset.range(9).interleave(
        lambda x: tdi.Dataset.range(9).map(c), num_parallel_calls=2
    ),
    "prefetch": lambda c: tdi.Dataset.range(100).map(c).prefetch(2),
    "prefetched generator": lambda c: tdi.Dataset.from_generator(c.rows, SCALAR).prefetch(2),
}


@pytest.mark.parametrize("make", PIPELINES.values(), ids=PIPELINES.keys())
def test_callables_and_threads_are_released_midway(make):
    callable = Callable()
    alive = weakref.ref(callable)
    dataset = make(callable)
    del callable
    for index, _ in enumerate(dataset):
        if index == 3:
            break
    assert library_threads_end()
    assert alive() is not None
    del dataset
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("make", PIPELINES.values(), ids=PIPELINES.keys())
def test_close_stops_threads_and_can_be_repeated(make):
    iterator = iter(make(Callable()))
    next(iterator), next(iterator)
    iterator.close()
    iterator.close()
    assert library_threads() == []


# Hooks run in the opposite order of their registration: this one after the library's, which is imported later.
DAEMONS = """
    import atexit, threading
    atexit.register(lambda: (go_on.set(), [thread.join(0.5) for thread in threads]))
    import torch_distinput as tdi
    go_on = threading.Event()
    batches = tdi.Dataset.range(100).batch(2)
    loader = tdi.DataLoader(batches, batch_size=None)
    iterators = [*map(iter, (batches, tdi.MirroredStrategy(["cpu"]).distribute_dataset(batches), loader))]
    def go(iterator):
        go_on.wait()
        next(iterator)
    threads = [threading.Thread(target=go, args=(iterator,), daemon=True) for iterator in iterators]
    for iterator, thread in zip(iterators, threads):
        next(iterator)
        thread.start()
"""


def test_daemon_threads_that_go_on_at_exit_print_nothing():
    command = [sys.executable, "-c", textwrap.dedent(DAEMONS)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_interpreter_exits_while_daemon_threads_run_functions():
    """Python ends threads that want the GIL back during shutdown, which functions of torch do not live through."""
    result = run_script(
        """
        import threading
        import torch

        started = threading.Semaphore(0)

        def read(dataset):
            while True:
                for _ in dataset:
                    started.release()

        def add(x):  # takes longer than the rest of the shutdown, and is inside torch all the time
            for _ in range(6_000):
                x = x + 1
            return x

        class Rows(torch.utils.data.Dataset):
            def __len__(self):
                return 50

            def __getitem__(self, index):
                return add(torch.tensor(index))

        numbers = tdi.Dataset.range(50)
        parallel = numbers.map(add, num_parallel_calls=2)
        distributed = tdi.MirroredStrategy(["cpu"]).distribute_dataset(parallel.batch(2))
        loader = tdi.DataLoader(Rows(), 2)
        for dataset in (numbers.map(add), parallel.prefetch(2), distributed, loader, loader):
            threading.Thread(target=read, args=(dataset,), daemon=True).start()
        for _ in range(6):
            started.acquire()
        """
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_an_exception_that_holds_its_iterator_is_collected():
    class Failure(Exception):
        pass

    def fail(x):
        if x.item() == 2:
            raise Failure
        return x

    def loop():
        iterator = iter(tdi.Dataset.range(10).map(fail, num_parallel_calls=2))
        alive.append(weakref.ref(iterator))
        for _ in iterator:
            pass

    alive = []
    with pytest.raises(Failure):
        loop()
    gc.collect()
    assert alive[0]() is None
    assert library_threads() == []


FORK_PIPELINES = {
    "native": lambda: tdi.Dataset.range(1000).batch(2),
    "parallel map": lambda: tdi.Dataset.range(1000).map(lambda x: x, num_parallel_calls=2).batch(2),
    "prefetched stream": lambda: tdi.Dataset.range(1000).filter(lambda x: True).batch(2).prefetch(2),
}


@pytest.mark.parametrize("make", FORK_PIPELINES.values(), ids=FORK_PIPELINES.keys())
def test_a_forked_child_makes_its_own_iterators(make):
    dataset = make()
    iterator = iter(dataset)
    next(iterator)
    for use in (lambda: next(iterator), iterator.state_dict, iterator.stats, iterator.close):
        answer = in_child(use)
        assert answer.startswith("FailedPreconditionError") and "fork" in answer

    def iterate_and_drop():
        nonlocal iterator
        iterator = None
        return sum(batch.sum() for batch in make()).item() + sum(batch.sum() for batch in dataset).item()

    assert in_child(iterate_and_drop) == str(999 * 1000)
    assert next(iterator).tolist() == [2, 3]


def test_ctrl_c_ends_a_wait():
    result = run_script(
        """
        import os, signal, threading, time
        import torch

        never = threading.Event()
        scalar = tdi.TensorSpec((), torch.int64)

        def block(*_):
            never.wait()

        def rows():
            yield 0
            block()

        rows_then_block = tdi.Dataset.from_generator(rows, scalar)
        pipelines = {
            "generator": rows_then_block,
            "prefetched generator": rows_then_block.prefetch(1),
            "prefetched map": tdi.Dataset.range(9).map(lambda x: x if x == 0 else block()).prefetch(2),
            "parallel interleave of a stream": tdi.Dataset.range(4).interleave(block, num_parallel_calls=2),
            "parallel map of a stream": rows_then_block.take(1).repeat(4).map(block, num_parallel_calls=2),
        }
        for name, dataset in pipelines.items():
            iterator = iter(dataset)
            if "stream" not in name:
                next(iterator)
            times = []

            def interrupt():
                time.sleep(0.3)
                times.append(time.monotonic())
                os.kill(os.getpid(), signal.SIGINT)

            threading.Thread(target=interrupt).start()
            try:
                next(iterator)
                print(name, "was not interrupted")
            except KeyboardInterrupt:
                print(name, time.monotonic() - times[0], flush=True)
            del iterator
        """
    )
    assert result.returncode == 0, result.stderr
    latencies = {
        name: float(seconds) for name, _, seconds in (line.rpartition(" ") for line in result.stdout.splitlines())
    }
    assert len(latencies) == 5
    # A wait looks for signals every 50 ms; the rest is a margin for a busy machine.
    assert max(latencies.values()) < 1.0, latencies


@pytest.mark.parametrize("blocked", [False, True])
def test_the_interpreter_exits_in_the_middle_of_an_epoch(blocked):
    start = time.monotonic()
    result = run_script(
        f"""
        import threading
        import torch

        waiting, never = threading.Event(), threading.Event()

        def rows():
            try:
                yield 0
                if {blocked}:
                    waiting.set()
                    never.wait()
                yield from range(10**9)
            finally:
                print("closed", flush=True)

        scalar = tdi.TensorSpec((), torch.int64)
        generator = iter(tdi.Dataset.from_generator(rows, scalar).prefetch(2))
        busy = iter(tdi.Dataset.range(10**9).map(lambda x: x, num_parallel_calls=2).batch(4))
        native = iter(tdi.Dataset.range(10**9).batch(4))
        for iterator in (generator, busy, native):
            next(iterator)
        waiting.wait() if {blocked} else None
        print("end", flush=True)
        """
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert result.stdout.splitlines() == (["end"] if blocked else ["end", "closed"])
    assert time.monotonic() - start < 50


@pytest.mark.parametrize("daemon", [False, True])
@pytest.mark.parametrize("distributed", [False, True])
def test_the_interpreter_exits_while_another_thread_drops_an_iterator(distributed, daemon):
    """Dropping the iterator waits a second for the function, without the GIL."""
    result = run_script(
        f"""
        import threading
        import torch

        never, blocked, dropping = threading.Event(), threading.Event(), threading.Event()

        def block(x):
            if x.item() > 3:
                blocked.set()
                never.wait()
            return x

        dataset = tdi.Dataset.range(100).map(block, element_spec=tdi.TensorSpec((), torch.int64)).batch(1).prefetch(8)
        if {distributed}:
            dataset = tdi.MirroredStrategy(["cpu"]).distribute_dataset(dataset)
        iterator = iter(dataset)
        next(iterator)
        blocked.wait()

        def drop():
            global iterator
            dropping.set()
            del iterator

        threading.Thread(target=drop, daemon={daemon}).start()
        dropping.wait()
        """
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_dropping_an_iterator_does_not_hang():
    go_on = threading.Event()
    started = threading.Event()

    def block(x):
        if x.item() > 0:
            started.set()
            go_on.wait()
        return x

    iterator = iter(tdi.Dataset.range(9).map(block).prefetch(2))
    next(iterator)
    started.wait()
    del iterator
    assert library_threads() != []
    go_on.set()
    assert library_threads_end()
