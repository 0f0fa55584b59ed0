# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Preprocessing layers in a pipeline, against Keras in tf.data and a Python dict in `map`.

    python benchmarks/python/preprocessing.py --tensorflow PYTHON --json benchmarks/results/preprocessing.json

PYTHON is an interpreter that can import tensorflow, this one if none is given; the two libraries disturb each other in
one process. Each side runs in a process of its own, on the same data: batches of 256 x 32 words of a vocabulary of
10^6, batches of 256 texts of 32 words, and a file of these texts, read until there were 10^8 tokens, to learn a
vocabulary from. The median of `--repeats` runs counts; `adapt` runs once.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from machine import describe

ROWS, COLUMNS, TEXT_WORDS = 256, 32, 32


def words(count: int) -> list[str]:
    return [f"word{number:07d}" for number in range(count)]


def draws(vocabulary: int, count: int) -> np.ndarray:
    """Numbers of words by Zipf's law, as in text; one in ten is out of the vocabulary."""
    generator = np.random.default_rng(7)
    numbers = (generator.random(count) ** 3 * vocabulary).astype(np.int64)
    return np.where(generator.random(count) < 0.1, numbers + vocabulary, numbers)


def batches_of_words(vocabulary: int, batches: int) -> list[list[str]]:
    """Rows of words, as many as `batches` batches have."""
    numbers = draws(vocabulary, batches * ROWS * COLUMNS).reshape(-1, COLUMNS)
    return [[f"word{number:07d}" for number in row] for row in numbers]


def texts(vocabulary: int, count: int) -> list[str]:
    numbers = draws(vocabulary, count * TEXT_WORDS).reshape(count, TEXT_WORDS)
    return [" ".join(f"Word{number:07d}," for number in row) for row in numbers]


def seconds(run: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def results(sides: dict[str, Callable[[], object]], work: argparse.Namespace) -> dict:
    """Microseconds a batch: of the clock, and of processors."""
    found = {}
    for name, run in sides.items():
        run()  # warm
        before = time.process_time()
        took = seconds(run, work.repeats)
        used = (time.process_time() - before) / work.repeats
        found[name] = {"us_per_batch": took / work.batches * 1e6, "cpu_us_per_batch": used / work.batches * 1e6}
    return found


def learning(adapt: Callable[[str, int], object], lines: list[str], work: argparse.Namespace) -> dict:
    """Megabytes of text a second of the clock, and of processors."""
    passes = -(-work.tokens // (len(lines) * TEXT_WORDS))
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        size = passes * Path(file.name).stat().st_size / 1e6
        start, before = time.perf_counter(), time.process_time()
        adapt(file.name, passes)
        return {
            "mb_per_second": size / (time.perf_counter() - start),
            "mb_per_core_second": size / (time.process_time() - before),
        }


def drain(dataset) -> None:
    for _ in dataset:
        pass


def ours(work: argparse.Namespace) -> dict:
    import torch

    import torch_distinput as tdi
    from torch_distinput import preprocessing

    torch.set_num_threads(1)
    vocabulary, rows = words(work.vocabulary), batches_of_words(work.vocabulary, work.batches)
    lines = texts(work.vocabulary, work.batches * ROWS)
    lookup = preprocessing.StringLookup(vocabulary=vocabulary)
    text = preprocessing.TextVectorization(vocabulary=vocabulary, output_sequence_length=TEXT_WORDS)
    table = {word: place + 1 for place, word in enumerate(vocabulary)}
    row_batches = tdi.Dataset.from_tensor_slices(rows).batch(ROWS)
    text_batches = tdi.Dataset.from_tensor_slices(lines).batch(ROWS)

    def by_dict(batch):
        return torch.tensor([[table.get(word, 0) for word in row] for row in batch])

    sides = {
        "StringLookup": lambda: drain(row_batches.map(lookup)),
        "dict in map": lambda: drain(row_batches.map(by_dict)),
        "TextVectorization": lambda: drain(text_batches.map(text)),
    }

    def adapt(path: str, passes: int) -> None:
        preprocessing.TextVectorization().adapt(tdi.TextLineDataset(path).batch(1024).repeat(passes), progress=False)

    return {**results(sides, work), "adapt": learning(adapt, lines, work)}


def theirs(work: argparse.Namespace) -> dict:
    import tensorflow as tf

    vocabulary, rows = words(work.vocabulary), batches_of_words(work.vocabulary, work.batches)
    lines = texts(work.vocabulary, work.batches * ROWS)
    lookup = tf.keras.layers.StringLookup(vocabulary=vocabulary)
    text = tf.keras.layers.TextVectorization(vocabulary=vocabulary, output_sequence_length=TEXT_WORDS)
    row_batches = tf.data.Dataset.from_tensor_slices(rows).batch(ROWS)
    text_batches = tf.data.Dataset.from_tensor_slices(lines).batch(ROWS)
    mapped = {
        "StringLookup": row_batches.map(lookup, num_parallel_calls=tf.data.AUTOTUNE),
        "TextVectorization": text_batches.map(text, num_parallel_calls=tf.data.AUTOTUNE),
    }
    sides: dict[str, Callable[[], object]] = {name: lambda ds=ds: drain(ds) for name, ds in mapped.items()}

    def adapt(path: str, passes: int) -> None:
        tf.keras.layers.TextVectorization().adapt(tf.data.TextLineDataset(path).batch(1024).repeat(passes))

    return {**results(sides, work), "adapt": learning(adapt, lines, work)}


def imports_tensorflow(python: str) -> bool:
    command = [python, "-c", "import importlib.util; assert importlib.util.find_spec('tensorflow')"]
    return subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tensorflow", default=sys.executable, help="a Python that can import tensorflow")
    parser.add_argument("--json", type=Path, help="where the results go")
    parser.add_argument("--vocabulary", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=100_000_000, help="to learn a vocabulary from")
    parser.add_argument("--side", choices=("ours", "theirs"), help=argparse.SUPPRESS)
    work = parser.parse_args()
    if work.side:
        print(json.dumps({"ours": ours, "theirs": theirs}[work.side](work)))
        return
    found = {}
    for name, python, side in (
        ("torch_distinput", sys.executable, "ours"),
        ("Keras in tf.data", work.tensorflow, "theirs"),
    ):
        if side == "theirs" and not imports_tensorflow(python):
            print(f"{name:18} not installed")
            continue
        sizes = [f"--{size}={getattr(work, size)}" for size in ("vocabulary", "batches", "repeats", "tokens")]
        output = subprocess.run(
            [python, __file__, "--side", side, *sizes], check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        found[name] = json.loads(output.splitlines()[-1])
        for what, numbers in found[name].items():
            print(f"{name:18} {what:18}", *(f"{value:10.1f} {unit}" for unit, value in numbers.items()))
    if work.json:
        report = {**describe(("torch", "numpy")), "vocabulary": work.vocabulary, "results": found}
        work.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
