# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Charts of horizontal bars as SVG, whose text stays text. Needs matplotlib."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.figure import Figure

OURS, OTHERS, FASTER, GREY = "#1f6feb", "#9aa4af", "#d1242f", "#57606a"
ROW = 0.2  # the height of a bar's line, in inches
# The same bytes for the same results.
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "torch_distinput", "font.size": 9}


@dataclass(frozen=True)
class Bar:
    label: str
    value: float
    words: str
    colour: str
    spread: tuple[float, float] | None = None


def shown(times: float) -> str:
    """Two digits, because the spread of repeats allows no more."""
    if times >= 100:
        return f"{round(times, -1):.0f}"
    return f"{times:.0f}" if times >= 10 else f"{times:.1f}" if times >= 0.995 else f"{times:.2f}"


def caption_of(results: dict[str, Any]) -> str:
    machine = results["machine"]
    return f"{machine['cpus']} CPUs, {machine['cpu']}; torch {results['versions']['torch']}; {results['date'][:10]}"


def draw(
    title: str,
    groups: dict[str, list[Bar]],
    *,
    limits: tuple[float, float],
    begin: float = 1.0,
    ticks: Sequence[float] = (),
    caption: str = "",
) -> str:
    """The bars of each group below its heading, from `begin` on, and a line at 1.

    The axis is logarithmic where it has `ticks`.
    """
    lines = [line for heading, bars in groups.items() for line in ([heading] if heading else []) + bars]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9, ROW * len(lines) + 1), layout="constrained")
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        if caption:
            figure.supxlabel(caption, x=0.01, ha="left", fontsize=8, color=GREY)
        axes = figure.add_subplot()
        _draw_axes(axes, lines, limits, ticks)
        for y, line in enumerate(lines):
            if isinstance(line, Bar):
                _draw_bar(axes, y, line, begin, limits)
            else:
                place = {"transform": axes.get_yaxis_transform(), "va": "center"}
                axes.text(0, y, line, fontweight="bold", backgroundcolor="white", **place)
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines()) + "\n"


def _draw_axes(axes: Any, lines: list[Any], limits: tuple[float, float], ticks: Sequence[float]) -> None:
    bars = [(y, line.label) for y, line in enumerate(lines) if isinstance(line, Bar)]
    axes.set_yticks([y for y, _ in bars], [label for _, label in bars])
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.set_xticks([])
    if ticks:
        axes.set_xscale("log")
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], color=GREY)
        axes.set_xticks([], minor=True)
        axes.xaxis.tick_top()
        axes.grid(axis="x", color="#d0d7de", linewidth=0.8)
    axes.set_xlim(limits)
    axes.axvline(1, color="#24292f", linewidth=0.9)
    axes.tick_params(length=0, which="both")
    axes.spines[:].set_visible(False)
    axes.set_axisbelow(True)


def _draw_bar(axes: Any, y: int, bar: Bar, begin: float, limits: tuple[float, float]) -> None:
    value, end = (min(max(x, limits[0]), limits[1]) for x in (bar.value, max(bar.value, *(bar.spread or (begin,)))))
    axes.barh(y, value - begin, left=begin, height=0.75, color=bar.colour, linewidth=0.8, edgecolor=bar.colour)
    if bar.spread is not None:
        axes.hlines(y, max(bar.spread[0], limits[0]), min(bar.spread[1], limits[1]), color="#24292f", linewidth=0.9)
    axes.annotate(bar.words, (max(end, begin), y), (4, 0), textcoords="offset points", va="center")
