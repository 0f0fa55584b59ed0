# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Draws the committed results: `charts.py RESULTS_FOLDER` writes in_memory_rows.svg and overview.svg there."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bars import OTHERS, OURS, Bar, caption_of, draw, shown


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


def overview(found: list[Comparison]) -> str:
    """How many times as fast as others this library is."""
    bars = [
        Bar(f"{one.task}, beside {one.peer}", one.times, shown(one.times), OURS if one.times >= 1.1 else OTHERS)
        for one in found
    ]
    title = "How many times as fast as others (logarithmic; left: as fast)"
    return draw(title, {"": bars}, limits=(1, 1000), ticks=(1, 10, 100, 1000))


def memory(results: dict[str, Any]) -> str:
    """How close to the limit of memory the loaders of in_memory_rows.py are. Limits have no start-up time."""

    def bar(name: str, one: dict[str, Any]) -> Bar:
        share = f"{one['of_limit']:.{0 if one['of_limit'] >= 0.1 else 1}%}"
        words = f"{share}, {one['us_per_batch']:,.0f} µs a batch"
        return Bar(name, one["of_limit"], words, OURS if name == "torch_distinput" else OTHERS)

    groups = {
        work["title"]: [bar(name, one) for name, one in work["series"].items() if "first_batch_ms" in one]
        for work in results["works"]
    }
    title = "Shuffled batches from memory: share of the memory limit (line: a bare gather loop)"
    longest = max(1.0, *(bar.value for bars in groups.values() for bar in bars))
    return draw(title, groups, limits=(0, longest), begin=0, caption=caption_of(results))


def main() -> None:
    """Reads the command line."""
    (folder,) = map(Path, sys.argv[1:])
    (folder / "overview.svg").write_text(overview(comparisons(folder)))
    (folder / "in_memory_rows.svg").write_text(memory(json.loads((folder / "in_memory_rows.json").read_text())))


if __name__ == "__main__":
    main()
