# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`trace`: a file that shows what each thread did, for Perfetto, Chrome's tracing page and the `report` command."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import torch

from torch_distinput import _C
from torch_distinput._build import version
from torch_distinput.base._arguments import count
from torch_distinput.observe._stats import reports_of, stats_of


class trace:
    """A context that writes what this library's threads did meanwhile to a trace file.

    Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing) show the file; `python -m torch_distinput report FILE`
    makes a page of it that needs neither. Spans are named as in `Stats`: "next" is the consumer's call; "wait", "read",
    "build", "python" and "copy" are what threads did, so a wait inside "next" is time that the program lost. Every
    iterator of the process is traced, so begin before the first batch is taken. A process has one trace at a time;
    without one, threads record nothing, at no cost.

    torch.profiler shows the same ranges, as "tdi::read" and so on: always those of its own thread, and those of the
    other threads with `experimental_config=torch.profiler._ExperimentalConfig(profile_all_threads=True)`.

    Args:
        path: the file to write, JSON in Chrome's trace format; times are in µs.
        loader: a `DataLoader`, or an iterator with `stats()`, whose counters, verdict and report go into the file.
        max_spans: spans that are kept, at least 1 (about 40 bytes each); later ones are counted only.

    Raises RuntimeError at the start where a trace runs already, OSError at the end where the file cannot be written.

    >>> loader = tdi.DataLoader(torch.arange(6), batch_size=2)
    >>> with tdi.trace("run.json", loader):
    ...     batches = [batch for batch in loader]
    """

    def __init__(self, path: str | os.PathLike[str], loader: Any = None, max_spans: int = 1_000_000):
        self._path = Path(path)
        self._loader = loader
        self._most = count("trace", "max_spans", max_spans, least=1)
        self._stats: Any = None

    def __enter__(self) -> trace:
        if not _C.start_trace(self._most):
            raise RuntimeError("trace: this process is being traced already, and has one trace at a time.")
        return self

    def __exit__(self, *error: Any) -> None:
        recorded = _C.stop_trace()
        about = {"version": version, "torch": torch.__version__, "dropped": recorded["dropped"]} | self._told()
        document = {"traceEvents": events_of(recorded), "displayTimeUnit": "ms", "otherData": about}
        self._path.write_text(json.dumps(document))

    def _told(self) -> dict[str, Any]:
        if self._loader is None:
            return {}
        reports, stats = reports_of(self._loader), stats_of(self._loader)
        verdict = getattr(reports, "verdict", stats.verdict)()
        told: dict[str, Any] = {"stats": dataclasses.asdict(stats), "verdict": dataclasses.asdict(verdict)}
        explain = getattr(reports, "explain", None)
        if callable(explain):
            told["explain"] = explain().tree.lines()
        return told


def events_of(recorded: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of Chrome's trace format for what the library recorded."""
    process, zero = os.getpid(), recorded["begin"]

    def at(time: int) -> float:
        return (time - zero) / 1000

    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": name}}
        for thread, name in recorded["threads"].items()
    ]
    events += [
        {"ph": "X", "name": name, "pid": process, "tid": thread, "ts": at(begin), "dur": (end - begin) / 1000}
        for name, begin, end, thread in recorded["spans"]
    ]
    events += [
        {"ph": "C", "name": "queue", "pid": process, "ts": at(time), "args": {"ready": ready, "room": room}}
        for time, ready, room in recorded["queues"]
    ]
    return events
