# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Draws the results of in_memory_rows.py: `plot.py RESULTS.json PICTURE.svg`."""

import json
import sys
from html import escape
from pathlib import Path

LABELS, CHART, VALUES = 170, 420, 170  # widths in pixels
BAR, GAP, HEAD, TOP = 18, 6, 30, 36
COLOURS = {"torch_distinput": "#1f6feb"}
OTHERS = "#9aa4af"
LINE = 'stroke="#d1242f" stroke-dasharray="4 3"'


def text(x: float, y: float, words: str, style: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" {style}>{escape(words)}</text>'


def loaders_of(work: dict) -> dict[str, dict]:
    """The series of loaders, which have a start-up time; limits have none."""
    return {name: one for name, one in work["series"].items() if "first_batch_ms" in one}


def draw(result: dict) -> str:
    works = [(work["title"], loaders_of(work)) for work in result["works"]]
    scale = CHART / max(1.0, *(one["of_limit"] for _, loaders in works for one in loaders.values()))
    parts, y = [], TOP
    for title, loaders in works:
        y += HEAD
        parts.append(text(8, y - 8, title, 'font-weight="bold"'))
        for name, one in loaders.items():
            length = max(1.0, one["of_limit"] * scale)
            fill = COLOURS.get(name, OTHERS)
            parts.append(text(LABELS - 8, y + 13, name, 'text-anchor="end"'))
            parts.append(f'<rect x="{LABELS}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{fill}"/>')
            share = f"{one['of_limit']:.{0 if one['of_limit'] >= 0.1 else 1}%}"
            value = f"{share}, {one['us_per_batch']:,.0f} µs a batch"
            parts.append(text(LABELS + CHART + 8, y + 13, value))
            y += BAR + GAP
    line = LABELS + scale
    parts.append(f'<line x1="{line:.1f}" y1="{TOP}" x2="{line:.1f}" y2="{y}" {LINE}/>')
    machine = result["machine"]
    caption = f"{machine['cpus']} CPUs, {machine['cpu']}; torch {result['versions']['torch']}; {result['date'][:10]}"
    parts.append(text(8, y + 16, caption, 'fill="#57606a"'))
    title = text(
        8,
        22,
        "Shuffled batches from memory: share of the memory limit (red: a bare gather loop)",
        'font-size="14" font-weight="bold"',
    )
    size = f'width="{LABELS + CHART + VALUES}" height="{y + 28}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    return "\n".join([head, f'<rect {size} fill="white"/>', title, *parts, "</svg>", ""])


def main() -> None:
    source, target = map(Path, sys.argv[1:])
    target.write_text(draw(json.loads(source.read_text())))


if __name__ == "__main__":
    main()
