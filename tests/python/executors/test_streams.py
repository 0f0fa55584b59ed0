# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Streams with an executor: this process reads them, workers call the functions of `map`, and rows, order, infos and
states are those without it."""

import gc
import multiprocessing
import os
import signal
import sys
import threading
import weakref

import numpy
import pytest
import torch
from child_processes import children
from equal_values import same
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_distinput as tdi
from torch_distinput.distribute._part import Part

pytestmark = pytest.mark.filterwarnings("ignore:.*without rows.*")
EXECUTOR = tdi.Executor("processes", max_workers=2)


NUMBER = tdi.TensorSpec((), torch.int64)


def numbered(size):
    return ({"n": torch.tensor(n), "text": f"row {n}"} for n in range(size))


def counted(size):
    """A stream of dicts."""
    return tdi.Dataset.from_generator(numbered, {"n": NUMBER, "text": tdi.StringSpec(())}, [size])


class Shards(torch.utils.data.IterableDataset):
    def __init__(self, size):
        self.size = size

    def __iter__(self):
        for n in range(self.size):
            yield {"n": torch.tensor(n), "text": f"row {n}"}


SOURCES = {
    "generator": counted,
    "iterable": lambda size: tdi.Dataset.from_torch(Shards(size)),
    "filter": lambda size: tdi.Dataset.range(size).map(as_row).filter(lambda row: row["n"] % 3 != 1),
    "flat_map": lambda size: tdi.Dataset.range(size // 3).flat_map(lambda n: tdi.Dataset.range(int(n) % 5).map(as_row)),
}


def as_row(n):
    return {"n": n, "text": f"row {int(n)}"}


def noisy(row):
    noise = torch.rand(2, generator=tdi.random())
    return {"n": row["n"] * 2, "text": row["text"] + "!", "noise": row.get("noise", 0) + noise}


def bytes_of(row):
    return row | {"raw": row["text"].encode(), "array": numpy.arange(3) + int(row["n"])}


def batched(rows):
    return rows | {"n": rows["n"] + 1}


def typed(*rows):
    return {
        "n": tdi.TensorSpec(rows, torch.int64),
        "text": tdi.StringSpec(rows),
        "noise": tdi.TensorSpec((*rows, 2), torch.float32),
    }


def even(row):
    return row["n"] % 4 != 2


@st.composite
def streams(draw):
    """Calls that make a random stream of at most 60 rows, in batches. Each gets the arguments of some `map`s."""
    size, source = draw(st.integers(0, 40)), SOURCES[draw(st.sampled_from(sorted(SOURCES)))]
    calls = [lambda _, how: source(size)]
    ops = ["noisy", "bytes", "alone", "shuffle", "filter", "take", "skip", "repeat", "prefetch", "cache"]
    for op in draw(st.lists(st.sampled_from(ops), min_size=1, max_size=4)):
        count, seed = draw(st.integers(1, 50)), draw(st.integers(0, 9))
        match op:
            case "noisy":
                calls.append(lambda rows, _: rows.map(noisy))
            case "bytes":
                calls.append(lambda rows, _: rows.map(bytes_of))
            case "alone":
                calls.append(lambda rows, how: rows.map(noisy, **how))
            case "shuffle":
                calls.append(lambda rows, _, count=count, seed=seed: rows.shuffle(count, seed=seed))
            case "filter":
                calls.append(lambda rows, _: rows.filter(even))
            case "take":
                calls.append(lambda rows, _, count=count: rows.take(count))
            case "skip":
                calls.append(lambda rows, _, count=seed: rows.skip(count))
            case "repeat":
                calls.append(lambda rows, _: rows.take(30).repeat(2))
            case "prefetch":
                calls.append(lambda rows, _, count=seed: rows.prefetch(count))
            case "cache":
                calls.append(lambda rows, _: rows.cache())
    calls.append(lambda rows, how: rows.map(noisy, element_spec=typed(), **how))  # known without a row
    batch = draw(st.integers(1, 9))
    calls.append(lambda rows, _: rows.batch(batch))
    if draw(st.booleans()):
        calls.append(lambda rows, _: rows.map(batched, element_spec=typed(None), row_wise=True))
    return calls


def stream_of(calls, **how):
    dataset = None
    for call in calls:
        dataset = call(dataset, how)
    return dataset


def steps_of(loader, kills=(), workers=set):
    """Batches, infos and the states after them. `kills`: the numbers of steps after which one of `workers()` is
    killed."""
    found = []
    for batch, info in loader:
        found.append((batch, info, loader.state_dict()))
        if len(found) in kills:
            for worker in sorted(workers())[:1]:
                os.kill(worker, signal.SIGKILL)
    return found


@settings(max_examples=15, deadline=None)
@given(streams(), st.sampled_from([{}, {"num_parallel_calls": 3}, {"num_workers": 2}]), st.integers(1, 4), st.data())
def test_rows_order_and_states_are_those_of_the_local_pipeline(calls, how, world, data):
    arguments = {
        "batch_size": None,
        "distributed": Part(data.draw(st.integers(0, world - 1)), world),
        "seed": data.draw(st.integers(0, 99)),
        "split": data.draw(st.sampled_from(["tf", "balanced"])),
        "tail": data.draw(st.sampled_from(["zero_rows", "padded", "drop", "until_first", "merge"])),
        "with_info": True,
    }
    local = tdi.DataLoader(stream_of(calls), **arguments)
    workers, before = data.draw(st.integers(1, 2)), children()
    executor = tdi.Executor("processes", min_workers=workers, max_workers=workers)
    with tdi.DataLoader(stream_of(calls, **how), **arguments, executor=executor) as remote:
        for _ in range(2):
            kills = data.draw(st.sets(st.integers(1, 12), max_size=2))
            assert same(steps_of(remote, kills, lambda: children() - before), expected := steps_of(local))
        if expected:
            at = data.draw(st.integers(0, len(expected) - 1))
            remote.load_state_dict(expected[at][2])
            local.load_state_dict(expected[at][2])
            assert same(steps_of(remote, {1}, lambda: children() - before), steps_of(local))


def with_process(row):
    return {"n": row["n"], "process": torch.tensor(os.getpid())}


def test_only_workers_call_the_functions_of_maps():
    with tdi.DataLoader(counted(40).map(with_process), batch_size=1, executor=EXECUTOR) as loader:
        assert "workers call with_process" in str(loader.explain())
        batches = list(loader)
        workers = loader.stats().workers
    assert [int(batch["n"]) for batch in batches] == list(range(40))
    assert os.getpid() not in {int(batch["process"]) for batch in batches}
    assert workers.answers >= 1
    assert workers.seconds > 0


def failing(row):
    if row["n"] == 5:
        raise KeyError("no such row")
    return row


def test_an_error_names_op_and_row_as_locally_and_comes_again():
    dataset = counted(9).map(failing).batch(2)
    local = iter(tdi.DataLoader(dataset, batch_size=None, distributed=True))
    with tdi.DataLoader(dataset, batch_size=None, executor=EXECUTOR) as loader:
        remote = iter(loader)
        for _ in range(2):
            assert same(next(remote), next(local))
        for _ in range(2):
            with pytest.raises(KeyError, match="no such row") as there:
                next(remote)
        with pytest.raises(KeyError) as here:
            next(local)
        if sys.version_info >= (3, 11):
            assert there.value.__notes__ == here.value.__notes__ == ["raised by map(failing): element 5"]
        assert "in failing" in str(there.value.__cause__)


def test_rows_that_fail_are_skipped_and_counted_as_locally():
    options = tdi.Options(on_error=tdi.Skip(max_count=1))
    dataset = counted(9).map(failing).with_options(options)
    arguments = {"batch_size": 3, "seed": 1, "with_info": True}
    local = tdi.DataLoader(dataset, **arguments, distributed=True)
    with tdi.DataLoader(dataset, **arguments, executor=EXECUTOR) as remote:
        assert same(steps_of(remote), expected := steps_of(local))
    assert torch.cat([batch["n"] for batch, *_ in expected]).tolist() == [0, 1, 2, 3, 4, 6, 7, 8]


def test_an_error_of_the_source_comes_after_the_rows_before_it():
    def rows():
        yield from range(3)
        raise OSError("the disk is gone")

    dataset = tdi.Dataset.from_generator(rows, NUMBER).map(torch.square)
    with tdi.DataLoader(dataset, batch_size=1, executor=EXECUTOR) as loader:
        steps = iter(loader)
        assert [int(next(steps)) for _ in range(3)] == [0, 1, 4]
        with pytest.raises(OSError, match="the disk is gone"):
            next(steps)


class Sets(torch.utils.data.IterableDataset):
    def __iter__(self):
        yield {0}
        yield {1}


def odd(row):
    return {"n": row["n"], "set": {int(row["n"])}} if row["n"] == 2 else {"n": row["n"], "set": "none"}


def test_what_cannot_travel_is_named_with_its_element():
    with tdi.DataLoader(counted(4).map(odd), batch_size=1, executor=EXECUTOR) as loader:
        steps = iter(loader)
        assert [int(next(steps)["n"]) for _ in range(2)] == [0, 1]
        with pytest.raises(TypeError, match=r"result\['set'\] is a builtins.set, which cannot") as error:
            next(steps)
        if sys.version_info >= (3, 11):
            assert error.value.__notes__ == ["raised by map(odd): element 2"]
    sets = tdi.Dataset.from_torch(Sets()).map(len)
    with (
        tdi.DataLoader(sets, batch_size=1, executor=EXECUTOR) as loader,
        pytest.raises(TypeError, match="element 0 of a map's input.* is a builtins.set"),
    ):
        next(iter(loader))


def text_of(row):
    return row["text"]


def lengths_and_sevens(texts):
    return [[len(text), 7] for text in texts]


def test_a_tokenizer_gets_blocks_in_a_worker():
    dataset = counted(20).map(text_of).tokenize(lengths_and_sevens)
    arguments = {"batch_size": 4, "seed": 1, "with_info": True}
    local = tdi.DataLoader(dataset, **arguments, distributed=True)
    with tdi.DataLoader(dataset, **arguments, executor=EXECUTOR) as remote:
        assert same(steps_of(remote), steps_of(local))


def test_a_state_goes_on_with_and_without_an_executor():
    dataset = counted(20).map(noisy).shuffle(5, seed=1)
    whole = list(tdi.DataLoader(dataset, batch_size=3, distributed=True, seed=4))
    with tdi.DataLoader(dataset, batch_size=3, seed=4, executor=EXECUTOR) as remote:
        steps = iter(remote)
        assert same([next(steps), next(steps)], whole[:2])
        local = tdi.DataLoader(dataset, batch_size=3, distributed=True, seed=4)
        local.load_state_dict(remote.state_dict())
        assert same(next(iter(local)), whole[2])
        remote.load_state_dict(local.state_dict())
        assert same(list(remote), whole[3:])


def test_iterators_may_take_turns():
    with tdi.DataLoader(counted(8).map(noisy), batch_size=1, seed=1, executor=EXECUTOR) as loader:
        one, other = iter(loader), iter(loader)
        taken = [int(next(steps)["n"]) for _ in range(8) for steps in (one, other)]
    assert taken == [2 * n for n in range(8) for _ in range(2)]


def test_threads_that_read_ahead_ask_the_same_workers():
    dataset = tdi.Dataset.zip((counted(40).map(noisy).prefetch(2), counted(40).map(bytes_of).prefetch(2)))
    local = tdi.DataLoader(dataset, batch_size=4, distributed=True, seed=1)
    with tdi.DataLoader(dataset, batch_size=4, seed=1, executor=EXECUTOR) as remote:
        assert same(list(remote), list(local))


def test_no_worker_is_left(own_children):
    with tdi.DataLoader(counted(6).map(noisy), batch_size=2, executor=EXECUTOR) as loader:
        list(loader)
        assert own_children()
    assert not own_children()
    loader = tdi.DataLoader(counted(6).map(noisy), batch_size=2, executor=EXECUTOR)
    next(iter(loader))
    del loader
    gc.collect()
    assert not own_children()


def test_a_closed_loader_starts_other_workers(own_children):
    loader = tdi.DataLoader(counted(6).map(noisy), batch_size=6, seed=1, executor=EXECUTOR)
    (before,) = list(loader)
    loader.close()
    loader.set_epoch(0)
    assert same(list(loader), [before])
    assert own_children()
    loader.close()


class Endless:
    def __init__(self):
        self.loader = None

    def __call__(self, row):
        return row["n"]


def test_a_loader_that_its_function_refers_to_is_collected(own_children):
    function = Endless()
    function.loader = tdi.DataLoader(counted(6).map(function), batch_size=2, executor=EXECUTOR)
    next(iter(function.loader))
    gone = weakref.ref(function)
    del function
    gc.collect()
    assert gone() is None
    assert not own_children()


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_strategy_asks_workers_too(replicas):
    dataset = counted(30).map(noisy).batch(4).with_options(tdi.Options(seed=2))
    strategy = tdi.MirroredStrategy(["cpu"] * replicas) if replicas > 1 else tdi.OneDeviceStrategy("cpu")

    def steps(options):
        distributed = strategy.distribute_dataset(dataset, options)
        taken = iter(distributed)
        found = [
            ([each["noise"].tolist() for each in strategy.local_results(step)], taken.state_dict()) for step in taken
        ]
        return found, taken.stats(), str(distributed.explain())

    remote, stats, explained = steps(tdi.InputOptions(executor=EXECUTOR))
    assert remote == steps(tdi.InputOptions())[0]
    assert stats.workers.answers > 0
    assert "workers call noisy" in explained


class Waits:
    """The number of a row; that of row 3 not before the gate is open."""

    def __init__(self, gate):
        self.gate = gate

    def __call__(self, row):
        if row["n"] == 3:
            self.gate.wait(30)
        return row["n"]


def test_an_interrupt_loses_no_row():
    gate = multiprocessing.Event()
    with tdi.DataLoader(counted(8).map(Waits(gate)), batch_size=1, executor=EXECUTOR) as loader:
        steps, taken = iter(loader), []
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            while True:
                taken.append(int(next(steps)))
        gate.set()
        taken += [int(batch) for batch in steps]
    assert taken == list(range(8))


@pytest.mark.parametrize(
    ("dataset", "named"),
    [
        (counted(4).batch(2).unbatch(), "Nor is there a `map` with a function in Python"),
        (Shards(4), "from_torch"),
    ],
)
def test_what_workers_cannot_help_with_is_refused_by_name(dataset, named):
    with pytest.raises(ValueError, match=named):
        iter(tdi.DataLoader(dataset, executor=EXECUTOR))
