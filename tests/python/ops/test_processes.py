# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`map` with `num_workers`: processes run the function, and nothing else differs from a function that runs here."""

import collections
import gc
import itertools
import multiprocessing
import operator
import os
import random
import re
import signal
import sys
import threading
import time
import weakref

import numpy as np
import pipelines
import pytest
import torch
from child_processes import children
from forks import processes_forked
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import SOON, becomes_true, descriptors, in_child, is_alive, mappings, open_files, run_script, wait_until

import torch_distinput as tdi

Pair = collections.namedtuple("Pair", "left right")


class Failure(Exception):
    pass


class Strict(Exception):
    """Cannot be made from its `args`, so that it does not pickle."""

    def __init__(self, first, second):
        super().__init__(f"{first} {second}")


class Box:
    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, Box) and self.value == other.value


def number(element):
    return int(element["id"].flatten()[0]) if element["id"].numel() else 0


def unchanged(element):
    return element


def plus_one(x):
    return x + 1


def own_process(element):
    return os.getpid()


def as_tuple(row):
    return row["id"], row


def as_named_tuple(row):
    return Pair(row["x"], row["id"])


def texts_and_numbers(row):
    return {"text": f"row {number(row)}", "bytes": b"b", "float": 0.5, "int": number(row)}


def arrays(row):
    return np.full((2, 3), number(row), np.float32), np.arange(3)


def objects(row):
    return row["id"], Box(number(row))


def one_tensor_twice(row):
    return row["x"], row["x"]


def no_rows(row):
    return torch.empty(0, number(row))


def large(row):
    return torch.full((5000,), number(row))


FUNCTIONS = [
    pipelines.add_one,
    pipelines.jitter,
    unchanged,
    as_tuple,
    as_named_tuple,
    texts_and_numbers,
    arrays,
    objects,
    one_tensor_twice,
    no_rows,
    large,
]


def same(dataset, here, **options):
    assert pipelines.elements(dataset, **options) == pipelines.elements(here, **options)


@pytest.fixture(autouse=True)
def nothing_is_left():
    gc.collect()
    others = children()  # what tests before this one have left may end meanwhile
    before, maps = open_files(), mappings()
    yield
    becomes_true(lambda: (descriptors(), mappings()) == (len(before), maps) and children() <= others)
    now = open_files()
    assert len(now) == len(before), f"new: {sorted(now - before)}, gone: {sorted(before - now)}"
    assert mappings() == maps and children() <= others


@pytest.mark.parametrize("function", FUNCTIONS)
def test_processes_yield_what_this_process_yields(function):
    @settings(max_examples=3)
    @given(st.sampled_from(sorted(pipelines.SOURCES)), st.integers(0, 150), st.integers(1, 3), st.integers(0, 3))
    def check(source, count, workers, batch):
        rows = pipelines.SOURCES[source](count).with_options(tdi.Options(seed=count))
        if batch:
            rows = rows.batch(batch)
        same(rows.map(function, num_workers=workers), rows.map(function), epoch=2)

    check()


@settings(max_examples=12)
@given(pipelines.chains(), st.integers(1, 2), st.sampled_from([None, 0, 1, 3]), st.booleans())
def test_processes_may_stand_anywhere_in_a_pipeline(chain, workers, prefetch, stream_only):
    rows = pipelines.build(chain).with_options(tdi.Options(seed=3, prefetch=prefetch))
    through = rows.map(pipelines.jitter, num_workers=workers).unbatch().batch(3)
    here = rows.map(pipelines.jitter).unbatch().batch(3)
    same(through, here, epoch=1, stream_only=stream_only)


@pytest.mark.parametrize("source", sorted(pipelines.SOURCES))
def test_both_paths_agree_and_resume(source):
    rows = pipelines.SOURCES[source](9).with_options(tdi.Options(seed=3))
    pipelines.check_laws(rows.map(pipelines.jitter, num_workers=2).batch(2))


@pytest.mark.parametrize("source", sorted(pipelines.SOURCES))
@pytest.mark.parametrize(
    ("saves", "resumes"), [({}, {"num_workers": 2}), ({"num_workers": 2}, {"num_parallel_calls": 2})]
)
def test_a_state_does_not_depend_on_who_runs_the_function(source, saves, resumes):
    rows = pipelines.SOURCES[source](60).with_options(tdi.Options(seed=3))
    iterator = iter(rows.map(pipelines.jitter, **saves))
    for _ in range(25):
        next(iterator)
    other = iter(rows.map(pipelines.jitter, **resumes))
    other.load_state_dict(iterator.state_dict())
    assert [pipelines.plain(row) for row in other] == [pipelines.plain(row) for row in iterator]


def test_results_may_overtake_each_other_where_the_order_is_free():
    rows = pipelines.generated(90).map(pipelines.add_one, num_workers=2, deterministic=False)
    assert sorted(int(row["id"]) for row in rows) == list(range(90))
    few = pipelines.generated(9).map(pipelines.add_one, num_workers=2, deterministic=False)
    tdi.testing.assert_resumable(few, ordered=False)


def own_process_after_a_while(element):
    time.sleep(1e-4)
    return os.getpid()


def test_each_of_the_processes_takes_part():
    pids = {int(pid) for pid in tdi.Dataset.range(500).map(own_process_after_a_while, num_workers=3)}
    assert len(pids) == 3 and os.getpid() not in pids


def doubled(x):
    return x * 2


def test_functions_in_processes_may_follow_each_other_and_be_inside_of_others():
    numbers = tdi.Dataset.range(300)
    twice = numbers.map(plus_one, num_workers=2).map(doubled, num_workers=1)
    assert [int(x) for x in twice] == [2 * x + 2 for x in range(300)]
    flat = tdi.Dataset.range(4).flat_map(lambda n: tdi.Dataset.range(int(n)).map(plus_one, num_workers=1))
    assert [int(x) for x in flat] == [1, 1, 2, 1, 2, 3]


def test_what_is_read_ahead_is_bounded():
    read = []

    def rows():
        for number in range(10_000):
            read.append(number)
            yield number

    iterator = iter(tdi.Dataset.from_generator(rows, tdi.TensorSpec((), torch.int64)).map(abs, num_workers=1))
    for seen in range(1, 5000):
        next(iterator)
        assert len(read) - seen <= 4 * 64


def test_the_parts_of_a_tuple_are_several_arguments():
    pairs = tdi.Dataset.range(5).enumerate(10)
    assert [int(total) for total in pairs.map(operator.add, num_workers=2)] == [10, 12, 14, 16, 18]


kept = []  # by the process that runs `oldest`


def oldest(row):
    kept.append(row)
    return kept[0]["id"], kept[-1]["id"]


def test_a_function_may_keep_what_it_gets():
    pairs = list(pipelines.slices(300).map(oldest, num_workers=1))
    assert [(int(first), int(last)) for first, last in pairs] == [(0, number) for number in range(300)]


def test_replicas_run_it_on_their_own_rows(two):
    rows = pipelines.slices(10).batch(4).map(pipelines.jitter, row_wise=True, num_workers=2)
    here = pipelines.slices(10).batch(4).map(pipelines.jitter, row_wise=True)
    options = tdi.Options(seed=4)
    steps = [list(two.distribute_dataset(dataset.with_options(options))) for dataset in (rows, here)]
    through, expected = ([pipelines.plain(two.local_results(step)) for step in each] for each in steps)
    assert through == expected


def numbers_in_a_list(element):
    return {"x": [1, 2]}


def test_declared_types_hold():
    spec = {"x": tdi.TensorSpec((2,), torch.int64)}
    (result,) = tdi.Dataset.range(1).map(numbers_in_a_list, element_spec=spec, num_workers=1)
    assert result["x"].tolist() == [1, 2]


# Errors.


def fail_at_5(x, *_):
    if x.min() <= 5 <= x.max():
        raise Failure("no good", x.sum().item())
    return x


def changes_type(x):
    return x if x != 5 else x.float()


def changes_structure(x):
    return x if x != 5 else {"a": {1: x}}


def stops(x):
    return x if x != 5 else next(iter(()))


def raised(dataset):
    """How many elements came before the error, and what it is."""
    seen = 0
    try:
        for _ in dataset:
            seen += 1
    except Exception as error:  # noqa: BLE001 - it is the result
        return seen, type(error), str(error), getattr(error, "__notes__", None)
    return seen, None


STREAM = tdi.Dataset.from_generator(lambda: iter(range(9)), tdi.TensorSpec((), torch.int64))


@pytest.mark.parametrize("function", [fail_at_5, changes_type, changes_structure, stops])
@pytest.mark.parametrize("rows", [tdi.Dataset.range(9), STREAM], ids=str)
def test_errors_are_those_of_a_function_that_runs_here(function, rows):
    found = raised(rows.map(function, num_workers=2))
    assert found == raised(rows.map(function)) and found[1] is not None
    batches = rows.batch(2)
    assert raised(batches.map(fail_at_5, num_workers=2)) == raised(batches.map(fail_at_5))


def without_the_first(batch):
    return {"id": batch["id"][1:]}


def test_a_batch_does_not_keep_its_rows():
    rows = pipelines.slices(6).batch(3)
    found = raised(rows.map(without_the_first, row_wise=True, num_workers=2))
    assert found == raised(rows.map(without_the_first, row_wise=True)) and found[1] is ValueError


def test_the_cause_of_an_error_shows_where_it_was_raised():
    with pytest.raises(Failure) as caught:
        list(tdi.Dataset.range(9).map(fail_at_5, num_workers=1))
    assert re.search(r"line \d+, in fail_at_5\n.*Failure: \(.no good.", str(caught.value.__cause__), re.DOTALL)


def strict(x):
    raise Strict("a", "b")


def test_an_error_that_does_not_pickle_keeps_its_text():
    assert raised(tdi.Dataset.range(3).map(strict, num_workers=1))[1:3] == (RuntimeError, "Strict: a b")


def lock(x):
    return (x, threading.Lock()) if x == 5 else (x, 0)


@pytest.mark.parametrize("rows", [tdi.Dataset.range(9), STREAM], ids=str)
def test_what_does_not_pickle_is_an_error_of_its_row(rows):
    seen, kind, message, notes = raised(rows.map(lock, num_workers=2))
    assert (seen, kind) == (5, TypeError) and "cannot pickle '_thread.lock'" in message
    if sys.version_info >= (3, 11):
        assert notes[-1] == "raised by map(lock): element 5"  # Python 3.14 adds some of its own


def test_an_argument_that_does_not_pickle_is_an_error_of_its_row():
    locks = tdi.Dataset.range(9).map(lambda x: threading.Lock() if x == 5 else Box(1))
    seen, kind, message, _ = raised(locks.map(unchanged, num_workers=2))
    assert (seen, kind) == (5, TypeError) and "cannot pickle '_thread.lock'" in message


def third_fails(x):
    if x % 3 == 0:
        raise Failure("third")
    return x


@pytest.mark.parametrize("deterministic", [True, False])
def test_rows_that_fail_can_be_skipped(deterministic):
    rows = tdi.Dataset.range(200).map(third_fails, num_workers=2, deterministic=deterministic)
    iterator = iter(rows.with_options(tdi.Options(on_error="skip")))
    assert sorted(int(x) for x in iterator) == [x for x in range(200) if x % 3]
    assert iterator.stats().skipped == 67


# Deaths. Every wait has a limit: a test that hangs is a test that fails.


def dies_at_5(x):
    if (x == 5).any():
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def leaves_at_5(x):
    if (x == 5).any():
        os._exit(3)
    return x


@pytest.mark.parametrize("rows", [tdi.Dataset.range(400), tdi.Dataset.range(400).batch(8), STREAM], ids=str)
@pytest.mark.parametrize("on_error", [None, "skip"])
@pytest.mark.parametrize(
    ("function", "how"), [(dies_at_5, "was killed by SIGKILL"), (leaves_at_5, "ended with exit code 3")]
)
def test_a_process_that_dies_is_an_error_that_names_the_row(function, how, on_error, rows):
    if on_error:
        rows = rows.with_options(tdi.Options(on_error=on_error))
    iterator = iter(rows.map(function, num_workers=2))
    number = 0 if "batch" in repr(rows) else 5
    message = (
        rf"map\({function.__name__}\): element {number}: the process that ran the function for it \(pid \d+\) {how}"
    )
    start = time.monotonic()
    for _ in range(2):
        with pytest.raises(RuntimeError, match=message):
            list(iterator)
    assert time.monotonic() - start < SOON


@pytest.mark.parametrize("make", [tdi.Dataset.range, lambda n: tdi.Dataset.range(n).filter(lambda x: True)])
def test_a_process_that_is_killed_at_any_moment_is_an_error_after_whole_elements(make):
    chance = random.Random(7)
    for _ in range(6):
        iterator = iter(make(100_000).map(plus_one, num_workers=2))
        pid, numbers = chance.choice(pids_of(iterator)), itertools.count(2)
        timer = threading.Timer(chance.random() / 20, os.kill, (pid, signal.SIGKILL))
        timer.start()
        with pytest.raises(
            RuntimeError, match=rf"element \d+: the process that .* \(pid {pid}\) was killed by SIGKILL"
        ):
            for x in iterator:
                assert x == next(numbers)
        timer.join()


def pids_of(iterator):
    others = children()
    next(iterator)
    return sorted(children() - others)


def sleeps(x):
    if x >= 5:
        time.sleep(100)
    return x


def ignores_signals(x):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return sleeps(x)


@pytest.mark.parametrize("function", [sleeps, ignores_signals])
@pytest.mark.parametrize("make", [tdi.Dataset.range, lambda n: STREAM], ids=["plan", "stream"])
def test_processes_end_with_the_iterator_even_if_they_hang(function, make):
    iterator = iter(make(9).map(function, num_workers=2))
    pids = pids_of(iterator)
    assert len(pids) == 2
    start = time.monotonic()
    del iterator
    gc.collect()
    assert time.monotonic() - start < SOON
    wait_until(lambda: not any(map(is_alive, pids)))


@pytest.mark.parametrize("make", [tdi.Dataset.range, lambda n: STREAM], ids=["plan", "stream"])
def test_all_epochs_of_an_iterator_have_the_same_processes(make):
    others = children()
    iterator = iter(make(9).map(own_process, num_workers=1).repeat(4))
    assert len({int(pid) for pid in iterator}) == 1
    iterator.close()
    assert children() <= others


@pytest.mark.parametrize("method", ["fork", pytest.param("forkserver", marks=pytest.mark.slow)])
def test_processes_end_with_their_consumer_even_if_it_is_killed(method):
    script = f"""
        import multiprocessing, os, signal
        multiprocessing.set_start_method("{method}")
        iterator = iter(tdi.Dataset.range(10**6).map(abs, num_workers=2))
        next(iterator)
        print(*[process.pid for process in multiprocessing.active_children()], flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    pids = [int(pid) for pid in run_script(script).stdout.split()]
    assert len(pids) == 2
    wait_until(lambda: not any(map(is_alive, pids)))


@pytest.mark.parametrize("function", ["lambda x: x", "__import__('time').sleep"])
def test_processes_end_with_the_interpreter(function):
    script = f"""
        import multiprocessing, threading
        multiprocessing.set_start_method("fork")
        iterator = iter(tdi.Dataset.range(10**6).map(lambda x: ({function})(x) if x > 99 else x, num_workers=2))
        next(iterator)
        print(*[process.pid for process in multiprocessing.active_children()], flush=True)
    """
    done = run_script(script)
    assert done.returncode == 0 and done.stderr == ""
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2 and not any(map(is_alive, pids))


@pytest.mark.parametrize("threads", [None, 0])
def test_ctrl_c_is_for_the_consumer_which_may_go_on(threads):
    script = f"""
        import multiprocessing, os, signal, threading, time
        os.setpgrp()
        multiprocessing.set_start_method("fork")
        flag = multiprocessing.Event()
        def wait(x):
            if x == 50: flag.wait()
            return x
        rows = tdi.Dataset.range(100).with_options(tdi.Options(num_threads={threads}))
        iterator = iter(rows.filter(lambda x: True).map(wait, num_workers=2))
        seen = [int(next(iterator)) for _ in range(10)]
        threading.Timer(0.3, os.killpg, (0, signal.SIGINT)).start()
        try:
            while True: seen.append(int(next(iterator)))
        except KeyboardInterrupt:
            flag.set()
        seen += [int(x) for x in iterator]
        print(seen == list(range(100)))
    """
    done = run_script(script)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_the_exit_of_a_forked_child_ends_no_process_of_its_parent():
    script = """
        import multiprocessing, os, sys
        from torch_distinput.ops import _processes
        multiprocessing.set_start_method("fork")
        iterator = iter(tdi.Dataset.range(100).map(lambda x: x, num_workers=2))
        next(iterator)
        if (child := os.fork()) == 0:
            _processes._end_all()  # as at exit; multiprocessing itself would end its parent's processes there
            os._exit(0)
        os.waitpid(child, 0)
        print(sum(int(x) for x in iterator))
    """
    assert run_script(script).stdout == "4950\n"


# Where processes may be had.


def test_an_iterator_belongs_to_the_process_that_made_it():
    iterator = iter(pipelines.generated(9).map(pipelines.add_one, num_workers=1))
    next(iterator)

    def in_fork():
        multiprocessing.set_start_method("fork", force=True)  # a server of forks belongs to the process that started it
        return list(pipelines.generated(3).map(number, num_workers=1))

    child = in_child(in_fork)
    assert child == "[tensor(0), tensor(1), tensor(2)]"
    assert [int(row["id"]) for row in iterator] == list(range(1, 9))


def test_a_daemonic_process_runs_the_function_itself():
    def values(results):
        dataset = tdi.Dataset.range(3).map(own_process, num_workers=2)
        results.put(([int(pid) for pid in dataset], os.getpid(), "this process runs" in dataset.explain()))

    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    process = context.Process(target=values, args=(results,), daemon=True)
    process.start()
    pids, pid, explained = results.get()
    process.join()
    process.close()
    results.close()
    assert pids == [pid] * 3 and explained
    # Of a child that was forked while others share memory, a pipe is kept until the library looks who is left.
    list(tdi.Dataset.range(3).map(own_process, num_workers=1))


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_function_that_pickles_runs_in_processes_that_are_not_forked(method, tmp_path):
    script = f"""
        import multiprocessing, torch, torch_distinput as tdi
        from multiprocessing import forkserver
        class Failure(Exception): pass
        def double(x):
            if x == 70: raise Failure("seventy")
            return 2 * x + torch.randint(9, (), generator=tdi.random())
        if __name__ == "__main__":
            multiprocessing.set_start_method("{method}")
            rows = tdi.Dataset.range(90).with_options(tdi.Options(seed=1))
            seen = {{None: [], 2: []}}
            for workers, values in seen.items():
                try:
                    for x in rows.map(double, num_workers=workers): values.append(int(x))
                except Failure as error: values.append(str(error))
            print(seen[2] == seen[None], len(seen[2]), "torch_distinput" in forkserver._forkserver._preload_modules)
            try:
                list(rows.map(lambda x: x, num_workers=2))
            except Exception as error:
                print(type(error).__name__, error, *getattr(error, "__notes__", []))
    """
    path = tmp_path / "program.py"
    path.write_text("\n".join(line[8:] for line in script.splitlines()))
    done = run_script(f"__file__ = {str(path)!r}\nexec(compile(open(__file__).read(), __file__, 'exec'))", timeout=120)
    assert done.stderr == ""
    first, second = done.stdout.splitlines()
    assert first == f"True 71 {method == 'forkserver'}" and "pickle" in second and done.returncode == 0
    if sys.version_info >= (3, 11):
        assert f"start of a process of a map by the method '{method}'" in second
        assert 'unless `multiprocessing.set_start_method("fork")` was called' in second


# Arguments.


def test_numbers_of_processes_are_checked():
    rows = tdi.Dataset.range(3)
    with pytest.raises(ValueError, match="map: `num_workers` must be at least 1, but is 0"):
        rows.map(abs, num_workers=0)
    with pytest.raises(TypeError, match="map: `num_workers` must be an int"):
        rows.map(abs, num_workers="2")
    with pytest.raises(ValueError, match="map: give `num_workers`, for processes, or `num_parallel_calls`"):
        rows.map(abs, 2, num_workers=2)
    with pytest.raises(ValueError, match="map: `num_workers` is for Python functions, but Hashing runs natively"):
        rows.map(tdi.preprocessing.Hashing(3), num_workers=2)


def test_a_description_says_that_processes_run():
    streamed = pipelines.generated(3).map(pipelines.add_one, num_workers=2)
    assert "map(add_one, num_workers=2)" in repr(streamed)
    assert "2 processes run add_one" in streamed.explain() and "threads: processes (2)" in streamed.explain()
    assert "2 processes run add_one" in pipelines.slices(3).map(pipelines.add_one, num_workers=2).explain()


def test_a_cycle_through_a_function_is_freed():
    class Owner:
        def augment(self, x):
            return x

    owner = Owner()
    owner.rows = tdi.Dataset.range(8).map(owner.augment, num_workers=1)
    owner.iterator = iter(owner.rows)
    with processes_forked():  # an iterator does not pickle
        next(owner.iterator)
    alive = weakref.ref(owner)
    del owner
    wait_until(lambda: gc.collect() >= 0 and alive() is None)
