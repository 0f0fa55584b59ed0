# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Draws results of run.py for README.md, and writes them as tables into benchmarks/README.md:

chart.py RESULTS.json PICTURE.svg PAGE.md
"""

import json
import math
import sys
from html import escape
from pathlib import Path
from typing import Any

OWN = "torch_distinput"
# Whose series the picture shows; the tables have all.
SHOWN = ("DataLoader", "tf.data", "Grain", "SPDL", "MosaicML streaming", "Accelerate", OWN)
LABELS, CHART, VALUES = 330, 400, 120  # widths in pixels
BAR, GAP, HEAD, TOP = 12, 4, 30, 58
LEAST, MOST = 0.25, 512.0  # the ends of the axis, which is logarithmic
TICKS = (0.5, 1, 2, 4, 16, 64, 256)
SLOWER, FASTER, OURS = "#9aa4af", "#d1242f", "#1f6feb"
BEGIN, END = "<!-- peers: begin, written by peers/chart.py -->\n", "<!-- peers: end -->\n"


def place(times: float) -> float:
    """Where a ratio is on the axis."""
    share = math.log(min(max(times, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
    return LABELS + CHART * share


def shown(times: float) -> str:
    """Two digits, because the spread of repeats allows no more."""
    if times >= 100:
        return f"{round(times, -1):.0f}"
    return f"{times:.0f}" if times >= 10 else f"{times:.1f}" if times >= 0.995 else f"{times:.2f}"


def errors(one: dict[str, Any]) -> str:
    """What was wrong with an output that is measured all the same."""
    counts = {what: one[f"rows_{what}"] for what in ("repeated", "missing")}
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def bars(task: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The series of a task that are drawn, beside this library's first."""
    return {
        name: one
        for name, one in task["series"].items()
        if name != OWN and name.startswith(SHOWN) and "times_ours" in one
    }


def text(x: float, y: float, words: str, style: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" {style}>{escape(words)}</text>'


def bar(name: str, one: dict[str, Any], y: float) -> list[str]:
    """A bar that begins at 1, the line of its spread, and its value."""
    times, (least, most) = one["times_ours"], one["times_ours_range"]
    begin, end = sorted((place(1), place(times)))
    colour = OURS if name.startswith(OWN) else FASTER if times < 1 else SLOWER
    line = f'x1="{place(least):.1f}" x2="{place(most):.1f}" y1="{y + BAR / 2}" y2="{y + BAR / 2}" stroke="#24292f"'
    wrong = errors(one)
    after = max(end, place(most)) + 6
    return [
        text(LABELS - 8, y + 10, name, 'text-anchor="end"'),
        f'<rect x="{begin:.1f}" y="{y}" width="{max(end - begin, 1):.1f}" height="{BAR}" fill="{colour}"/>',
        f"<line {line}/>",
        text(after, y + 10, shown(times) + (f" ({wrong})" if wrong else "")),
    ]


def draw(results: dict[str, Any]) -> str:
    """The picture as SVG."""
    parts, y = [], TOP
    for task in results["tasks"]:
        own = task["series"][OWN]["us_per_batch"]
        y += HEAD
        parts.append(text(8, y - 8, f"{task['title']}: {own:,.0f} µs", 'font-weight="bold"'))
        for name, one in bars(task).items():
            parts += bar(name, one, y)
            y += BAR + GAP
    axis = []
    for tick in TICKS:
        x, stroke = place(tick), "#24292f" if tick == 1 else "#d0d7de"
        axis.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{y}" stroke="{stroke}"/>')
        axis.append(text(x, TOP - 6, f"{tick:g}", 'text-anchor="middle" fill="#57606a"'))
    machine = results["machine"]
    others = max((task["others_cores"] for task in results["tasks"]), default=0.0)
    caption = (
        f"{machine['cpus']} CPUs, {machine['cpu']}; torch {results['versions']['torch']}; {results['date'][:10]}; "
        f"other programs used up to {others:.2f} cores"
    )
    words = "Time a batch beside torch_distinput's (1; logarithmic): grey is slower, red is faster"
    size = f'width="{LABELS + CHART + VALUES}" height="{y + 28}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">',
            f'<rect {size} fill="white"/>',
            text(8, 22, words, 'font-size="14" font-weight="bold"'),
            *axis,
            *parts,
            text(8, y + 18, caption, 'fill="#57606a"'),
            "</svg>",
            "",
        ]
    )


def row(name: str, one: dict[str, Any]) -> str:
    if "failed" in one:
        return f"| {name} | no figure: {one['failed']} | | | | |"
    beside = shown(one["times_ours"]) if "times_ours" in one else ""
    wrong = errors(one)
    return (
        f"| {name}{f'; rows: {wrong}' if wrong else ''} | {one['us_per_batch']:,.1f} | {one['spread']:.0%} | "
        f"{one['cpu_us_per_batch']:,.1f} | {one['first_ms']:,.1f} | {beside} |"
    )


def tables(results: dict[str, Any]) -> str:
    """All series of all tasks, as Markdown."""
    packages = {**results["versions"], **results["packages"]}
    versions = ", ".join(f"{name} {number or 'not installed'}" for name, number in packages.items())
    lines = [f"{results['date'][:10]}, {results['machine']['cpu']}, {results['machine']['cpus']} CPUs; {versions}.", ""]
    for task in results["tasks"]:
        lines += [
            f"**{task['name']}**: {task['title']}; others used {task['others_cores']:.2f} cores",
            "",
            "| system | µs a batch | spread | CPU µs | first batch ms | × ours |",
            "|---|---|---|---|---|---|",
            *(row(name, one) for name, one in task["series"].items()),
            "",
        ]
    return "\n".join(lines)


def with_tables(page: str, results: dict[str, Any]) -> str:
    """`page` with the tables of `results` in the place of those that it has."""
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"chart.py: the page lacks the line {BEGIN.strip()} or {END.strip()}")
    return f"{before}{BEGIN}{tables(results)}{END}{after}"


def main() -> None:
    """Reads the command line."""
    source, picture, page = map(Path, sys.argv[1:])
    results = json.loads(source.read_text())
    picture.write_text(draw(results))
    page.write_text(with_tables(page.read_text(), results))


if __name__ == "__main__":
    main()
