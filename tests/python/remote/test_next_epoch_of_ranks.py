# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Ranks begin to read the next epoch when the last step of this one was taken, and nobody sees it but the clock."""

import io
import itertools
import json
import random
from dataclasses import dataclass

import numpy as np
import pytest
import torch.distributed as dist
from processes import wait_until
from ranks import returned, run_ranks

import torch_distinput as tdi
from torch_distinput.distribute._distributed import native_of
from torch_distinput.loader.ranks import _steps

ROWS, WIDTH = 23, 512
# Of rows so long that none is read for lying between two others: a gap of up to 512 KiB may be cheaper than a request.
WIDE = (640 << 10) // 8
STREAMS = tdi.Options(auto_shard_policy=tdi.AutoShardPolicy.STREAMS)
TAILS = ["zero_rows", "padded", "repeat", "drop", "merge"]
BETWEEN = ["nothing", "state", "resume", "earlier", "set_epoch", "seek", "exclude", "rows_of", "close"]


def array(width=WIDTH):
    file = io.BytesIO()
    np.save(file, np.arange(ROWS).reshape(-1, 1) * np.ones((1, width), np.int64))
    return file.getvalue()


@dataclass(frozen=True)
class Case:
    """`taken`: the steps of each epoch, 99 for all. `between`: what happens after each. `seed`: None: drawn."""

    options: tuple
    seed: int | None
    taken: tuple
    between: tuple


def cases(count, world):
    """As many cases, in which all pairs of a split and a tail occur."""
    draw = random.Random(world)
    pairs = itertools.cycle(itertools.product(["balanced", "tf"], TAILS))
    for split, tail in itertools.islice(pairs, count):
        epochs = range(draw.randint(2, 3))
        options = {"batch_size": draw.randint(2, 5), "split": split, "tail": tail}
        if draw.random() < 0.3:
            options["prefetch_bytes"] = draw.choice([1, 1 << 20])
        yield Case(
            tuple(options.items()),
            draw.choice([3, None]),
            tuple(draw.choice([2, 99, 99]) for _ in epochs),
            tuple(draw.choice(BETWEEN) for _ in epochs),
        )


def act(loader, name, epoch, earlier):
    if name == "state":
        loader.state_dict()
    elif name == "resume":
        loader.load_state_dict(loader.state_dict())
    elif name == "earlier":
        loader.load_state_dict(earlier)
    elif name == "set_epoch":
        loader.set_epoch(epoch + 1 if epoch % 2 else 7)
    elif name == "seek":
        loader.seek(1)
    elif name == "exclude":
        loader.exclude([3, 11])
    elif name == "rows_of" and loader.seed is not None:
        loader.rows_of(epoch + 1, 0)
    elif name == "close":
        loader.close()


def text_of(state):
    """`state`, comparable."""
    return json.dumps(state, sort_keys=True, default=str)


def seen_by(case, url):
    """What a rank sees: rows, infos, and states after the first and the last step of each epoch."""
    data = tdi.NumpyDataset(url).shuffle()
    loader = tdi.DataLoader(data, distributed=True, with_info=True, seed=case.seed, **dict(case.options))
    seen = []
    for epoch, (taken, between) in enumerate(zip(case.taken, case.between, strict=True)):
        earlier, iterator = None, iter(loader)
        for batch, info in itertools.islice(iterator, taken):
            seen.append((batch[:, 0].tolist(), info.__reduce__()[1]))
            earlier = earlier or loader.state_dict()
        seen.append(text_of(loader.state_dict()))
        act(loader, between, epoch, earlier)
    seen.append([batch[:, 0].tolist() for batch, _ in loader])
    return seen


def without_seed(seen, case):
    """What does not depend on the seed that was drawn."""
    if case.seed is not None:
        return seen
    return [
        part if isinstance(part, str) else (len(part[0]), part[1]) for part in seen[:-1] if not isinstance(part, str)
    ]


def early_and_late(rank, url, all_cases, early_ranks):
    reads_early = _steps.Steps._may_read_early
    results = []
    for case in all_cases:
        _steps.Steps._may_read_early = reads_early if rank in early_ranks else (lambda self: False)
        early = seen_by(case, url)
        _steps.Steps._may_read_early = lambda self: False
        late = seen_by(case, url)
        results.append((without_seed(early, case), without_seed(late, case), early[-1]))
    return results


@pytest.mark.parametrize("early_ranks", ["all", "some"])
@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_rows_states_and_infos_are_those_without_reading_early(http_store, world, early_ranks):
    url = http_store.put("rows", array())
    ranks = range(world) if early_ranks == "all" else range(0, world, 2)
    chosen = list(cases(20, world))
    results = returned(run_ranks(early_and_late, world, url, chosen, list(ranks), store="agent", limit=90))
    for case, of_case in zip(chosen, zip(*results, strict=True), strict=True):
        for early, late, _ in of_case:
            assert early == late, case


def bytes_before_the_consumer(rank, url, break_early):
    loader = tdi.DataLoader(tdi.NumpyDataset(url).shuffle(), batch_size=4, distributed=True)
    seen = []
    for step, batch in enumerate(loader):
        seen += batch[:, 0].tolist()
        if break_early and step == 1:
            break
    early = loader._loader_progress.next_epoch._native
    if break_early:
        return early is None, len(seen)
    own = {int(row) for step in range(len(loader)) for row in loader.rows_of(1, step, rank)}
    compared = {0, (ROWS - 1) // 2, ROWS - 1}  # by the ranks, which asks for them, too
    ahead = len(own | compared) * WIDE * 8
    wait_until(lambda: early.stats().network is not None and early.stats().network.bytes >= ahead)
    asked = early.stats().network.bytes
    iterator = iter(loader)
    second = [row for _, batch in zip(range(len(loader) - 1), iterator) for row in batch[:, 0].tolist()]
    twice = len(own & compared) * WIDE * 8  # bytes are kept for one reader
    assert loader.stats().network.bytes <= asked + twice, (asked, loader.stats().network)
    second += [row for batch in iterator for row in batch[:, 0].tolist()]
    return seen, second


@pytest.mark.parametrize("world", [1, 3])
def test_bytes_of_the_next_epoch_come_before_it_is_asked_for(http_store, world):
    url = http_store.put("rows", array(WIDE))
    results = returned(run_ranks(bytes_before_the_consumer, world, url, False, store="agent"))
    first, second = (sum((of_rank[k] for of_rank in results), []) for k in range(2))
    assert sorted(first) == sorted(second) == list(range(ROWS)) and first != second


def test_a_loop_that_is_left_early_reads_nothing_of_the_next_epoch(http_store):
    url = http_store.put("rows", array())
    results = returned(run_ranks(bytes_before_the_consumer, 2, url, True, store="agent"))
    assert all(nothing for nothing, _ in results)


def ends_with_early_reading(rank, url, how):
    loader = tdi.DataLoader(tdi.NumpyDataset(url).shuffle(), batch_size=4, distributed=True)
    rows = [row for batch in loader for row in batch[:, 0].tolist()]
    if how == "close":
        loader.close()
        return rows + [row for batch in loader for row in batch[:, 0].tolist()]
    return rows  # the process ends, and with it what nobody has asked for


@pytest.mark.parametrize("how", ["close", "exit"])
def test_what_nobody_asks_for_ends_without_a_peer(http_store, how):
    url = http_store.put("rows", array())
    results = returned(run_ranks(ends_with_early_reading, 2, url, how, store="agent"))
    times = 2 if how == "close" else 1
    assert sorted(sum(results, [])) == sorted([*range(ROWS)] * times)


def who_reads_early(rank, url, name):
    rows = tdi.NumpyDataset(url)
    pipelines = {
        "positions": rows.shuffle(),
        "users' code": rows.map(lambda row: row + 0),
        "a filter": rows.filter(lambda row: True),
        "streams": tdi.NumpyDataset([url, url]).filter(lambda row: True).with_options(STREAMS),
    }
    loader = tdi.DataLoader(pipelines[name], batch_size=4, distributed=True)
    seen = [row for batch in loader for row in batch[:, 0].tolist()]
    return loader._loader_progress.next_epoch._native is not None, seen


@pytest.mark.parametrize(
    ("name", "early"), [("positions", True), ("users' code", True), ("a filter", False), ("streams", False)]
)
def test_ranks_that_agree_on_steps_do_not_read_early(http_store, name, early):
    url = http_store.put("rows", array())
    results = returned(run_ranks(who_reads_early, 2, url, name, store="agent"))
    assert [begun for begun, _ in results] == [early, early]
    times = 2 if name == "streams" else 1
    assert sorted(sum((rows for _, rows in results), [])) == sorted([*range(ROWS)] * times)


def peers_that_read_early(rank, url, share):
    mesh = dist.init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    rows = tdi.NumpyDataset(url).shuffle(seed=1).batch(4)
    loader = tdi.DataLoader(rows, batch_size=None, distributed=mesh, share=share)
    seen = [row for batch in loader for row in batch[:, 0].tolist()]
    return loader._loader_progress.next_epoch._native is not None, seen


@pytest.mark.parametrize("share", [None, "node"])
def test_peers_that_share_what_one_reads_do_not_read_early(http_store, share):
    url = http_store.put("rows", array())
    results = returned(run_ranks(peers_that_read_early, 2, url, share, store="agent"))
    assert [early for early, _ in results] == [share is None] * 2
    assert results[0][1] == results[1][1] and sorted(results[0][1]) == list(range(ROWS))


def test_members_do_not_read_early(http_store):
    member = {"membership": tdi.Membership.fixed(0, 1), "global_batch_size": 4, "seed": 3}
    loader = tdi.DataLoader(tdi.NumpyDataset(http_store.put("rows", array())).shuffle(), **member)
    iterator, seen = iter(loader), []
    for batch in iterator:
        seen += batch[:, 0].tolist()
        loader.commit(True)
    assert sorted(seen) == list(range(ROWS))
    assert iterator._parts._reading.progress.next_epoch._native is None


def steps_of_own_data(rank, url):
    """Steps with rows of a rank that has 8 rows more than the one before, and of all."""
    rows = tdi.NumpyDataset(url).take(4 + 8 * rank).batch(4)
    own = rows.with_options(tdi.Options(auto_shard_policy=tdi.AutoShardPolicy.OFF))
    native = native_of(tdi.MultiWorkerMirroredStrategy(devices=["cpu"]).distribute_dataset(own)).iterate(seed=3)
    native.begin_reading(3)
    infos = [step[1] for step in iter(lambda: native.next(None), None)]
    return sum(info.has_value[0] for info in infos), len(infos)


def test_ranks_with_rows_of_their_own_still_take_equal_steps(http_store):
    results = returned(run_ranks(steps_of_own_data, 2, http_store.put("rows", array()), store="agent"))
    steps = [with_rows for with_rows, _ in results]
    assert steps[0] < steps[1] and {all_steps for _, all_steps in results} == {max(steps)}
