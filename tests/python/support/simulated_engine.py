# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""An engine whose workers and clock are simulated: what a pool does of many workers, in no time."""

import heapq
import itertools
import json
from collections.abc import Callable

from torch_distinput.base._batch_format import pack
from torch_distinput.executors._engine import Answer, Lost, Ready

Seconds = Callable[[int, int], float]


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class SimulatedEngine:
    """Workers that answer a request with itself, beside `size` bytes. `seconds(worker, call)`: what an answer takes;
    `starts`: what a worker takes to start; `capacity`: workers that can work at full speed at a time."""

    def __init__(self, clock, seconds: Seconds, starts=0.0, size=0, capacity=10**6):
        self._clock, self._seconds, self._starts, self._capacity = clock, seconds, starts, capacity
        self._beside = bytes(size)
        self._numbers = itertools.count()
        self._order = itertools.count()
        self._coming = []  # (time, order, event)
        self.busy_until = {}
        self.asked = []  # (worker, call)
        self.most_workers = 0
        self.closed = False

    def room(self):
        return 10**6

    def start(self):
        number = next(self._numbers)
        self.busy_until[number] = self._clock.now + self._starts
        self._come(self.busy_until[number], Ready(number))
        self.most_workers = max(self.most_workers, len(self.busy_until))
        return number

    def stop(self, worker):
        del self.busy_until[worker]
        self._coming = [item for item in self._coming if item[2].worker != worker]
        heapq.heapify(self._coming)

    def kill(self, worker):
        self.stop(worker)
        self._come(self._clock.now, Lost(worker, "killed"))

    def ask(self, worker, call, request):
        self.asked.append((worker, call))
        if worker not in self.busy_until:
            return  # it was killed, which the pool does not know yet
        seconds = self._seconds(worker, call) * max(1.0, len(self.busy_until) / self._capacity)
        began = max(self._clock.now, self.busy_until[worker])
        self.busy_until[worker] = began + seconds
        packed = pack([json.loads(request), self._beside]).behind("made", seconds)
        memory = bytearray(packed.whole_size)
        for place, piece in packed.pieces():
            memory[place : place + len(piece)] = piece
        self._come(self.busy_until[worker], Answer(worker, call, memory))

    def wait(self, seconds):
        until = self._clock.now + seconds
        if self._coming and self._coming[0][0] <= until:
            until = max(self._clock.now, self._coming[0][0])
        self._clock.now = until
        found = []
        while self._coming and self._coming[0][0] <= until:
            found.append(heapq.heappop(self._coming)[2])
        return found

    def close(self):
        self.closed = True

    def _come(self, time, event):
        heapq.heappush(self._coming, (time, next(self._order), event))
