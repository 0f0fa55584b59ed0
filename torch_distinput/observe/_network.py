# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`NetworkStats`: what a process has read over networks, and what limits that."""

from __future__ import annotations

from dataclasses import dataclass

from torch_distinput.observe._units import bytes_text, seconds_text

BOUNDS = ("network", "throttled", "latency")

# Fewer answers than these that ask for fewer requests are accidents; more of them hold the limit down, because each
# lowers it by a third for seconds.
_LEAST_THROTTLED = 3
_THROTTLED_SHARE = 0.01
# Above it, requests wait for answers rather than for bytes.
_ANSWER_SHARE = 0.5
# Above it, more requests were ready than might run.
_FULL_SHARE = 0.5


@dataclass(frozen=True, repr=False)
class NetworkStats:
    """What was read over networks while an iterator lived.

    All iterators of a process read through one engine, which counts for all of them; only `wait_seconds` is the
    iterator's own. What other processes read, such as workers of a loader, is not among it.

    Attributes:
        bytes: bytes that servers were asked for.
        wasted_bytes: bytes that came and nobody read: gaps between rows that one request got, texts of errors, and what
            was read ahead in vain.
        requests: requests that were made; among them
        retries, hedges: repetitions, and doubled ones because the first was late; `hedges_won` of these were faster.
        throttled: answers that asked for fewer requests (429, 503).
        stalled: requests that were given up, as no bytes came, or hardly any.
        wait_seconds: time that threads of this iterator waited for objects, summed over them; part of `read_seconds`.
        busy_seconds: time in which requests were under way; for `full_seconds` of it others waited, because no more of
            them may run at a time than `limit`.
        request_seconds: time of all requests, added up; `answer_seconds` of it came before their first bytes.
        answer_p50, answer_p99: seconds to the first byte of half, and of 99 %, of the requests at most, within a tenth.
        limit: requests that may run at a time now, at the server that is asked most.
        cached_bytes: bytes that the cache on disk had (`cache_dir`), so that no server was asked for them.
        cached_blocks: blocks that were written to it.
        damaged_blocks: blocks of it that were damaged: their bytes were asked for again.

    >>> tdi.NetworkStats(bytes=64_000_000, requests=8, busy_seconds=2.0, request_seconds=8.0, limit=16)
    network: 64 MB in 8 requests, 4.0 at a time (now up to 16); first byte after 0 s (half of them), 0 s (99%)
    """

    bytes: int = 0
    wasted_bytes: int = 0
    requests: int = 0
    retries: int = 0
    hedges: int = 0
    hedges_won: int = 0
    throttled: int = 0
    stalled: int = 0
    wait_seconds: float = 0.0
    busy_seconds: float = 0.0
    full_seconds: float = 0.0
    request_seconds: float = 0.0
    answer_seconds: float = 0.0
    answer_p50: float = 0.0
    answer_p99: float = 0.0
    limit: int = 0
    cached_bytes: int = 0
    cached_blocks: int = 0
    damaged_blocks: int = 0

    @property
    def concurrency(self) -> float:
        """Requests under way at a time, on average while there were any."""
        return self.request_seconds / self.busy_seconds if self.busy_seconds else 0.0

    @property
    def bytes_per_second(self) -> float:
        """Bytes a second while requests were under way."""
        return self.bytes / self.busy_seconds if self.busy_seconds else 0.0

    def __repr__(self) -> str:
        counts = {
            "repeated": self.retries,
            "doubled": self.hedges,
            "doubled in time": self.hedges_won,
            "throttled": self.throttled,
            "stalled": self.stalled,
        }
        told = "".join(f", {count} {name}" for name, count in counts.items() if count)
        wasted = f" ({bytes_text(self.wasted_bytes)} in vain)" if self.wasted_bytes else ""
        cached = f"; {bytes_text(self.cached_bytes)} from the cache" if self.cached_bytes else ""
        damaged = f" ({self.damaged_blocks} of its blocks were damaged)" if self.damaged_blocks else ""
        return (
            f"network: {bytes_text(self.bytes)}{wasted} in {self.requests} requests{told}, {self.concurrency:.1f} at a "
            f"time (now up to {self.limit}); first byte after {seconds_text(self.answer_p50)} (half of them), "
            f"{seconds_text(self.answer_p99)} (99%){cached}{damaged}"
        )


def bound_of(network: NetworkStats) -> str:
    """Which of BOUNDS holds for a program that waits for objects."""
    if network.throttled >= max(_LEAST_THROTTLED, _THROTTLED_SHARE * network.requests):
        return "throttled"
    waits_for_answers = network.answer_seconds > _ANSWER_SHARE * network.request_seconds
    if waits_for_answers and network.full_seconds < _FULL_SHARE * network.busy_seconds:
        return "latency"
    return "network"


def evidence(network: NetworkStats) -> str:
    """The counters that decide."""
    share = network.answer_seconds / network.request_seconds if network.request_seconds else 0.0
    return (
        f"{network.requests} requests, {network.throttled} throttled, {network.concurrency:.1f} at a time "
        f"(now up to {network.limit}), {share:.0%} of their time before the first byte; "
        f"{bytes_text(network.bytes_per_second)}/s"
    )


def advice(bound: str, network: NetworkStats, argument: str = "`Options(prefetch_bytes=...)`") -> str:
    """What would help, in one sentence. `argument`: what lets more bytes be asked for ahead."""
    if bound == "throttled":
        return (
            f'The servers answered {network.throttled} of {network.requests} requests with "slow down", so that '
            f"{network.limit} may run at a time: put objects under more prefixes, let fewer processes read, ask the "
            "service for more requests a second, or make larger ones (larger rows, or rows in order)."
        )
    if bound == "latency":
        size = network.bytes / max(network.requests, 1)
        return (
            f"Requests of {bytes_text(size)} wait {seconds_text(network.answer_p50)} for their first byte, "
            f"{network.concurrency:.1f} at a time where {network.limit} may run: ask for more ahead ({argument}), "
            "store several rows in one, or read by an index rather than file by file."
        )
    return (
        f"The link or the servers give {bytes_text(network.bytes_per_second)} a second: read fewer bytes (compressed "
        "or smaller rows, fewer columns), or run where the data lies."
    )
