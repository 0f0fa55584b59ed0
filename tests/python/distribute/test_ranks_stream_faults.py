# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Faults at known steps in several processes that read streams of their own: equal steps, or one error on all."""

import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from ranks import GONE, LATE, returned, run_ranks
from sample_files import tf_records

import torch_distinput as tdi

STEPS = 60


def stream(rank, rows=STEPS):
    """A stream whose end the other ranks cannot know."""
    return tdi.Dataset.range(1000 * rank, 1000 * rank + rows).filter(lambda row: True).batch(1)


def opened(make, strategy=None, **options):
    """An iterator where rank r reads the stream `make(r)`."""
    return (strategy or tdi.MultiWorkerMirroredStrategy()).distribute_datasets_from_function(
        lambda context: make(context.input_pipeline_id), tdi.InputOptions(**{"peer_timeout": 20, **options})
    )


def outcome(steps):
    """How a loop over `steps` ended: the number of steps, the type of the error, its text and that of its cause."""
    count = 0
    try:
        for _ in steps:
            count += 1
    except Exception as error:  # noqa: BLE001 - it is the result
        return count, type(error).__name__, (str(error), repr(error.__cause__))
    return count, None, ("", "")


def bad_row(row):
    if row == 1000 + 30:
        raise LookupError("row 30 is bad")
    return row


def source_fails(rank, folder):
    def rows():
        yield from range(30)
        if rank == 1:
            raise OSError("the disk is gone")
        yield from range(30, STEPS)

    return outcome(opened(lambda _: tdi.Dataset.from_generator(rows, tdi.TensorSpec([], torch.int64)).batch(1)))


def callable_fails(rank, folder):
    return outcome(opened(lambda id: stream(id).unbatch().map(bad_row).batch(1)))


def op_fails(rank, folder):
    """Rows of two shapes do not fit in one batch."""

    def widen(row):
        return row.new_zeros(1 + int(row == 1030))

    return outcome(opened(lambda id: stream(id).unbatch().map(widen).batch(5)))


def record_is_corrupt(rank, folder):
    path = Path(folder) / f"{rank}.tfrecord"
    content = bytearray(tf_records(str(i).encode() for i in range(STEPS)))
    if rank == 1:
        content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return outcome(opened(lambda _: tdi.TFRecordDataset(str(path), index=False).batch(1)))


def fails_at_length(rank, folder):
    """Fails with a text that is too long for a round."""

    def fail(row):
        if row == 1030:
            raise LookupError("x" * 3000)
        return row

    return outcome(opened(lambda id: stream(id).unbatch().map(fail).batch(1)))


def rank_is_slow(rank, folder):
    def slow(row):
        if row == 1030:
            time.sleep(2.0)
        return row

    return outcome(opened(lambda id: stream(id).unbatch().map(slow).batch(1)))


def rank_evaluates(rank, folder):
    """A rank that does not call `next` for longer than `peer_timeout`, but is alive."""

    def steps():
        for number, step in enumerate(opened(stream, peer_timeout=2)):
            if rank == 1 and number == 10:
                time.sleep(4)
            yield step

    return outcome(steps())


def loop_breaks(rank, folder):
    def steps():
        for number, step in enumerate(opened(stream, per_replica_buffer_size=4)):
            if rank == 1 and number == 10:
                break
            yield step

    return outcome(steps())


def loop_raises(rank, folder):
    def steps():
        for number, step in enumerate(opened(stream, per_replica_buffer_size=4)):
            if rank == 1 and number == 10:
                raise ValueError("the loss is NaN")
            yield step

    return outcome(steps())


def loaders_in_opposite_order(rank, folder):
    """Loaders whose rows have the same type cannot be distinguished: here one has wider rows."""
    strategy = tdi.MultiWorkerMirroredStrategy()
    loaders = [opened(make, strategy) for make in (stream, lambda id: stream(id).map(lambda row: (row, row)))]
    return outcome(step for loader in (loaders if rank == 1 else loaders[::-1]) for step in loader)


def several_iterators(rank, folder):
    """Two iterators over one dataset, whose steps take turns."""
    dataset = opened(stream)
    first, second = iter(dataset), iter(dataset)
    rows = []

    def steps():
        for one, two in zip(first, second, strict=True):
            rows.append(str(one) == str(two))
            yield one

    seen = outcome(steps())
    assert all(rows)
    return seen


def one_step_more(rank, folder):
    iterator = iter(opened(stream))

    def steps():
        for _ in range(10 + (rank == 0)):
            yield next(iterator)
        if rank > 0:
            iterator.close()
        else:
            yield from iterator

    return outcome(steps())


def structures_differ(rank, folder):
    return outcome(opened(lambda id: stream(id).map(lambda row: (row, row) if rank == 1 else row)))


def endless_and_not(rank, folder):
    return outcome(opened(lambda id: stream(id, 3).repeat(None if rank == 1 else 1)))


FAULTS = [
    source_fails,
    callable_fails,
    fails_at_length,
    op_fails,
    record_is_corrupt,
    rank_is_slow,
    rank_evaluates,
    loop_breaks,
    loop_raises,
    loaders_in_opposite_order,
    several_iterators,
    one_step_more,
    structures_differ,
    endless_and_not,
]

# By fault: the steps on every rank, the text of the error on all, and its cause on rank 1, which failed.
ALL_STEPS = (STEPS, "", None)
WANTED = {
    "source_fails": (30, "rank 1 failed: at step 30: OSError: the disk is gone", "OSError('the disk is gone')"),
    "callable_fails": (30, "rank 1 failed: at step 30: LookupError: row 30", "LookupError('row 30 is bad')"),
    "fails_at_length": (30, "rank 1 failed: at step 30: LookupError: xxx", "LookupError('xxx"),
    "op_fails": (6, "rank 1 failed: at step 6: batch: the element must have one shape", "UnequalRowsError("),
    "record_is_corrupt": (30, "rank 1 failed: at step 30: TFRecordDataset: ", "InvalidArgumentError("),
    "rank_is_slow": ALL_STEPS,
    "rank_evaluates": ALL_STEPS,
    "several_iterators": ALL_STEPS,
}


def play_all(rank, folder):
    seen = {}
    for fault in FAULTS:
        seen[fault.__name__] = fault(rank, folder)
        dist.barrier()
    return seen


@pytest.mark.parametrize("world", [2, 3, 5])
def test_every_fault_is_equal_steps_or_one_named_error_on_all(world, tmp_path):
    seen = returned(run_ranks(play_all, world, str(tmp_path), limit=120))
    for fault, (steps, says, cause) in WANTED.items():
        results = [one[fault] for one in seen]
        assert len({(count, error, text) for count, error, (text, _) in results}) == 1, (fault, results)
        count, error, (text, _) = results[0]
        assert (count, error) == (steps, "DistributedDatasetError" if cause else None), (fault, text)
        assert says in text, (fault, text)
        for rank, (*_, (_, own)) in enumerate(results):
            assert own.startswith(cause if cause and rank == 1 else ("None" if cause else "")), (fault, rank, own)
    # The others get an error that names the rank that left; each may have taken another number of steps by then.
    for fault, own in (("loop_breaks", None), ("loop_raises", "ValueError"), ("one_step_more", None)):
        results = [one[fault] for one in seen]
        leavers = range(1, world) if fault == "one_step_more" else [1]
        for rank, (count, error, (text, _)) in enumerate(results):
            if rank in leavers:
                assert (count, error) == (10, own), (fault, rank, text)
            else:
                assert error == "DistributedDatasetError", (fault, rank, text)
                left = 10 if fault == "one_step_more" else 11
                assert re.match(rf"DistributedIterator: rank \d left its loop after {left} steps", text), (
                    fault,
                    rank,
                    text,
                )
    for fault, what in (
        ("structures_differ", "type of the elements"),
        ("loaders_in_opposite_order", "type of the elements"),
        ("endless_and_not", "partial batch handling"),
    ):
        texts = {text for _, _, (text, _) in (one[fault] for one in seen)}
        assert len(texts) == 1 and f"the ranks must agree on {what}, but rank" in texts.pop(), (fault, texts)


def waits_for_its_own_rows(rank):
    """Rank 0 leaves after all released steps, while rank 1 waits for its source and has nothing to post in a round."""
    blocked = threading.Event()

    def rows():
        for row in range(1000):
            if rank == 1 and row == 30:
                blocked.wait(30)
            yield row

    dataset = opened(lambda _: tdi.Dataset.from_generator(rows, tdi.TensorSpec([], torch.int64)).batch(1))
    started = time.monotonic()
    try:
        for number, _ in enumerate(dataset):
            if rank == 0 and number == 28:
                return "left"
    finally:
        blocked.set()
        assert time.monotonic() - started < 15


def test_a_rank_that_waits_for_its_own_source_learns_of_the_others():
    here, there = run_ranks(waits_for_its_own_rows, 2)
    assert here == "left"
    assert isinstance(there, tdi.DistributedDatasetError) and "rank 0 left its loop after 29 steps" in str(there)


def dies(rank, how):
    iterator = iter(opened(stream_of(100_000), peer_timeout=3, per_replica_buffer_size=2))
    for number, _ in enumerate(iterator):
        if rank == 1 and number == 10:
            if how == "exit":
                return "left"  # while a round runs
            os.kill(os.getpid(), how)
        time.sleep(0.001)  # the training step
    return "ended"


def stream_of(rows):
    return lambda id: stream(id, rows)


def slow(*case):
    return pytest.param(*case, marks=pytest.mark.slow)


@pytest.mark.parametrize("world", [2, slow(3), 5])
def test_a_killed_rank_is_named_to_all_that_wait_for_it(world):
    results = run_ranks(dies, world, signal.SIGKILL, limit=40, store="agent")
    assert results[1] == GONE
    for rank, error in enumerate(results):
        assert rank == 1 or isinstance(error, tdi.DistributedDatasetError)
        assert rank == 1 or re.search(r"rank 1 on host \S+ ended unexpectedly \(process \d+\)", str(error))


@pytest.mark.parametrize("world", [2, slow(3), slow(5)])
def test_a_frozen_rank_is_named_to_all_that_wait_for_it(world):
    results = run_ranks(dies, world, signal.SIGSTOP, limit=20, may_hang=(1,), store="agent")
    assert results[1] == LATE
    for rank, error in enumerate(results):
        assert rank == 1 or re.search(r"rank 1 on host \S+ sent no heartbeat for", str(error))


def pauses(rank):
    """A rank that a child process stops, and wakes again after less than `peer_timeout`."""
    count = 0
    for number, _ in enumerate(opened(stream, peer_timeout=30)):
        if rank == 1 and number == 10:
            parent = os.getpid()
            if os.fork() == 0:
                time.sleep(1.5)
                os.kill(parent, signal.SIGCONT)
                os._exit(0)
            os.kill(parent, signal.SIGSTOP)
        count += 1
    return count


@pytest.mark.parametrize("world", [slow(2), 3, slow(5)])
def test_a_rank_that_was_frozen_for_a_while_goes_on(world):
    assert returned(run_ranks(pauses, world, limit=40, store="agent")) == [STEPS] * world


@pytest.mark.parametrize("world", [2, 3, slow(5)])
def test_a_process_that_ends_with_a_round_under_way_is_named(world):
    results = run_ranks(dies, world, "exit", limit=40)
    assert results.pop(1) == "left"
    for error in results:
        assert isinstance(error, tdi.DistributedDatasetError)
        assert "rank 1 left its loop after 11 steps" in str(error)


@pytest.mark.parametrize("world", [2, slow(3), slow(5)])
def test_the_end_of_the_stores_host_is_an_error_on_all_others(world):
    results = run_ranks(host_stops, world, signal.SIGKILL, limit=40, store="rank 0")
    assert results[0] == GONE
    for error in results[1:]:
        assert isinstance(error, tdi.DistributedDatasetError)
        assert re.search(r"lost the store of the process group|rank 0 on host \S+ ended unexpectedly", str(error))


@pytest.mark.parametrize(("world", "streams"), [(2, True), (3, True), slow(5, True), (2, False)])
def test_a_frozen_host_of_the_store_is_an_error_on_all_others(world, streams):
    results = run_ranks(host_stops, world, signal.SIGSTOP, streams, limit=20, may_hang=(0,), store="rank 0")
    assert results[0] == LATE
    for error in results[1:]:
        assert isinstance(error, tdi.DistributedDatasetError)
        assert re.search(r"no answer for 3 s|rank 0 on host \S+ sent no heartbeat for", str(error))


def interrupted(rank, buffer):
    """Rank 0 hosts the store and is frozen; rank 1 gets Ctrl-C. Returns how long rank 1 took, clean-up included."""
    iterator = iter(opened(stream_of(100_000), peer_timeout=60, per_replica_buffer_size=buffer))
    for _ in range(10):
        next(iterator)
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        store.wait(["rank 1 has ten steps"])  # it may still need the store for the tenth
        os.kill(os.getpid(), signal.SIGSTOP)
    store.set("rank 1 has ten steps", "")
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        for _ in iterator:
            pass
    iterator.close()
    del iterator
    return time.monotonic() - started


@pytest.mark.parametrize("buffer", [0, 1])
def test_ctrl_c_works_while_the_stores_host_is_frozen(buffer):
    results = run_ranks(interrupted, 2, buffer, limit=50, may_hang=(0,), store="rank 0")
    assert results[0] == LATE
    assert results[1] < 20, results[1]


def host_stops(rank, how, streams=True):
    """`streams`: of each rank, which need rounds; else one dataset of all."""
    strategy = tdi.MultiWorkerMirroredStrategy()
    options = tdi.InputOptions(peer_timeout=3)
    steps = (
        opened(stream_of(100_000), strategy, peer_timeout=3)
        if streams
        else strategy.distribute_dataset(tdi.Dataset.range(10_000_000).batch(2), options)
    )
    for number, _ in enumerate(steps):
        if rank == 0 and number == 10:
            os.kill(os.getpid(), how)
        time.sleep(0.001)  # the training step
