# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`report`: turn a trace file of `torch_distinput.trace` into one HTML page."""

import argparse
import json
from html import escape
from pathlib import Path
from typing import Any

from torch_distinput.cli import _report_charts as charts
from torch_distinput.observe._members import MemberStats
from torch_distinput.observe._network import NetworkStats
from torch_distinput.observe._stats import Stats

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>torch_distinput: {title}</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 1060px; margin: 2em auto; padding: 0 1em; color: #222; }}
h1 {{ font-size: 1.4em; }} h2 {{ font-size: 1.1em; margin-top: 2em; }} svg {{ width: 100%; height: auto; }}
pre {{ background: #f5f5f5; padding: .8em; overflow-x: auto; }} .bound {{ font-size: 1.3em; font-weight: 600; }}
.op {{ display: flex; gap: 1em; }} .op code {{ flex: none; max-width: 60%; overflow-x: hidden; white-space: pre; }}
.op small {{ color: #555; }} .key span {{ display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 1em; }}
</style></head><body>
<h1>{title}</h1>
{body}
</body></html>
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("run", metavar="RUN", type=Path, help="a file that `torch_distinput.trace` wrote")
    parser.add_argument("--output", type=Path, help="the page to write (RUN with the suffix .html)")


def run(arguments: argparse.Namespace) -> None:
    """Writes the page and prints its name. ValueError unless the file is a trace."""
    output = arguments.output or arguments.run.with_suffix(".html")
    output.write_text(page_of(read(arguments.run), arguments.run.stem))
    print(output)


def read(path: Path) -> dict[str, Any]:
    """The trace in the file. ValueError where there is none."""
    try:
        document = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"`{path}` is not JSON: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("traceEvents"), list):
        raise ValueError(f"`{path}` is not a trace file: it has no list `traceEvents`.")
    for number, event in enumerate(document["traceEvents"]):
        if not _is_event(event):
            raise ValueError(f"`{path}` is not a trace of torch_distinput: event {number} is {str(event)[:80]}")
    return document


def _is_event(event: Any) -> bool:
    """Whether the page shows the event: a span, a sample of a queue or a thread's name."""
    if not isinstance(event, dict):
        return False
    numbers = {"X": ("ts", "dur", "tid"), "C": ("ts",), "M": ("tid",)}.get(str(event.get("ph")), ())
    inner = {"C": {"ready", "room"}, "M": {"name"}}.get(str(event.get("ph")), set())
    arguments = event.get("args", {})
    return (
        all(isinstance(event.get(name), (int, float)) for name in numbers)
        and isinstance(arguments, dict)
        and inner <= arguments.keys()
        and (event.get("ph") != "X" or isinstance(event.get("name"), str))
    )


def _tree(lines: list[list[str]]) -> str:
    """The tree of `explain()`: each of its lines, with the notes in small letters."""
    return "".join(
        f'<div class="op"><code>{escape(drawn)}</code><small>{escape(notes)}</small></div>' for drawn, notes in lines
    )


def page_of(document: dict[str, Any], title: str) -> str:
    """The page: verdict, timeline, occupancy, waits and the report of `explain()`; it loads nothing else."""
    events, about = document["traceEvents"], document.get("otherData", {})
    parts = []
    if verdict := about.get("verdict"):
        parts.append(f'<p class="bound">{escape(verdict["bound"])}-bound</p>')
        parts.append(f"<p>{escape(verdict['evidence'])}</p><p><b>{escape(verdict['advice'])}</b></p>")
    parts += ["<h2>What each thread did</h2>", charts.key(), charts.timeline(events)]
    if about.get("dropped"):
        parts.append(f"<p>{about['dropped']} later spans were not kept.</p>")
    if occupancy := charts.occupancy(events):
        parts += ["<h2>Items that lay ready when one was taken</h2>", occupancy]
    if stats := about.get("stats"):
        known = {name: stats[name] for name in Stats() if name in stats}
        if network := known.get("network"):
            known["network"] = NetworkStats(**network)
        if members := known.get("members"):
            known["members"] = MemberStats(**members)
        parts += ["<h2>How long the program waited for a batch</h2>", charts.waits(known["wait_histogram"])]
        parts += ["<h2>Counters</h2>", f"<pre>{escape(repr(Stats(**known)))}</pre>"]
    if explained := about.get("explain"):
        parts += ["<h2>How the data is read</h2>", _tree(explained)]
    return _PAGE.format(title=escape(title), body="\n".join(parts))
