# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`StatsCollector`: the counters of loaders for Prometheus."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import REGISTRY, Collector, CollectorRegistry

from torch_distinput.monitoring._meter import steps_left
from torch_distinput.observe._stats import Stats, stats_of

_PREFIX = "torch_distinput_"
_COUNTERS = {
    "batches": ("batches", "Batches, steps or elements that were handed out"),
    "rows": ("rows", "Rows in them"),
    "bytes": ("bytes", "Bytes of tensors in them"),
    "skipped": ("skipped_rows", "Rows that failed and were passed over"),
    "allocations": ("allocations", "Blocks that were new to the batch memory"),
    "rounds": ("rounds", "Rounds of agreement with other processes"),
    "copies": ("copies", "Parts of steps that were copied to accelerators"),
    "copied_bytes": ("copied_bytes", "Bytes of these"),
    "consumer_seconds": ("consumer_seconds", "Time between the calls of next"),
    "peer_seconds": ("peer_seconds", "Time inside next that other ranks were waited for"),
}
_NETWORK = {
    "bytes": "Bytes that servers were asked for",
    "wasted_bytes": "Bytes that came and nobody read",
    "requests": "Requests of this process to servers of objects",
    "retries": "Requests that were repeated",
    "hedges": "Requests that were doubled because they were late",
    "throttled": "Answers that asked for fewer requests",
    "stalled": "Requests that were given up, as no bytes came, or hardly any",
    "busy_seconds": "Time in which requests were under way",
    "request_seconds": "Time of all requests, added up",
    "answer_seconds": "Part of it, before the first byte",
    "cached_bytes": "Bytes that the cache on disk had",
    "damaged_blocks": "Blocks of it that were damaged",
}
_MEMBERS = {
    "generations": "Generations of the members that began",
    "given_back": "Steps that this process took and that were not committed",
    "given_back_rows": "Rows of this process in them",
    "deals": "Times that a part was dealt anew",
    "deal_seconds": "Time to deal these parts and to read their first batches",
}
_GAUGES = {
    "queue_ready": "Items that lay ready on average when one was taken",
    "queue_room": "Items that could have",
}


class StatsCollector(Collector):
    """Collects what loaders measure at each scrape; programs pay nothing in between. Registers itself.

    Counters are those of each loader's latest iterator, so that an epoch begins with a counter reset, which `rate()`
    understands where an epoch is longer than the interval of scrapes. The histogram `torch_distinput_wait_seconds` has
    the time of each call of `next`. A scrape that meets a loader inside `next` has the counters of the one before.

    Args:
        sources: by the label `loader`, each a `DataLoader`, or an iterator with `stats()`; held until
            `registry.unregister(collector)`.
        registry: where to register; the default one is what `prometheus_client.start_http_server` serves.

    >>> from torch_distinput.monitoring.prometheus import StatsCollector
    >>> from prometheus_client import CollectorRegistry
    >>> loader = tdi.DataLoader(torch.arange(8), batch_size=4)
    >>> registry = CollectorRegistry()
    >>> collector = StatsCollector({"train": loader}, registry)
    >>> for batch in loader:
    ...     pass
    >>> registry.get_sample_value("torch_distinput_batches_total", {"loader": "train"})
    2
    """

    def __init__(self, sources: Mapping[str, Any], registry: CollectorRegistry = REGISTRY):
        self._sources = dict(sources)
        self._seen = dict.fromkeys(self._sources, Stats())
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """The metrics without samples, so that registering reads no counter."""
        return _metrics({}, {})

    def collect(self) -> Iterable[Metric]:
        """The metrics of all loaders."""
        for name, source in self._sources.items():
            with contextlib.suppress(RuntimeError):  # a thread is inside its iterator
                self._seen[name] = stats_of(source)
        return _metrics(self._sources, self._seen)


def _metrics(sources: Mapping[str, Any], seen: Mapping[str, Stats]) -> Iterator[Metric]:
    for field, (metric, text) in _COUNTERS.items():
        counter = CounterMetricFamily(_PREFIX + metric, text, labels=["loader"])
        for name, stats in seen.items():
            if stats[field] is not None:
                counter.add_metric([name], stats[field])
        yield counter
    yield from _network(seen)
    yield from _of_those(_MEMBERS, "members_", {name: stats.members for name, stats in seen.items()})
    yield _busy(seen)
    yield _waits(seen)
    for field, text in _GAUGES.items():
        gauge = GaugeMetricFamily(_PREFIX + field, text, labels=["loader"])
        for name, stats in seen.items():
            gauge.add_metric([name], stats[field])
        yield gauge
    left = GaugeMetricFamily(_PREFIX + "steps_left", "Batches until the end of the epoch", labels=["loader"])
    for name, source in sources.items():
        if (steps := steps_left(source)) is not None:
            left.add_metric([name], steps)
    yield left


def _network(seen: Mapping[str, Stats]) -> Iterator[Metric]:
    networks = {name: stats.network for name, stats in seen.items() if stats.network}
    yield from _of_those(_NETWORK, "network_", networks)
    limit = GaugeMetricFamily(f"{_PREFIX}network_limit", "Requests that may run at a time", labels=["loader"])
    for name, network in networks.items():
        limit.add_metric([name], network.limit)
    yield limit


def _of_those(texts: Mapping[str, str], prefix: str, counted: Mapping[str, Any]) -> Iterator[Metric]:
    """Counters of the loaders that have counted such things."""
    for field, text in texts.items():
        counter = CounterMetricFamily(f"{_PREFIX}{prefix}{field}", text, labels=["loader"])
        for name, counts in counted.items():
            if counts is not None:
                counter.add_metric([name], getattr(counts, field))
        yield counter


def _busy(seen: Mapping[str, Stats]) -> Metric:
    text = "Time that threads were busy, by what with; added up over threads"
    busy = CounterMetricFamily(_PREFIX + "busy_seconds", text, labels=["loader", "stage"])
    for name, stats in seen.items():
        for stage in ("read", "build", "python", "copy"):
            busy.add_metric([name, stage], stats[f"{stage}_seconds"])
    return busy


def _waits(seen: Mapping[str, Stats]) -> Metric:
    histogram = HistogramMetricFamily(_PREFIX + "wait_seconds", "Time of the calls of next", labels=["loader"])
    for name, stats in seen.items():
        below, buckets = 0, []
        for entry, count in enumerate(stats.wait_histogram[:-1]):
            below += count
            buckets.append((str(2**entry * 1e-6), below))
        buckets.append(("+Inf", below + stats.wait_histogram[-1]))
        histogram.add_metric([name], buckets, stats.wait_seconds)
    return histogram
