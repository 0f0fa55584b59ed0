# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What asks workers for the results of functions, over workers of this process that answer when they are told to."""

import itertools

import pytest

import torch_distinput as tdi
from torch_distinput.base._batch_format import joined
from torch_distinput.executors._called_functions import CalledFunctions
from torch_distinput.executors._engine import Answer, Lost, Ready
from torch_distinput.executors._server import Server


class HeldEngine:
    """Workers whose answers come as soon as `held` is False."""

    made: list["HeldEngine"] = []

    def __init__(self, work):
        self._server, self._numbers = Server(work), itertools.count()
        self._events, self._asked = [], []
        self.held = self.closed = False
        HeldEngine.made.append(self)

    def room(self):
        return 2

    def start(self):
        self._events.append(Ready(worker := next(self._numbers)))
        return worker

    def stop(self, worker):
        self._asked = [asked for asked in self._asked if asked[0] != worker]

    def ask(self, worker, call, request):
        self._asked.append((worker, call, request))

    def lose(self, worker):
        self.stop(worker)
        self._events.append(Lost(worker, "killed"))

    def wait(self, seconds):
        events, self._events = self._events, []
        if not self.held:
            asked, self._asked = self._asked, []
            events += [Answer(worker, call, joined(self._server.answer(request))) for worker, call, request in asked]
        return events

    def close(self):
        self.closed = True


@pytest.fixture
def called():
    HeldEngine.made.clear()
    return CalledFunctions(tdi.Executor(HeldEngine, max_workers=1), shares=1, most_bytes=None)


def results(called, call):
    for _ in range(100):
        if (found := called.take(call, 0.001)) is not None:
            called.forget(call)
            return found
    raise AssertionError("there is no answer")


def test_results_come_by_element_and_errors_with_their_class(called):
    asker = called.asker(lambda one, other: one / other, in_blocks=False)
    (passed, half), (failed, error) = results(called, asker.ask([(1, 2), (1, 0)], 7, [0, 1]))
    assert (passed, half, failed) == (True, 0.5, False)
    assert isinstance(error, ZeroDivisionError)


def test_a_block_that_a_function_cannot_take_is_given_one_by_one(called):
    given = []

    def lengths(texts):
        given.append(len(texts))
        return [len(text) for text in texts]

    asker = called.asker(lengths, in_blocks=True)
    assert results(called, asker.ask(["a", "bc"], 7, [0, 1])) == [(True, 1), (True, 2)]
    (first, second, third) = results(called, asker.ask(["a", 5, "bc"], 7, [2, 3, 4]))
    assert (first, third) == ((True, 1), (True, 2))
    assert isinstance(second[1], TypeError)
    assert given == [2, 3, 1, 1, 1]


def test_quick_functions_get_many_elements_a_call_and_slow_ones_few(called):
    asker = called.asker(lambda element: element, in_blocks=False)
    assert asker.worth_a_call() == 1
    results(called, asker.ask([(0,)], 7, [0]))
    assert asker.worth_a_call() == 64
    other = called.asker(lambda element: element, in_blocks=False)
    assert other.worth_a_call() == 1


def test_a_call_whose_results_nobody_takes_makes_room(called):
    asker = called.asker(lambda element: element, in_blocks=False)
    results(called, asker.ask([(0,)], 7, [0]))
    HeldEngine.made[0].held = True
    calls = []
    while asker.may_ask():
        calls.append(asker.ask([(1,)], 7, [1]))
    assert 1 < len(calls) < 10
    for call in calls:
        asker.forget(call)
    last = asker.ask([(2,)], 7, [2])
    assert asker.may_ask()
    HeldEngine.made[0].held = False
    assert results(called, last) == [(True, 2)]


def test_calls_under_way_are_asked_of_later_workers_when_the_first_ones_are_closed(called):
    asker = called.asker(lambda element: -element, in_blocks=False)
    results(called, asker.ask([(0,)], 7, [0]))
    HeldEngine.made[0].held = True
    call = asker.ask([(3,)], 7, [1])
    called.close()
    assert HeldEngine.made[0].closed
    assert results(called, call) == [(True, -3)]
    assert len(HeldEngine.made) == 2


def test_a_call_that_is_lost_with_its_worker_is_asked_again(called):
    asker = called.asker(lambda element: -element, in_blocks=False)
    results(called, asker.ask([(0,)], 7, [0]))
    engine = HeldEngine.made[0]
    engine.held = True
    call = asker.ask([(3,)], 7, [1])
    engine.lose(0)
    assert called.take(call, 0.001) is None
    engine.held = False
    assert results(called, call) == [(True, -3)]
    assert called.stats().lost == 1


def test_random_numbers_are_those_of_key_and_number(called):
    asker = called.asker(lambda _: tdi.random().initial_seed(), in_blocks=False)
    seeds = [value for _, value in results(called, asker.ask([(0,), (0,)], 7, [4, 5]))]
    assert len(set(seeds)) == 2
    assert results(called, asker.ask([(1,)], 7, [5])) == [(True, seeds[1])]
    assert results(called, asker.ask([(1,)], 8, [5])) != [(True, seeds[1])]
