# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Functions of a pipeline that workers call, where only reading tells which rows a step has.

The process that reads has the source, all positions and the ops that look at several rows. A request is some elements,
their numbers and the key of their random numbers, so that its answer depends on nothing else.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch_distinput import _C
from torch_distinput.base._batch_format import Packed, joined, pack, view
from torch_distinput.executors._executor import Executor
from torch_distinput.executors._pool import Pool
from torch_distinput.executors._server import Made, described, rebuilt
from torch_distinput.observe._workers import WorkersStats

_ARGUMENT = "`executor`"
_SECONDS_OF_CALL = 0.01  # that the elements of a call should take together: far more than a call costs
_MOST_ELEMENTS = 64


@dataclass
class FunctionsWork:
    """Calls of functions, each a callable and whether it gets lists of elements. A request is the place of a function,
    the key and the numbers of the elements, and the elements: the arguments for each, or what the list holds."""

    functions: list[tuple[Callable[..., Any], bool]] = field(default_factory=list)

    def open(self) -> Callable[[memoryview], Packed]:
        return self._results

    def _results(self, request: memoryview) -> Packed:
        place, key, numbers, elements = view(bytearray(request))
        function, in_blocks = self.functions[place]
        with _C.RowNumbers(key, numbers) as rows:
            found = _of_block(function, elements, rows) if in_blocks else _of_each(function, elements, rows)
        try:
            return pack(found)
        except TypeError:
            return pack([_that_travels(*each) for each in found])


def _of_each(function: Callable[..., Any], elements: list[Any], rows: _C.RowNumbers) -> list[tuple[bool, Any]]:
    """For each element whether the function returned, and the result or the error."""
    found = []
    for row, arguments in enumerate(elements):
        rows.begin(row)
        try:
            found.append((True, function(*arguments)))
        except Exception as error:  # noqa: BLE001 - of the user's: who asked raises it
            found.append((False, described(error)))
    return found


def _of_block(function: Callable[..., Any], elements: list[Any], rows: _C.RowNumbers) -> list[tuple[bool, Any]]:
    """As `_of_each`: where it cannot take the list, it gets lists of one."""
    try:
        results = list(function(elements))
        if len(results) == len(elements):
            return [(True, result) for result in results]
    except Exception:  # noqa: BLE001 - raised again by the element that causes it
        pass
    return _of_each(lambda element: _only(function([element])), [(element,) for element in elements], rows)


def _only(results: Any) -> Any:
    (result,) = results
    return result


def _that_travels(returned: bool, result: Any) -> tuple[bool, Any]:
    try:
        pack([result], _ARGUMENT, ("result",))
        return returned, result
    except TypeError as error:
        return False, described(error)


@dataclass(eq=False)
class _Call:
    request: bytearray
    numbers: list[int]
    place: int
    number: int | None = None  # in the pool, once it was sent there
    made: Made | None = None


class CalledFunctions:
    """Asks workers of `executor` for results of the functions of one pipeline, of which `shares` processes have a copy.
    Any thread may ask: the one that waits for an answer follows what the workers do, for others too."""

    def __init__(self, executor: Executor, shares: int, most_bytes: int | None):
        self._executor, self._shares, self._most_bytes = executor, shares, most_bytes
        self._work = FunctionsWork()
        self._pool: Pool | None = None
        self._lock = threading.Lock()  # of the pool
        self._numbers = itertools.count()
        self._calls: dict[int, _Call] = {}
        self._unsent: deque[_Call] = deque()
        self._unneeded: deque[_Call] = deque()
        self._seconds: dict[int, float] = {}  # of an element, by the place of the function

    def asker(self, function: Callable[..., Any], in_blocks: bool) -> Asker:
        """What asks for the results of a function, as native code sees it."""
        self._work.functions.append((function, in_blocks))
        return Asker(self, len(self._work.functions) - 1)

    @property
    def names(self) -> list[str]:
        """Those of the functions."""
        return [getattr(function, "__name__", type(function).__name__) for function, _ in self._work.functions]

    def open(self) -> None:
        """Begins to start the workers."""
        with self._lock:
            self._following().look()

    def may_ask(self) -> bool:
        return not self._unsent and (self._pool is None or self._pool.may_ask)

    def worth_a_call(self, place: int) -> int:
        seconds = self._seconds.get(place, _SECONDS_OF_CALL)
        return max(1, min(_MOST_ELEMENTS, int(_SECONDS_OF_CALL / max(seconds, 1e-9))))

    def ask(self, place: int, elements: list[Any], key: int, numbers: list[int]) -> int:
        request = _request(place, key, numbers, elements)
        number, call = next(self._numbers), _Call(request, numbers, place)
        self._calls[number] = call
        self._unsent.append(call)
        if self._lock.acquire(blocking=False):  # else who has it sends this
            try:
                self._following().look()
            finally:
                self._lock.release()
        return number

    def take(self, number: int, seconds: float) -> list[tuple[bool, Any]] | None:
        """The results, or None where they have not come within about `seconds`. Raises what a pool's `take` raises."""
        call = self._calls[number]
        if call.made is None and self._lock.acquire(timeout=seconds):
            try:
                call.made = self._made(call, seconds)
            finally:
                self._lock.release()
        if call.made is None:
            return None
        if call.made.error is not None:
            raise call.made.error
        return [(returned, value if returned else rebuilt(value)) for returned, value in call.made.value]

    def forget(self, number: int) -> None:
        call = self._calls.pop(number)
        if call.made is None:
            self._unneeded.append(call)

    def _made(self, call: _Call, seconds: float) -> Made | None:
        pool = self._following()
        assert call.number is not None, "it was sent"
        made = pool.answer(call.number, seconds)
        if made is not None:
            pool.taken(call.number)
            taken, before = made.seconds / len(call.numbers), self._seconds.get(call.place)
            self._seconds[call.place] = taken if before is None else (3 * before + taken) / 4
        return made

    def _following(self) -> Pool:
        """The pool, which has been told what was asked and what nobody needs any more."""
        if self._pool is None:
            engine = self._executor.open(self._work)
            most = self._executor.most(engine, self._shares)
            self._pool = Pool(engine, self._executor.min_workers, most, self._most_bytes)
        while self._unsent:
            call = self._unsent.popleft()
            call.number = self._pool.ask(call.request)
        while self._unneeded:
            call = self._unneeded.popleft()
            if call.number is not None:
                self._pool.forget(call.number)
        return self._pool

    def stats(self) -> WorkersStats | None:
        """What was counted so far; None before the workers."""
        return None if self._pool is None else self._pool.stats()

    def close(self) -> None:
        """Ends the workers; calls that are under way, and later ones, start others."""
        with self._lock:
            pool, self._pool = self._pool, None
            for call in self._calls.values():
                if call.made is None and call not in self._unsent:
                    self._unsent.append(call)
        if pool is not None:
            pool.close()


@dataclass(frozen=True)
class Asker:
    """What native code asks for the results of one function."""

    _called: CalledFunctions
    _place: int

    def may_ask(self) -> bool:
        """Whether another call should be under way."""
        return self._called.may_ask()

    def worth_a_call(self) -> int:
        """How many elements are worth a call."""
        return self._called.worth_a_call(self._place)

    def ask(self, elements: list[Any], key: int, numbers: list[int]) -> int:
        """Asks for the results for some elements. Raises TypeError, naming the element, for what cannot travel."""
        return self._called.ask(self._place, elements, key, numbers)

    def take(self, call: int, seconds: float) -> list[tuple[bool, Any]] | None:
        """For each element whether the function returned, and the result or the exception; None: not yet."""
        return self._called.take(call, seconds)

    def forget(self, call: int) -> None:
        """Nobody takes these results, or somebody has."""
        self._called.forget(call)


def _request(place: int, key: int, numbers: list[int], elements: list[Any]) -> bytearray:
    try:
        return joined(pack([place, key, numbers, elements]))
    except TypeError:
        for number, element in zip(numbers, elements):
            pack([element], _ARGUMENT, (f"element {number} of a map's input",))
        raise
