# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Lifetimes of a `DataLoader`'s iterators: nothing is shared between them, kept, leaked or left running."""

import gc
import multiprocessing
import os
import random
import subprocess
import sys
import threading
import time
import weakref

import pytest
import torch
from processes import run_script
from torch.utils import data
from torch.utils.data import TensorDataset
from torch_datasets import IndexStream, IndexTensors, Indices

import torch_distinput as tdi


class Fails(IndexTensors):
    def __getitem__(self, index):
        if index == 25:
            raise ValueError("bad row")
        return index


LOADERS = {
    "native": lambda **kw: tdi.DataLoader(TensorDataset(torch.arange(50)), 5, shuffle=True, **kw),
    "at indices": lambda **kw: tdi.DataLoader(torch.arange(50), 5, sampler=data.SubsetRandomSampler(range(50)), **kw),
    "pipeline": lambda **kw: tdi.DataLoader(tdi.Dataset.range(50).shuffle(), 5, **kw),
    "python": lambda **kw: tdi.DataLoader(IndexTensors(50), 5, shuffle=True, **kw),
    "distributed": lambda **kw: tdi.DataLoader(IndexTensors(50), 5, shuffle=True, distributed=True, **kw),
    "distributed native": lambda **kw: tdi.DataLoader(torch.arange(50), 5, shuffle=True, distributed=True, **kw),
    "stream": lambda **kw: tdi.DataLoader(IndexStream(50), 5, distributed=True, **kw),
}


def values(batch):
    return (batch[0] if isinstance(batch, list) else batch).tolist()


@pytest.mark.parametrize("make", LOADERS.values(), ids=LOADERS.keys())
def test_several_iterators_live_at_once(make):
    loader = make()
    first, second = iter(loader), iter(loader)
    rows = [[], []]
    for _ in range(5):
        for iterator, seen in zip((first, second), rows):
            seen += values(next(iterator))
    for batch in second:
        rows[1] += values(batch)
    inner = [row for batch in loader for row in values(batch)]
    for batch in first:
        rows[0] += values(batch)
    assert [sorted(seen) for seen in (*rows, inner)] == [list(range(50))] * 3


@pytest.mark.parametrize("make", LOADERS.values(), ids=LOADERS.keys())
def test_nested_loops(make):
    loader = make()
    assert sum(len(values(batch)) for outer in loader for batch in loader) == 500


@pytest.mark.parametrize("distributed", [None, True])
def test_close_ends_workers_that_wait_for_the_next_epoch(distributed):
    before = set(multiprocessing.active_children())
    loader = tdi.DataLoader(Indices(50), 5, num_workers=2, persistent_workers=True, distributed=distributed)
    for _ in loader:
        pass
    waiting = set(multiprocessing.active_children()) - before
    assert len(waiting) == 2
    loader.close()
    assert not waiting & set(multiprocessing.active_children())


@pytest.mark.both_pools
@pytest.mark.parametrize("workers", [0, 2])
def test_an_exception_does_not_end_the_loader(workers):
    loader = tdi.DataLoader(Fails(50), 5, num_workers=workers, persistent_workers=workers > 0)
    for _ in range(2):
        with pytest.raises(ValueError, match="bad row"):
            list(loader)
    iterator = iter(loader)
    count = 0
    while count < 5:
        next(iterator)
        count += 1
    with pytest.raises(ValueError, match="bad row"):
        next(iterator)
    assert len(list(iterator)) == 4  # as in torch, the batches after the failed one are still yielded
    loader.close()


def usage():
    gc.collect()
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")), threading.active_count(), resident


def left_behind(before):
    """Threads and files that were not there `before`. The system lists a thread for a moment after it was joined."""
    deadline = time.monotonic() + 10
    while True:
        more = [max(0, now - then) for now, then in zip(usage()[:3], before[:3], strict=True)]
        if not any(more) or time.monotonic() > deadline:
            return more
        os.sched_yield()


@pytest.mark.parametrize("name", LOADERS)
def test_200_epochs_that_break_leave_nothing_behind(name):
    loader, rng = LOADERS[name](), random.Random(1)

    def epochs(count):
        for _ in range(count):
            last = rng.randrange(10)
            for step, _ in enumerate(loader):
                if step == last:
                    break

    epochs(50)
    before = usage()
    epochs(200)
    assert left_behind(before) == [0, 0, 0]
    assert usage()[3] - before[3] < 4 * 2**20


@pytest.mark.both_pools
def test_epochs_with_workers_that_break_leave_nothing_behind():
    loader = LOADERS["python"](num_workers=1)
    before = None
    for epoch in range(6):
        next(iter(loader))
        if epoch == 1:
            before = usage()
    assert left_behind(before) == [0, 0, 0]


@pytest.mark.parametrize("name", ["native", "pipeline", "distributed native", "at indices"])
def test_a_thousand_kept_batches_never_change(name):
    rows = torch.arange(16_000).reshape(8000, 2)
    loader = {
        "native": lambda: tdi.DataLoader(TensorDataset(rows), 8),
        "pipeline": lambda: tdi.DataLoader(tdi.Dataset.from_tensor_slices((rows,)), 8),
        "distributed native": lambda: tdi.DataLoader(TensorDataset(rows), 8, distributed=True),
        "at indices": lambda: tdi.DataLoader(TensorDataset(rows), 8, sampler=range(8000)),
    }[name]()
    kept = list(loader)
    list(loader)
    assert len(kept) == 1000
    assert torch.equal(torch.cat([batch[0] for batch in kept]), rows)


@pytest.mark.both_pools
def test_forked_workers_may_start_at_any_time():
    native = iter(tdi.DataLoader(torch.arange(100_000), 5))
    next(native)
    loader = LOADERS["python"](num_workers=2)
    for batch in loader:
        next(native)
    assert sorted(row for batch in loader for row in values(batch)) == list(range(50))
    assert next(native).tolist() == [55, 56, 57, 58, 59]


class Nested(IndexTensors):
    """A dataset that reads its rows, in a worker, through a loader that the parent made."""

    loader = tdi.DataLoader(torch.arange(50), 5)
    whole = tdi.DataLoader(tdi.Dataset.range(50), 50)

    def __getitem__(self, index):
        return sum(batch.sum() for batch in self.loader) + index


@pytest.mark.both_pools
def test_a_loader_works_inside_a_worker():
    list(Nested.loader)
    totals = [batch.tolist() for batch in tdi.DataLoader(Nested(50), 10, num_workers=1)]
    assert totals[0] == [1225 + index for index in range(10)]


KINDS = [("native", "pipeline", "python"), ("workers", "persistent"), ("distributed", "stream")]


@pytest.mark.both_pools(slow=True)
@pytest.mark.parametrize("kinds", KINDS)
def test_the_interpreter_ends_with_full_queues(kinds):
    result = run_script(f"""
        import torch, sys
        from torch_datasets import Indices, IndexStream
        loaders = dict(
            native=lambda: tdi.DataLoader(torch.arange(10**6), 8),
            pipeline=lambda: tdi.DataLoader(tdi.Dataset.range(10**6), 8),
            python=lambda: tdi.DataLoader(Indices(10**6), 8),
            workers=lambda: tdi.DataLoader(Indices(10**6), 8, num_workers=2),
            persistent=lambda: tdi.DataLoader(Indices(10**6), 8, num_workers=2, persistent_workers=True),
            distributed=lambda: tdi.DataLoader(Indices(10**6), 8, num_workers=2, distributed=True),
            stream=lambda: tdi.DataLoader(IndexStream(10**6), 8, num_workers=2, distributed=True),
        )
        for kind in {kinds!r}:
            iterator = iter(loaders[kind]())
            next(iterator)
            sys.modules[kind] = iterator  # lives until the end
        print("running", flush=True)
        """)
    assert (result.returncode, result.stdout, result.stderr) == (0, "running\n", "")


@pytest.mark.both_pools
def test_ctrl_c_ends_every_kind_of_loop():
    result = run_script("""
        import multiprocessing, os, signal, threading, time, torch
        multiprocessing.set_start_method("fork")
        class Sleeps(torch.utils.data.Dataset):
            def __len__(self): return 10**6
            def __getitem__(self, index):
                time.sleep(0.01)
                return index
        loaders = {
            "native": tdi.DataLoader(torch.zeros(10**7), 1),
            "python": tdi.DataLoader(Sleeps(), 1),
            "workers": tdi.DataLoader(Sleeps(), 100, num_workers=2),
            "distributed": tdi.DataLoader(Sleeps(), 1, distributed=True),
        }
        for name, loader in loaders.items():
            iterator = iter(loader)
            next(iterator)
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                for _ in iterator:
                    pass
            except KeyboardInterrupt:
                print(name, flush=True)
            del iterator
            loader.close()
        """)
    assert result.stdout.split() == ["native", "python", "workers", "distributed"], result.stderr


KEPT = LOADERS | {
    "in turn": lambda: tdi.DataLoader(torch.arange(50), 5),
    "array": lambda: tdi.DataLoader(torch.arange(50).numpy(), 5, shuffle=True),
    "python at indices": lambda: tdi.DataLoader(IndexTensors(50), 5, sampler=data.SubsetRandomSampler(range(50))),
    "python stream": lambda: tdi.DataLoader(IndexStream(50), 5),
    "python pipeline": lambda: tdi.DataLoader(tdi.Dataset.range(50), 5, collate_fn=torch.stack),
    "workers": lambda: tdi.DataLoader(IndexTensors(50), 5, shuffle=True, num_workers=1),
}


@pytest.mark.both_pools
@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("taken", [0, 1, 10, 11])
def test_iterators_are_freed_with_their_last_reference(name, taken):
    if name == "workers" and taken != 1:
        return
    loader = KEPT[name]()
    gc.collect()
    gc.disable()
    try:
        iterator = iter(loader)
        for _, _ in zip(range(taken), iterator):
            pass
        if taken == 11:
            loader.state_dict()
            iterator.close()
        gone = weakref.ref(iterator)
        del iterator
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("workers", [0, 2])
def test_an_iterator_that_lives_until_the_interpreter_ends_says_nothing(workers):
    program = f"""
import multiprocessing, torch_distinput as tdi
iterator = iter(tdi.DataLoader(list(range(50)), 5, num_workers={workers}))
next(iterator)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert result.stderr == ""


def test_a_finalizer_leaves_torchs_generators_alone():
    """torch.get_rng_state holds a lock while it makes its result, and the garbage collector may run at that point."""
    result = run_script("""
        import faulthandler, gc, torch
        from torch.utils import data
        faulthandler.dump_traceback_later(60, exit=True)
        gc.freeze()  # what torch itself has made need not be looked through each time
        from torch_datasets import Indices, IndexStream
        class Stateful(IndexStream):
            def state_dict(self): return {"rng": torch.get_rng_state()}
            def load_state_dict(self, state): pass
        generator = torch.Generator()
        tensors = data.TensorDataset(torch.arange(50))
        makers = dict(
            native=lambda: tdi.DataLoader(tensors, 5, shuffle=True, generator=generator),
            turn=lambda: tdi.DataLoader(torch.arange(50).numpy(), 5),
            sampled=lambda: tdi.DataLoader(tensors, 5, sampler=data.SubsetRandomSampler(range(50), generator)),
            python=lambda: tdi.DataLoader(Indices(50), 5, shuffle=True),
            stream=lambda: tdi.DataLoader(IndexStream(50), 5),
            stateful=lambda: tdi.DataLoader(Stateful(50), 5),
            pipeline=lambda: tdi.DataLoader(tdi.Dataset.range(50).shuffle(), 5),
            distributed=lambda: tdi.DataLoader(Indices(50), 5, shuffle=True, distributed=True),
            own=lambda: tdi.DataLoader(Stateful(50), 5, distributed=True),
        )
        for name, make in makers.items():
            for ask in (torch.get_rng_state, generator.get_state):
                for taken in (0, 1, 11):
                    gc.disable()
                    gc.collect()
                    loader = make()
                    iterator = iter(loader)
                    for _, _ in zip(range(taken), iterator): pass
                    cycle = [iterator]
                    cycle.append(cycle)  # so that only the collector ends it
                    del cycle, iterator
                    gc.set_threshold(1)
                    gc.enable()
                    ask()
                    gc.disable()
                    gc.collect()
                    loader.state_dict()
            print(name, flush=True)
        """)
    expected = "native turn sampled python stream stateful pipeline distributed own"
    assert result.stdout.split() == expected.split(), result.stderr
