# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What an element costs in ops of the sequential path, compared with tf.data.

    python benchmarks/python/stream_ops.py --tensorflow PYTHON --json benchmarks/results/stream_ops.json

PYTHON is an interpreter that can import tensorflow; the two libraries disturb each other in one process. Each side runs
in a process of its own, in the order A-B-A-B-A, with one thread where an option allows it. Elements are delivered in
batches, so that the cost of a Python loop does not hide that of an op.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

ROWS = 40_000
DELIVERED = 500
LENGTHS = 8


def ours() -> dict[str, Callable[[], Iterable]]:
    """The works in torch_distinput."""
    import torch

    import torch_distinput as tdi

    torch.set_num_threads(1)
    rows = tdi.Dataset.range(ROWS)
    vectors = torch.nested.nested_tensor([torch.ones(i % LENGTHS) for i in range(ROWS)], layout=torch.jagged)
    return {
        "filter": lambda: rows.filter(lambda x: x % 2 == 0).batch(DELIVERED),
        "interleave": lambda: (
            tdi.Dataset.range(ROWS // 1000)
            .interleave(lambda _: tdi.Dataset.range(1000), cycle_length=4)
            .batch(DELIVERED)
        ),
        "padded_batch": lambda: tdi.Dataset.from_tensor_slices(vectors).padded_batch(DELIVERED),
    }


def theirs() -> dict[str, Callable[[], Iterable]]:
    """The same works in tf.data."""
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    rows = tf.data.Dataset.range(ROWS)
    vectors = tf.RaggedTensor.from_row_lengths(
        tf.ones([sum(i % LENGTHS for i in range(ROWS))]), [i % LENGTHS for i in range(ROWS)]
    )
    return {
        "filter": lambda: rows.filter(lambda x: x % 2 == 0).batch(DELIVERED).with_options(options),
        "interleave": lambda: (
            tf.data.Dataset.range(ROWS // 1000)
            .interleave(lambda _: tf.data.Dataset.range(1000), cycle_length=4)
            .batch(DELIVERED)
            .with_options(options)
        ),
        "padded_batch": lambda: (
            tf.data.Dataset.from_tensor_slices(vectors)
            .map(lambda row: row)
            .padded_batch(DELIVERED)
            .with_options(options)
        ),
    }


def measure(works: dict[str, Callable[[], Iterable]]) -> dict[str, float]:
    """Microseconds an input element: the best of three runs, after a warm-up."""
    found = {}
    for name, make in works.items():
        times = []
        for _ in range(4):
            start = time.perf_counter()
            for _ in make():
                pass
            times.append((time.perf_counter() - start) / ROWS * 1e6)
        found[name] = min(times[1:])
    return found


def run_side(python: str, side: str) -> dict[str, float]:
    """One process of one side."""
    result = subprocess.run([python, __file__, "--side", side], capture_output=True, text=True, check=True)
    return json.loads(result.stdout.splitlines()[-1])


def main() -> None:
    """Runs both sides in turn and prints the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", choices=["ours", "theirs"], help=argparse.SUPPRESS)
    parser.add_argument("--tensorflow", help="a Python that can import tensorflow; without it only our side runs")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    if arguments.side:
        print(json.dumps(measure(ours() if arguments.side == "ours" else theirs())))
        return
    import machine

    sides = {"torch_distinput": (sys.executable, "ours"), "tf.data": (arguments.tensorflow, "theirs")}
    order = [name for name in ["torch_distinput", "tf.data"] * 2 + ["torch_distinput"] if sides[name][0]]
    neighbours = machine.Neighbours()
    runs: dict[str, list[dict[str, float]]] = {}
    for name in order:
        runs.setdefault(name, []).append(run_side(*sides[name]))
    medians = {
        name: {work: round(statistics.median(run[work] for run in found), 3) for work in found[0]}
        for name, found in runs.items()
    }
    others = round(neighbours.cores(), 2)
    for name, works in medians.items():
        print(f"{name:16}", "  ".join(f"{work} {cost:.2f} us" for work, cost in works.items()))
    print(f"others used {others} cores")
    if arguments.json:
        content = {
            **machine.describe(("torch",)),
            "unit": "us an input element",
            "others_used_cores": others,
            "results": medians,
        }
        arguments.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
