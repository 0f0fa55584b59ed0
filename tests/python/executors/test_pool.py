# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A pool over simulated workers: every answer once and in order, whatever happens to the workers."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_engine import Clock, SimulatedEngine

from torch_distinput.executors._pool import Pool


def consume(pool, clock, count, work=0.0, at_step=lambda step: None):
    """Takes the answers to requests 0, 1, ...; returns them with the time that the consumer waited for each."""
    asked, found, waits, to_ask = deque(), [], [], iter(range(count))
    for step in range(count):
        while (not asked or pool.may_ask) and (request := next(to_ask, None)) is not None:
            asked.append(pool.ask(request))
        at_step(step)
        began = clock.now
        found.append(pool.take(asked.popleft())[0])
        waits.append(clock.now - began)
        clock.now += work
    return found, waits


@given(st.integers(1, 5), st.integers(1, 40), st.data())
def test_every_answer_once_and_in_order_whatever_is_slow_or_killed(workers, count, data):
    times = data.draw(st.lists(st.sampled_from([0.01, 0.02, 0.03, 5.0]), min_size=1, max_size=7))
    kills = data.draw(st.dictionaries(st.integers(0, count - 1), st.integers(0, 10), max_size=count))
    clock = Clock()
    engine = SimulatedEngine(clock, lambda worker, call: times[(worker + call) % len(times)])
    pool = Pool(engine, workers, workers, clock=clock)
    losses = []

    def kill(step):
        alive = sorted(engine.busy_until)
        if step in kills and alive and (not losses or step - losses[-1] > 3):
            losses.append(step)
            engine.kill(alive[kills[step] % len(alive)])

    found, _ = consume(pool, clock, count, at_step=kill)
    assert found == list(range(count))
    pool.look()
    stats = pool.stats()
    assert stats.lost == len(losses) and stats.answers - stats.dropped == count
    assert len(engine.busy_until) <= workers


def test_a_slow_worker_delays_a_step_by_some_medians_only():
    clock = Clock()
    engine = SimulatedEngine(clock, lambda worker, call: 1000.0 if worker == 0 and call >= 20 else 0.1)
    pool = Pool(engine, 3, 3, clock=clock)
    found, waits = consume(pool, clock, 60)
    assert found == list(range(60))
    assert max(waits) < 1.0
    assert pool.stats().asked_again == 2  # what it works on, and the call behind that


def test_the_answer_that_comes_second_is_dropped():
    clock = Clock()
    slow = iter([50.0])
    engine = SimulatedEngine(clock, lambda worker, call: next(slow, 0.1) if call == 10 else 0.1)
    pool = Pool(engine, 2, 2, clock=clock)
    found, waits = consume(pool, clock, 400, work=0.2)
    assert found == list(range(400))
    assert max(waits) < 2.0
    stats = pool.stats()
    assert stats.asked_again == stats.dropped == 2  # the slow call, and the one behind it


def test_a_program_that_works_for_long_asks_nothing_again():
    clock = Clock()
    pool = Pool(SimulatedEngine(clock, lambda worker, call: 0.1), 2, 2, clock=clock)
    consume(pool, clock, 100, work=5.0)
    assert pool.stats().asked_again == 0


@given(st.integers(1, 6), st.integers(0, 5000), st.integers(1, 20000))
def test_bytes_bound_what_is_under_way(workers, size, most_bytes):
    clock = Clock()
    engine = SimulatedEngine(clock, lambda worker, call: 0.1, size=size)
    pool = Pool(engine, workers, workers, most_bytes=most_bytes, clock=clock)
    under_way = []
    asked, to_ask = deque(), iter(range(30))
    for _ in range(30):
        while (not asked or pool.may_ask) and (request := next(to_ask, None)) is not None:
            asked.append(pool.ask(request))
        under_way.append(len(asked))
        pool.take(asked.popleft())
    assert under_way[0] <= workers
    assert all(count == 1 or count * size <= most_bytes for count in under_way[workers + 1 :])


def test_a_step_that_ends_its_workers_is_an_error():
    clock = Clock()
    engine = SimulatedEngine(clock, lambda worker, call: 0.1)
    pool = Pool(engine, 1, 1, clock=clock)
    engine.ask = lambda worker, *_: engine.kill(worker)
    with pytest.raises(RuntimeError, match="4 workers .* at one step; the last one: killed"):
        pool.take(pool.ask(0))


def test_workers_that_never_start_are_an_error():
    clock = Clock()
    engine = SimulatedEngine(clock, lambda worker, call: 0.1)
    start = engine.start

    def failing():
        number = start()
        engine.kill(number)
        return number

    engine.start = failing
    pool = Pool(engine, 1, 1, clock=clock)
    with pytest.raises(RuntimeError, match="before they took any work; the last one: killed"):
        pool.take(pool.ask(0))


@pytest.mark.parametrize(("made", "work", "needed"), [(0.1, 0.1, 1), (0.4, 0.1, 4), (2.0, 0.1, 20), (0.01, 0.1, 1)])
def test_as_many_workers_as_keep_up(made, work, needed):
    clock = Clock()
    engine = SimulatedEngine(clock, lambda worker, call: made, starts=1.0)
    pool = Pool(engine, 1, 64, clock=clock)
    _, waits = consume(pool, clock, 600, work=work)
    assert needed <= len(engine.busy_until) <= 1.5 * needed + 1
    assert sum(waits[-200:]) < 0.05 * 200 * work


def test_a_consumer_that_waits_without_end_gets_the_most_workers():
    clock = Clock()
    engine = SimulatedEngine(clock, lambda worker, call: 0.1)
    pool = Pool(engine, 1, 16, clock=clock)
    consume(pool, clock, 400)
    assert len(engine.busy_until) == 16


def test_workers_that_do_not_help_are_given_back():
    clock = Clock()
    engine = SimulatedEngine(clock, lambda worker, call: 0.1, capacity=4)
    pool = Pool(engine, 1, 64, clock=clock)
    consume(pool, clock, 2000, work=0.001)
    assert 4 <= len(engine.busy_until) <= 16


def test_workers_are_given_back_when_the_program_gets_slower():
    clock = Clock()
    engine = SimulatedEngine(clock, lambda worker, call: 0.8)
    pool = Pool(engine, 1, 64, clock=clock)
    consume(pool, clock, 500, work=0.1)
    assert len(engine.busy_until) >= 8
    pool.begin()
    consume(pool, clock, 500, work=0.8)
    assert len(engine.busy_until) <= 3


def test_a_closed_pool_closes_its_engine():
    engine = SimulatedEngine(Clock(), lambda worker, call: 0.1)
    Pool(engine, 1, 1).close()
    assert engine.closed


@given(st.integers(0, 40))
def test_an_interrupt_loses_nothing(at):
    clock = Clock()
    engine = SimulatedEngine(clock, lambda worker, call: 0.1)
    pool, found = Pool(engine, 2, 2, clock=clock), []
    calls, wait = iter(range(10**6)), engine.wait

    def interrupted(seconds):
        if next(calls) == at:
            raise KeyboardInterrupt
        return wait(seconds)

    engine.wait = interrupted
    asked, to_ask = deque(), iter(range(10))
    while len(found) < 10:
        try:
            while (not asked or pool.may_ask) and (request := next(to_ask, None)) is not None:
                asked.append(pool.ask(request))
            found.append(pool.take(asked[0])[0])
            asked.popleft()
        except KeyboardInterrupt:
            continue
    assert found == list(range(10))
