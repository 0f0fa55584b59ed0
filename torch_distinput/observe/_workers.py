# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`WorkersStats`: what the workers of an executor have done."""

from dataclasses import dataclass


@dataclass(frozen=True)
class WorkersStats:
    """Counters of an executor's workers since the first iterator of their loader.

    Attributes:
        workers: that run now.
        most: that may run.
        needed: that would keep up with the program, by its latest steps; None before it took some.
        answers: parts of steps that were made, or calls of functions for some elements of a stream.
        asked_again: parts that were asked of a second worker, because the first one was slow.
        dropped: parts that were made twice, or for an iterator that had ended.
        lost: workers that have ended.
        seconds: that workers took for all answers.
    """

    workers: int = 0
    most: int = 0
    needed: int | None = None
    answers: int = 0
    asked_again: int = 0
    dropped: int = 0
    lost: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        again = f", {self.asked_again} asked again" if self.asked_again else ""
        lost = f", {self.lost} lost" if self.lost else ""
        mean = f" of {self.seconds / self.answers * 1e3:.3g} ms" if self.answers else ""
        return f"executor: {self.workers} of {self.most} workers{lost}; {self.answers} answers{mean}{again}"


def advice(workers: WorkersStats) -> str:
    """What would help a program that waits for its executor."""
    needed = workers.needed
    if needed is None:
        return "Take some steps more: how many workers keep up is not known yet."
    if needed > workers.most:
        told = f"{needed} workers" if needed <= 4096 else "more workers than the steps could use"
        return (
            f"More workers: {told} would keep up, `Executor(..., max_workers={min(needed, 4096)})`, where the cluster "
            "has CPUs for them; or do less per row."
        )
    return "There are enough workers: larger batches, or more of `prefetch_bytes`, hide the time that answers travel."
