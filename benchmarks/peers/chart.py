# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Draws results of run.py for README.md, and writes them as tables into benchmarks/README.md:

chart.py RESULTS.json CHART.svg PAGE.md
"""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))
from bars import FASTER, OTHERS, OURS, Bar, caption_of, shown
from bars import draw as draw_bars

OWN = "torch_distinput"
# Whose series the chart shows; the tables have all.
SHOWN = ("DataLoader", "tf.data", "Grain", "SPDL", "MosaicML streaming", "Accelerate", OWN)
BEGIN, END = "<!-- peers: begin, written by peers/chart.py -->\n", "<!-- peers: end -->\n"


def errors(one: dict[str, Any]) -> str:
    """What was wrong with an output that is measured all the same."""
    counts = {what: one[f"rows_{what}"] for what in ("repeated", "missing")}
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def bars(task: dict[str, Any]) -> list[Bar]:
    """The series of a task that are drawn, beside this library's first."""

    def bar(name: str, one: dict[str, Any]) -> Bar:
        times, wrong = one["times_ours"], errors(one)
        colour = OURS if name.startswith(OWN) else FASTER if times < 1 else OTHERS
        return Bar(name, times, shown(times) + (f" ({wrong})" if wrong else ""), colour, one["times_ours_range"])

    drawn = {name: one for name, one in task["series"].items() if name != OWN and name.startswith(SHOWN)}
    return [bar(name, one) for name, one in drawn.items() if "times_ours" in one]


def draw(results: dict[str, Any]) -> str:
    """The chart as SVG."""
    groups = {
        f"{task['title']}: {task['series'][OWN]['us_per_batch']:,.0f} µs": bars(task) for task in results["tasks"]
    }
    others = max((task["others_cores"] for task in results["tasks"]), default=0.0)
    return draw_bars(
        "Time a batch beside torch_distinput's (1; logarithmic): grey is slower, red is faster",
        groups,
        limits=(0.25, 512),
        ticks=(0.5, 1, 2, 4, 16, 64, 256),
        caption=f"{caption_of(results)}; other programs used up to {others:.2f} cores",
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
    source, chart, page = map(Path, sys.argv[1:])
    results = json.loads(source.read_text())
    chart.write_text(draw(results))
    page.write_text(with_tables(page.read_text(), results))


if __name__ == "__main__":
    main()
