# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Asks the workers of an engine, and hands out their answers in the order of the calls, each once.

Nothing runs in threads: what has happened meanwhile is looked at when the consumer takes an answer. Enough calls are
under way that workers need not wait for that. A call that was lost with its worker is asked again; one of the oldest
calls is asked of a second worker where the first one is slow, and the answer that comes second is dropped.
"""

from __future__ import annotations

import itertools
import os
import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch_distinput.executors._engine import Answer, Engine, Event, Lost, Ready
from torch_distinput.executors._scale import Scale
from torch_distinput.executors._server import Made, encoded, read_answer
from torch_distinput.observe._workers import WorkersStats

DEFAULT_AHEAD = 1 << 28  # bytes of answers that may be under way
_DEPTH = 2  # calls of a worker: one that it works on, one that waits
_LOSSES = 4  # workers that one call may cost, or that may end one after the other before one is ready
_SLOW = 4.0  # times the median after which a call is asked again
_SLOW_AT_LEAST = 0.1  # seconds
_LEAST_TIMES, _MEDIAN_OF = 3, 65  # answers
_WATCHED = 8  # calls that may be asked again: the consumer needs them first
_LONGEST_WAIT = 0.5  # seconds in one wait of the engine


@dataclass
class _Call:
    request: bytes
    since: dict[int, float] = field(default_factory=dict)  # workers that were asked, and when
    losses: int = 0
    answer: Made | None = None
    awaited: float | None = None  # since when


@dataclass
class _Worker:
    ready: bool = False
    calls: list[int] = field(default_factory=list)
    free_since: float = 0.0  # when it answered last


class Pool:
    """Workers of `engine`, between `least` and `most`. For one thread at a time."""

    def __init__(
        self,
        engine: Engine,
        least: int,
        most: int,
        most_bytes: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._engine, self._clock, self._owner = engine, clock, os.getpid()
        self._most = most
        self._most_bytes = DEFAULT_AHEAD if most_bytes is None else most_bytes
        self._scale = Scale(least, most)
        self._numbers = itertools.count()
        self._calls: dict[int, _Call] = {}
        self._unsent: deque[int] = deque()
        self._events: deque[Event] = deque()
        self._workers: dict[int, _Worker] = {}
        self._largest = 0
        self._lost_in_a_row = 0
        self._took: float | None = None
        self.turn = 0  # how often `begin` was called
        self._times: deque[float] = deque(maxlen=_MEDIAN_OF)
        self._answers = self._asked_again = self._dropped = self._lost = 0
        self._seconds = 0.0

    def begin(self) -> int:
        """Forgets all calls: their answers are dropped. Returns the number of this turn."""
        self._calls.clear()
        self._unsent.clear()
        self._took = None
        self.turn += 1
        return self.turn

    @property
    def may_ask(self) -> bool:
        """Whether another call may be under way."""
        return len(self._calls) < self._window()

    def _window(self) -> int:
        if not self._largest:
            return self._scale.target
        return min(_DEPTH * self._scale.target + 1, max(1, self._most_bytes // self._largest))

    def ask(self, request: Any) -> int:
        """Notes a call with a request, a bytearray or plain values that JSON holds, and returns its number. `look`
        sends it."""
        number = next(self._numbers)
        self._calls[number] = _Call(encoded(request))
        self._unsent.append(number)
        return number

    def look(self) -> None:
        """Follows what has happened, and sends what can be sent, without waiting."""
        self._look(0.0)

    def take(self, number: int) -> Any:
        """The answer to a call, and the end of it. Raises the error that the worker raised, again at each call, and
        RuntimeError where workers end again and again."""
        while (made := self.answer(number, _LONGEST_WAIT)) is None:
            pass
        if made.error is not None:
            raise made.error
        self.taken(number)
        return made.value

    def answer(self, number: int, seconds: float) -> Made | None:
        """The answer to a call, for which this waits about `seconds` at most; None: it has not come."""
        call = self._calls[number]
        if call.awaited is None:
            call.awaited = self._clock()
        if call.answer is None:
            self._look(min(seconds, self._until_slow(call)))
        return call.answer

    def taken(self, number: int) -> None:
        """The end of a call that was answered: the consumer goes on."""
        began, ended = self._calls.pop(number).awaited, self._clock()
        assert began is not None, "its answer was asked for"
        if self._took is not None:
            running = sum(worker.ready for worker in self._workers.values())
            self._scale.took(ended - began, max(0.0, began - self._took), running)
        self._took = ended

    def forget(self, number: int) -> None:
        """The end of a call whose answer nobody needs."""
        self._calls.pop(number, None)

    def stats(self) -> WorkersStats:
        """What was counted so far."""
        return WorkersStats(
            workers=sum(worker.ready for worker in self._workers.values()),
            most=self._most,
            needed=self._scale.needed,
            answers=self._answers,
            asked_again=self._asked_again,
            dropped=self._dropped,
            lost=self._lost,
            seconds=self._seconds,
        )

    def close(self) -> None:
        """Ends all workers."""
        self.begin()
        self._workers.clear()
        self._engine.close()

    def __del__(self) -> None:
        try:  # not `suppress`: at the interpreter's exit, names of modules are gone
            if os.getpid() == self._owner:
                self._engine.close()
        except Exception:  # noqa: BLE001 - half made, or the interpreter is exiting
            pass

    # What happens between calls.

    def _look(self, seconds: float) -> None:
        """Follows what the engine reports within `seconds`, and sends what can be sent."""
        self._fit_workers()
        self._send()
        self._events += self._engine.wait(seconds)
        while self._events:  # an error or an interrupt leaves the others for the next call
            self._follow(self._events.popleft())
        self._ask_slow_again()  # after all that had come was followed, while the consumer did something else
        self._send()

    def _fit_workers(self) -> None:
        while len(self._workers) < self._scale.target:
            self._workers[self._engine.start()] = _Worker(free_since=self._clock())
        idle = [number for number, worker in self._workers.items() if not worker.calls]
        while len(self._workers) > self._scale.target and idle:
            self._engine.stop(idle[-1])
            del self._workers[idle.pop()]

    def _follow(self, event: Event) -> None:
        if event.worker not in self._workers:
            return
        if isinstance(event, Ready):
            self._workers[event.worker].ready = True
            self._lost_in_a_row = 0
        elif isinstance(event, Answer):
            self._follow_answer(event)
        else:
            self._follow_loss(event)

    def _follow_answer(self, event: Answer) -> None:
        worker, now = self._workers[event.worker], self._clock()
        worker.calls.remove(event.call)
        call = self._calls.get(event.call)
        made = read_answer(event.memory, event.slab)
        self._answers += 1
        self._seconds += made.seconds
        self._scale.made(made.seconds)
        self._largest = max(self._largest, len(event.memory))
        if call is None or call.answer is not None:
            self._dropped += 1
        else:
            self._times.append(now - max(call.since[event.worker], worker.free_since))
            call.answer = made
        worker.free_since = now

    def _follow_loss(self, event: Lost) -> None:
        lost = self._workers.pop(event.worker)
        self._lost += 1
        self._lost_in_a_row += not lost.ready
        for number in reversed(lost.calls):
            call = self._calls.get(number)
            if call is None or call.answer is not None:
                continue
            del call.since[event.worker]
            call.losses += 1
            if not call.since:
                self._unsent.appendleft(number)
        worst = max((call.losses for call in self._calls.values()), default=0)
        if max(worst, self._lost_in_a_row) >= _LOSSES:
            what = "at one step" if worst >= _LOSSES else "before they took any work"
            raise RuntimeError(
                f"DataLoader: {_LOSSES} workers of `executor` in a row have ended {what}; the last one: {event.why}"
            )

    def _send(self) -> None:
        while self._unsent:
            free = [number for number, each in self._workers.items() if each.ready and len(each.calls) < _DEPTH]
            if not free:
                return
            number = self._unsent.popleft()
            if number in self._calls:
                self._send_to(min(free, key=self._load), number)

    def _send_to(self, worker: int, number: int) -> None:
        call = self._calls[number]
        call.since[worker] = self._clock()
        self._workers[worker].calls.append(number)
        self._engine.ask(worker, number, call.request)

    # Calls that are late.

    def _slow_at(self, call: _Call) -> float | None:
        """When `call` is late; None where that is not known, or nobody else can be asked."""
        if not call.since or len(self._times) < _LEAST_TIMES or not self._others(call):
            return None
        limit = max(_SLOW_AT_LEAST, _SLOW * statistics.median(self._times)) * 2 ** (len(call.since) - 1)
        return limit + max(max(since, self._workers[worker].free_since) for worker, since in call.since.items())

    def _until_slow(self, call: _Call) -> float:
        slow = self._slow_at(call)
        return _LONGEST_WAIT if slow is None else min(_LONGEST_WAIT, max(0.0, slow - self._clock()))

    def _ask_slow_again(self) -> None:
        """Asks for the oldest calls again, where they are late."""
        for number, call in itertools.islice(self._calls.items(), _WATCHED):
            slow = None if call.answer is not None else self._slow_at(call)
            if slow is not None and self._clock() >= slow:
                self._asked_again += 1
                self._send_to(min(self._others(call), key=self._load), number)

    def _others(self, call: _Call) -> list[int]:
        return [number for number, each in self._workers.items() if each.ready and number not in call.since]

    def _load(self, worker: int) -> int:
        return len(self._workers[worker].calls)
