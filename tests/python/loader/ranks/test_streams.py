# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`DataLoader(distributed=True)` where each rank reads a stream or a sampler of its own."""

import itertools
import multiprocessing
import os
import signal
import threading
import time

import pytest
import torch
import torch.distributed as dist
from distributed_loaders import Share, Squares, rows_of
from ranks import returned, run_ranks
from torch.utils import data

import torch_distinput as tdi
from torch_distinput.distribute._store_values import posted_values


def streams(rank, workers, tail):
    loader = tdi.DataLoader(Share(rank), 2, distributed=True, num_workers=workers, tail=tail)
    with pytest.raises(TypeError, match="a stream of its own"):
        len(loader)
    steps = []
    for batch in loader:
        info = loader.last_info
        steps.append((batch.tolist(), info.valid[0], info.global_valid, info.has_value[0], info.row_start))
    return steps


@pytest.mark.both_pools(slow=True)
@pytest.mark.parametrize(
    ("workers", "tail"),
    [
        (0, "zero_rows"),
        (0, "padded"),
        (0, "until_first"),
        (2, "zero_rows"),
        pytest.param(2, "padded", marks=pytest.mark.slow),
        pytest.param(2, "until_first", marks=pytest.mark.slow),
    ],
)
def test_own_streams_end_together(workers, tail):
    ranks = returned(run_ranks(streams, 3, workers, tail, may_fork=True))
    assert len({len(steps) for steps in ranks}) == 1
    wanted = [list(range(100 * rank, 100 * rank + 3 * rank + 2)) for rank in range(3)]
    seen = [sorted(row for rows, valid, *_ in steps for row in rows[:valid]) for steps in ranks]
    if tail == "until_first":
        assert len(ranks[0]) == (2 if workers else 1)
    else:
        assert seen == wanted
        assert all(have for _, _, _, have, _ in ranks[2])
        assert not ranks[0][-1][3]
    for step in zip(*ranks):
        assert {total for _, _, total, *_ in step} == {sum(valid for _, valid, *_ in step)}
    if tail == "padded":
        assert {len(rows) for rows, *_ in ranks[0]} == {2}


class Numbers(data.IterableDataset):
    """The first `size` of a rank's own numbers."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size

    def __iter__(self):
        return ({"row": torch.tensor(100 * self.rank + i), "name": str(i)} for i in range(self.size))


def merged_streams(rank, sizes, workers):
    loader = tdi.DataLoader(Numbers(rank, sizes[rank]), 2, distributed=True, num_workers=workers, tail="merge")

    def steps(iterator):
        return [(batch["row"].tolist(), batch["name"], loader.last_info) for batch in iterator]

    whole = steps(loader)
    saved = [loader.state_dict() for _ in loader]
    rests = []
    for state in saved:
        loader.load_state_dict(state)
        rests.append(steps(loader))
    return whole, rests


@pytest.mark.both_pools(slow=True)
@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_own_streams_of_python_join_a_last_step_that_some_lack(workers):
    ranks = returned(run_ranks(merged_streams, 3, [6, 5, 4], workers, may_fork=True))
    for rank, (whole, rests) in enumerate(ranks):
        first = 100 * rank
        assert [rows for rows, *_ in whole] == [[first, first + 1], list(range(first + 2, first + 6 - rank))]
        assert [names for _, names, _ in whole] == [["0", "1"], ["2", "3", "4", "5"][: 4 - rank]]
        assert [(info.global_valid, info.valid, info.is_last) for *_, info in whole] == [
            (6, (2,), False),
            (9, (4 - rank,), True),
        ]
        assert [[rows for rows, *_ in rest] for rest in rests] == [[rows for rows, *_ in whole[1:]], []]


def empty_stream(rank):
    return [batch for batch in tdi.DataLoader([{"x": torch.ones(3)}] * 4, 2, sampler=range(4 * rank), distributed=True)]


def test_a_rank_whose_stream_is_empty_learns_the_type_from_others():
    first, second = returned(run_ranks(empty_stream, 2))
    assert [batch["x"].shape for batch in first] == [(0, 3), (0, 3)]
    assert [batch["x"].shape for batch in second] == [(2, 3), (2, 3)]


def own_sampler(rank):
    sampler = data.SubsetRandomSampler(range(rank + 1))
    loader = tdi.DataLoader(Squares(10), 2, sampler=sampler, distributed=True)
    return [rows_of(batch) for batch in loader]


def test_a_sampler_of_the_users_is_this_ranks_own():
    ranks = returned(run_ranks(own_sampler, 3))
    assert [len(steps) for steps in ranks] == [2, 2, 2]
    assert [sorted(itertools.chain(*steps)) for steps in ranks] == [[0], [0, 1], [0, 1, 2]]


def stream_restart(rank, state):
    loader = tdi.DataLoader(Share(rank + 1), 2, distributed=True)
    if state is None:
        iterator = iter(loader)
        first = [next(iterator).tolist() for _ in range(2)]
        saved = loader.state_dict()
        return first, saved, [(batch.tolist(), loader.last_info) for batch in iterator]
    loader.load_state_dict(state[rank])
    return [(batch.tolist(), loader.last_info) for batch in loader]


def test_own_streams_go_on_with_all_states():
    first = returned(run_ranks(stream_restart, 2, None))
    again = returned(run_ranks(stream_restart, 2, [saved for _, saved, _ in first]))
    assert again == [left for *_, left in first]
    with pytest.raises(ValueError, match="2 ranks that read streams of their own, but there are 1"):
        returned(run_ranks(stream_restart, 1, [saved for _, saved, _ in first]))


def own_batches(rank):
    batches = data.BatchSampler(range(rank + 1), 2, False)
    return [rows_of(batch) for batch in tdi.DataLoader(Squares(10), batch_sampler=batches, distributed=True)]


def test_a_batch_sampler_of_the_users_is_this_ranks_own():
    assert returned(run_ranks(own_batches, 3)) == [[[0], []], [[0, 1], []], [[0, 1], [2]]]


LIMIT = 20


def test_an_example_that_is_posted_later_is_received():
    store = dist.HashStore()
    threading.Timer(0.05, store.set, ("batch", b"example")).start()
    assert posted_values(store, ["batch"], LIMIT, "late") == [b"example"]


def test_an_example_that_nobody_posts_is_an_error_in_time():
    with pytest.raises(tdi.DistributedDatasetError, match="^nobody sent one$"):
        posted_values(dist.HashStore(), ["batch"], 0.1, "nobody sent one")


def host_store(pipe):
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    pipe.send(store.port)
    pipe.recv()


def test_ctrl_c_ends_the_wait_although_the_stores_host_is_frozen():
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe()
    host = context.Process(target=host_store, args=(theirs,), daemon=True)
    host.start()
    store = dist.TCPStore("127.0.0.1", ours.recv(), is_master=False)
    os.kill(host.pid, signal.SIGSTOP)
    main, ended = threading.get_ident(), threading.Event()

    def interrupt():
        deadline = time.monotonic() + LIMIT
        while not any(thread.name == "tdi-store" for thread in threading.enumerate()) and time.monotonic() < deadline:
            time.sleep(0.002)
        signal.pthread_kill(main, signal.SIGINT)
        if not ended.wait(LIMIT):
            host.kill()

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            posted_values(store, ["batch"], 10 * LIMIT, "late")
    finally:
        ended.set()
        thread.join()
        host.kill()
        host.join()
