# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Draws how many times as fast as others the committed results say this library is:

overview.py RESULTS_FOLDER PICTURE.svg
"""

import json
import math
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

LABELS, CHART, VALUES = 400, 330, 190  # widths in pixels
BAR, GAP, TOP = 18, 8, 44
MOST = 1000  # where the axis, which is logarithmic, ends


@dataclass(frozen=True)
class Comparison:
    """`times`: how many times as fast this library is; below 1 it is slower."""

    task: str
    peer: str
    times: float


def comparisons(folder: Path) -> list[Comparison]:
    """What is drawn, from the medians in the committed files; also where nothing is won."""

    def load(name: str) -> Any:
        return json.loads((folder / f"{name}.json").read_text())

    drop_in = {case["name"]: case["series"] for case in load("drop_in")["cases"]}
    memory = {work["name"]: work["series"] for work in load("in_memory_rows")["works"]}
    records, streams = load("record_files")["results"], load("stream_ops")["results"]
    jobs = load("processes")["jobs"]["4"]["series"]

    def batch_time(series: dict, peer: str, own: str = "torch_distinput") -> float:
        return series[peer]["us_per_batch"] / series[own]["us_per_batch"]

    def step_time(peer: str) -> float:
        return jobs[peer]["wall_us"] / jobs["torch_distinput"]["wall_us"]

    def record_rate(kind: str) -> float:
        return records["torch_distinput Python"][kind]["GB_per_s"] / records["tf.data"][kind]["GB_per_s"]

    def stream_rate(op: str) -> float:
        return streams["tf.data"][op] / streams["torch_distinput"][op]

    return [
        Comparison("TensorDataset, shuffled", "DataLoader", batch_time(drop_in["tensor_dataset"], "torch")),
        Comparison("numpy memory map", "DataLoader", batch_time(drop_in["memory_map"], "torch")),
        Comparison(
            "50 µs of Python a row",
            "DataLoader",
            batch_time(drop_in["python_rows"], "torch, 0 workers", "torch_distinput, 0 workers"),
        ),
        Comparison("rows in memory, pipeline", "DataLoader", batch_time(memory["rows_20"], "torch 0 workers")),
        Comparison("images in memory, pipeline", "DataLoader", batch_time(memory["images"], "torch 0 workers")),
        Comparison("4 processes", "DistributedSampler", step_time("DistributedSampler")),
        Comparison("4 processes", "Accelerate's dispatcher", step_time("accelerate dispatcher")),
        Comparison("TFRecords of 1 kB", "tf.data", record_rate("tf_record_1kB")),
        Comparison("TFRecords of 100 kB", "tf.data", record_rate("tf_record_100kB")),
        Comparison("filter in Python", "tf.data", stream_rate("filter")),
        Comparison("interleave", "tf.data", stream_rate("interleave")),
    ]


def draw(found: list[Comparison]) -> str:
    """The picture as SVG."""

    def place(times: float) -> float:
        return LABELS + CHART * min(max(math.log(max(times, 1e-9)) / math.log(MOST), 0.0), 1.0)

    width, height = LABELS + CHART + VALUES, TOP + len(found) * (BAR + GAP) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        '<text x="8" y="22" font-size="14" font-weight="bold">How many times as fast as others (logarithmic; left: as '
        "fast)</text>",
    ]
    for tick in (1, 10, 100, 1000):
        x = place(tick)
        parts.append(f'<line x1="{x:.0f}" y1="{TOP - 4}" x2="{x:.0f}" y2="{height - 26}" stroke="#d0d7de"/>')
        parts.append(f'<text x="{x:.0f}" y="{height - 12}" text-anchor="middle" fill="#57606a">{tick}</text>')
    for row, one in enumerate(found):
        y = TOP + row * (BAR + GAP)
        words = escape(f"{one.task}, beside {one.peer}")
        parts.append(f'<text x="{LABELS - 8}" y="{y + 13}" text-anchor="end">{words}</text>')
        bar = max(place(one.times) - LABELS, 2)
        colour = "#1f6feb" if one.times >= 1.1 else "#9aa4af"
        parts.append(f'<rect x="{LABELS}" y="{y}" width="{bar:.1f}" height="{BAR}" fill="{colour}"/>')
        parts.append(f'<text x="{LABELS + bar + 6:.0f}" y="{y + 13}">{shown(one.times)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def shown(times: float) -> str:
    """Two digits, because the spread of repeats allows no more."""
    if times >= 100:
        return f"{round(times, -1):.0f}"
    return f"{times:.0f}" if times >= 10 else f"{times:.1f}"


def main() -> None:
    """Reads the command line."""
    folder, target = map(Path, sys.argv[1:])
    target.write_text(draw(comparisons(folder)))


if __name__ == "__main__":
    main()
