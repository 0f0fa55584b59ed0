# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`Stats`: what an iterator has counted, and `Verdict`: what that says about the program's speed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from torch_distinput import _C
from torch_distinput.observe import _network, _workers
from torch_distinput.observe._members import MemberStats
from torch_distinput.observe._network import NetworkStats
from torch_distinput.observe._units import bytes_text, seconds_text
from torch_distinput.observe._workers import WorkersStats

HIDDEN = 0.05  # a smaller share of the time spent waiting needs no advice


@dataclass(frozen=True, repr=False)
class Stats(Mapping[str, Any]):
    """Counters of one iterator since it was made. They are always on; reading them is cheap and changes nothing.

    Also a mapping from the names of its fields: `stats["rows"]`, `dict(stats)`.

    Attributes:
        batches: batches, steps or elements that were handed out.
        rows: rows in them; an unbatched element is one row. None where Python makes the batches.
        bytes: bytes of tensors in them. None where Python makes the batches.
        waits: times that the consumer slept until its batch was ready.
        allocations: blocks that were new to the process's batch memory.
        skipped: rows that `on_error=Skip()` passed over.
        rounds: rounds of agreement with other processes.
        copies, copied_bytes: parts of steps that were copied to accelerators, and their bytes.
        wait_seconds: time inside `next`, when the program could do nothing else.
        consumer_seconds: time between the calls of `next`: the program's own work.
        peer_seconds: the part of `wait_seconds` in which this rank was ready and other ranks were not.
        wait_histogram: number of calls of `next` by the time they took: entry 0 below 1 µs, entry k from 2**(k-1) to
            2**k µs, the last one all longer ones.
        read_seconds, build_seconds, python_seconds, copy_seconds: time spent on reading files; on native work such as
            gathering rows and decoding; in Python functions and waiting for Python's lock; on preparing copies to
            accelerators. Summed over all threads, so it can exceed the time that has passed.
        waited_read_seconds, waited_build_seconds, waited_python_seconds, waited_copy_seconds: the parts of these that
            fell into `wait_seconds`: what threads did while the program waited.
        queue_ready, queue_room: how many items were ready on average when one was taken, and the most that fit; 0 where
            nothing is read ahead.
        sampled: elements drawn from each dataset of the first `sample_from_datasets` up to this position of the epoch,
            also where a state was restored; empty without that op, and after a full shuffle of it. Under policy
            STREAMS, those of this rank's streams, without what the windowed shuffles of each hold.
        worker_bytes: memory of the worker processes, a page of several processes counted in parts (PSS), as of two
            seconds ago or later. None without workers.
        network: what this process read over networks meanwhile; None where this iterator has read nothing so.
        workers: what the workers of `executor` have done; None without.
        members: what members that come and go have cost this process; None without `membership`.

    >>> iterator = iter(tdi.Dataset.range(10).batch(4))
    >>> batches = list(iterator)
    >>> iterator.stats().rows, iterator.stats()["batches"]
    (10, 3)
    """

    batches: int = 0
    rows: int | None = 0
    bytes: int | None = 0
    waits: int = 0
    allocations: int = 0
    skipped: int = 0
    rounds: int = 0
    copies: int = 0
    copied_bytes: int = 0
    wait_seconds: float = 0.0
    consumer_seconds: float = 0.0
    peer_seconds: float = 0.0
    wait_histogram: tuple[int, ...] = (0,) * 24
    read_seconds: float = 0.0
    build_seconds: float = 0.0
    python_seconds: float = 0.0
    copy_seconds: float = 0.0
    waited_read_seconds: float = 0.0
    waited_build_seconds: float = 0.0
    waited_python_seconds: float = 0.0
    waited_copy_seconds: float = 0.0
    queue_ready: float = 0.0
    queue_room: float = 0.0
    sampled: tuple[int, ...] = ()
    worker_bytes: int | None = None
    network: NetworkStats | None = None
    workers: WorkersStats | None = None
    members: MemberStats | None = None

    def __getitem__(self, name: str) -> Any:
        if name not in _NAMES:
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)

    @property
    def wait_share(self) -> float:
        """The share of the program's time spent waiting for data, in [0, 1]; 0 before the first batch.

        >>> tdi.Stats(wait_seconds=1.0, consumer_seconds=3.0).wait_share
        0.25
        """
        total = self.wait_seconds + self.consumer_seconds
        return self.wait_seconds / total if total else 0.0

    def wait_quantile(self, share: float) -> float:
        """Seconds that a call of `next` took at most, in `share` of the calls, in [0, 1], else ValueError.

        It is the upper end of an entry of `wait_histogram`, so up to twice the true value; 0 before the first batch.

        >>> tdi.Stats(wait_histogram=(0, 0, 0, 9, 0, 1)).wait_quantile(0.5)
        8e-06
        """
        if not 0 <= share <= 1:
            raise ValueError(f"wait_quantile: `share` must be in [0, 1], but is {share}.")
        calls, seen = sum(self.wait_histogram), 0
        for entry, count in enumerate(self.wait_histogram):
            seen += count
            if calls and seen >= share * calls and seen:
                return 2**entry * 1e-6
        return 0.0

    def after(self, before: Stats) -> Stats:
        """The counters of one that goes on where the iterator of `before` ended: sums, except for what is of now."""
        summed = {name: _sum(before[name], self[name]) for name in _NAMES if name not in _OF_NOW}
        return replace(self, **summed)

    def verdict(self) -> Verdict:
        """What limits the program's speed, by these counters; as `DataLoader.verdict` of one process.

        >>> tdi.Stats(batches=9, wait_seconds=2.0, consumer_seconds=1.0, read_seconds=1.9).verdict().bound
        'read'
        """
        return verdict_of(self)

    def __repr__(self) -> str:
        total = self.wait_seconds + self.consumer_seconds
        rows = "" if self.rows is None else f", {self.rows} rows"
        size = "" if self.bytes is None else f", {bytes_text(self.bytes)}"
        rate = f" ({(self.batches if self.rows is None else self.rows) / total:.3g}/s)" if total else ""
        lines = [
            f"Stats: {self.batches} batches{rows}{size} in {seconds_text(total)}{rate}",
            f"  waited {seconds_text(self.wait_seconds)} ({self.wait_share:.1%}): a batch at most "
            f"{seconds_text(self.wait_quantile(0.5))} (half of them), {seconds_text(self.wait_quantile(0.99))} (99%)",
            f"  busy: read {seconds_text(self.read_seconds)}, build {seconds_text(self.build_seconds)}, "
            f"python {seconds_text(self.python_seconds)}, copy {seconds_text(self.copy_seconds)}",
        ]
        if self.queue_room:
            lines.append(f"  queue: {self.queue_ready:.1f} of {self.queue_room:.1f} ready; slept {self.waits} times")
        if self.network:
            lines.append(f"  {self.network}")
        if self.workers:
            lines.append(f"  {self.workers}")
        if self.members:
            lines.append(f"  {self.members}")
        if self.copies:
            lines.append(f"  copied to devices: {self.copies} parts, {bytes_text(self.copied_bytes)}")
        if self.rounds or self.peer_seconds:
            lines.append(f"  other ranks: {self.rounds} rounds, waited {seconds_text(self.peer_seconds)} for them")
        if self.sampled:
            shares = ", ".join(f"{count} ({count / max(sum(self.sampled), 1):.1%})" for count in self.sampled)
            lines.append(f"  drawn from each dataset: {shares}")
        if self.worker_bytes is not None:
            lines.append(f"  workers have {bytes_text(self.worker_bytes)} of memory")
        if self.skipped:
            lines.append(f"  skipped {self.skipped} rows that failed")
        return "\n".join(lines)


def with_workers(stats: Stats, workers: WorkersStats | None) -> Stats:
    """`stats` of an iterator whose rows `workers` make: all work is theirs."""
    seconds = 0.0 if workers is None else workers.seconds
    return replace(stats, workers=workers, python_seconds=seconds, waited_python_seconds=stats.wait_seconds)


_NAMES = tuple(field.name for field in fields(Stats))
_OF_NOW = {"queue_ready", "queue_room", "sampled", "worker_bytes", "network", "workers", "members"}


def _sum(before: Any, now: Any) -> Any:
    """Of numbers, of tuples of as many of them, or None where one is unknown."""
    if before is None or now is None:
        return None
    return tuple(map(sum, zip(before, now))) if isinstance(now, tuple) else before + now


def stats_of(source: Any) -> Stats:
    """The counters of a DataLoader, also of a subclass with another `stats`, or of an iterator."""
    return reports_of(source).stats()


@functools.singledispatch
def reports_of(source: Any) -> Any:
    """What has the `stats`, `verdict` and `explain` of `source`: itself, unless its class registers something else."""
    return source


@dataclass(frozen=True)
class Verdict:
    """What limits the speed of a program that reads from an iterator. `str(verdict)` is a report in three lines.

    Attributes:
        bound: "consumer" (the program itself: data is there in time), "read" (files), "network" (the
            speed of a link or of servers), "throttled" (servers that ask for fewer requests), "latency" (requests that
            wait for their answers, few at a time), "decode" (native work on rows),
            "python" (functions and datasets in Python), "copy" (to accelerators), "peer" (other ranks), or "unknown"
            before the second batch.
        evidence: the counters that say so.
        advice: one sentence on what would help.
        rank: with `all_ranks=True`, the rank that the others wait for; None where they do not wait.

    >>> print(tdi.Stats().verdict())
    unknown-bound
    evidence: 0 batches were taken
    advice: Take at least two batches first.
    """

    bound: str
    evidence: str
    advice: str
    rank: int | None = None

    def __str__(self) -> str:
        return f"{self.bound}-bound\nevidence: {self.evidence}\nadvice: {self.advice}"


class CallTimes:
    """Measures calls of `next`, from `begin()` to `end()`, of an iterator whose batches Python makes; native ones
    measure themselves. A call that fails or reaches the end has no `end()`."""

    def __init__(self) -> None:
        self.begin, self.end, self._read = _C.call_clock()

    def fields(self) -> dict[str, Any]:
        """The fields of `Stats` that are measured here."""
        wait, consumer, histogram = self._read()
        return {"wait_seconds": wait / 1e9, "consumer_seconds": consumer / 1e9, "wait_histogram": histogram}


_ADVICE = {
    "unknown": "Take at least two batches first.",
    "peer": "Find the slow rank with `loader.verdict(all_ranks=True)`.",
    "read": "Give the reader larger or fewer files, a faster disk, or more threads (`Options(num_threads=...)`).",
    "decode": "Use more threads (`Options(num_threads=...)`), or do less per row: smaller images, fewer operations.",
    "python": "Use `map(..., num_parallel_calls=...)`, `num_workers` of a DataLoader over a dataset in Python, or this "
    "library's own operations.",
    "copy": "Copy fewer bytes (uint8 and `normalize_images` on the device).",
}


def general_advice(bound: str, stats: Stats) -> str:
    """What would help, judged from an iterator's counters alone, without its loader."""
    if bound == "consumer":
        gain = 1 / (1 - stats.wait_share) - 1
        return f"Make the program itself faster: without any wait for data it would gain {gain:.1%}."
    if bound in _network.BOUNDS and stats.network is not None:
        return _network.advice(bound, stats.network)
    if bound == "python" and stats.workers is not None:
        return _workers.advice(stats.workers)
    ahead = " Nothing is read ahead: `Dataset.prefetch` lets threads do this meanwhile."
    return _ADVICE[bound] + (ahead if bound in ("read", "decode", "python") and not stats.queue_room else "")


Advise = Callable[[str, Stats], str]


def verdict_of(stats: Stats, advise: Advise = general_advice) -> Verdict:
    """The verdict on one process. `advise(bound, stats)`: says what would help."""
    bound, evidence = _bound_of(stats)
    return Verdict(bound, evidence, advise(bound, stats))


def _bound_of(stats: Stats) -> tuple[str, str]:
    if stats.batches < 2:
        return "unknown", f"{stats.batches} batches were taken"
    waited = f"{stats.wait_share:.1%} of the time was spent waiting for data"
    if stats.wait_share < HIDDEN:
        return "consumer", waited
    if stats.peer_seconds > stats.wait_seconds / 2:
        return (
            "peer",
            f"{waited}; {seconds_text(stats.peer_seconds)} of {seconds_text(stats.wait_seconds)} for other ranks",
        )
    busy = _busy_meanwhile(stats)
    spent = "meanwhile " + ", ".join(f"{name} {seconds_text(time)}" for name, time in busy.items() if time >= 1e-6)
    queue = f"; {stats.queue_ready:.1f} of {stats.queue_room:.1f} batches lay ready" if stats.queue_room else ""
    most = max(busy, key=lambda name: busy[name])
    if most == "read" and stats.network and stats.network.wait_seconds > stats.read_seconds / 2:
        return _network.bound_of(stats.network), f"{waited}; {spent}{queue}; {_network.evidence(stats.network)}"
    return most, f"{waited}; {spent}{queue}"


def _busy_meanwhile(stats: Stats) -> dict[str, float]:
    """What threads did while the program waited, in seconds; in all, where that is not known."""
    meanwhile = {
        "read": stats.waited_read_seconds,
        "decode": stats.waited_build_seconds,
        "python": stats.waited_python_seconds,
        "copy": stats.waited_copy_seconds,
    }
    if any(meanwhile.values()):
        return meanwhile
    return {
        "read": stats.read_seconds,
        "decode": stats.build_seconds,
        "python": stats.python_seconds,
        "copy": stats.copy_seconds,
    }


def verdict_over_ranks(ranks: list[Stats], advise: Advise = general_advice) -> Verdict:
    """The verdict on a program of several processes, from the stats of all of them, by rank.

    Steps are common to all ranks, so a rank whose data comes late keeps the others waiting in their next collective,
    where that looks like work of their own.
    """
    own = [replace(one, wait_seconds=max(one.wait_seconds - one.peer_seconds, 0.0), peer_seconds=0.0) for one in ranks]
    waits = [stats.wait_seconds / max(stats.batches, 1) for stats in own]
    slow = max(range(len(ranks)), key=lambda rank: waits[rank])
    others = sorted(wait for rank, wait in enumerate(waits) if rank != slow)
    typical = others[len(others) // 2] if others else 0.0
    verdict = verdict_of(own[slow], advise)
    told = f"rank {slow} waits {seconds_text(waits[slow])} a step for its data, the others {seconds_text(typical)}"
    if verdict.bound in ("unknown", "consumer") or waits[slow] < 1.5 * typical:
        return Verdict(verdict.bound, f"{verdict.evidence} on rank {slow}, the slowest; {told}", verdict.advice)
    return Verdict(
        verdict.bound,
        f"{told}; on that rank {verdict.evidence}",
        f"The others wait for rank {slow}. {verdict.advice}",
        slow,
    )
