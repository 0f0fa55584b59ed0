# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""This library beside its peers: the same bytes, the same delivered tensors.

    python benchmarks/peers/run.py [--task NAME] [--system NAME] [--repeats N] [--json FILE]

Each system runs in a process of its own, which stays while the systems of a task take turns: in order, in the opposite
order, and so on. benchmarks/README.md has the rules.
"""

import argparse
import contextlib
import json
import os
import selectors
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "python"))
import machine  # noqa: E402
import side  # noqa: E402
from install import PACKAGES  # noqa: E402
from task import Task  # noqa: E402

TASKS = ("rows", "python_rows", "records", "images", "tables", "tokens", "uneven_ranks")
OWN = "torch_distinput"
CHECK_SECONDS, MEASURE_SECONDS = 120.0, 60.0


class Side:
    """A process that runs one system."""

    def __init__(self, task: Task, system: str, folder: Path, log: Path) -> None:
        self.series: dict[str, list[float]] = {"us": [], "cpu_us": [], "first_ms": []}
        self.failed: str | None = None
        self.log = log
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / "side.py"), task.name, system, str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
            )
        os.set_blocking(self.process.stdout.fileno(), False)
        self.checked = self.answer(CHECK_SECONDS)

    def answer(self, seconds: float) -> dict[str, Any]:
        """The next answer; ends the process where there is none, or a failure."""
        until, text = time.monotonic() + seconds, b""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while not text.endswith(b"\n") and selector.select(max(0.0, until - time.monotonic())):
                piece = self.process.stdout.read()
                if not piece:
                    break
                text += piece
        if text.endswith(b"\n"):
            found = json.loads(text)
        elif time.monotonic() >= until:
            found = {"failed": f"no answer within {seconds:.0f} s"}
        else:
            found = {"failed": f"ended: {self.last_words()}"}
        self.failed = found.get("failed")
        if self.failed:
            self.end()
        return found

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else "without a word"

    def measure(self) -> None:
        if self.failed:
            return
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        found = self.answer(MEASURE_SECONDS)
        for key, values in self.series.items():
            if not self.failed:
                values.append(found[key])

    def end(self) -> None:
        """Ends the process and all that it started."""
        if self.process.poll() is None:
            self.process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(2 if self.failed is None else 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


def summary(one: Side, own: Side | None) -> dict[str, Any]:
    """Medians; `times_ours` and its range are of the ratios in each round."""
    if one.failed:
        return {"failed": one.failed}
    samples = one.series["us"]
    us = statistics.median(samples)
    found = {
        "us_per_batch": round(us, 2),
        "spread": round((max(samples) - min(samples)) / us, 3),
        "samples_us": [round(sample, 2) for sample in samples],
        "cpu_us_per_batch": round(statistics.median(one.series["cpu_us"]), 2),
        "first_ms": round(statistics.median(one.series["first_ms"]), 2),
        "rows_repeated": one.checked["repeated"],
        "rows_missing": one.checked["missing"],
    }
    if own is not None and not own.failed:
        ratios = [theirs / ours for theirs, ours in zip(samples, own.series["us"], strict=True)]
        found["times_ours"] = round(statistics.median(ratios), 3)
        found["times_ours_range"] = [round(min(ratios), 3), round(max(ratios), 3)]
    return found


def run_task(task: Task, systems: list[str], repeats: int) -> dict[str, Any]:
    """Writes the bytes, starts and checks every system, and lets them take turns."""
    neighbours = machine.Neighbours()
    sides: dict[str, Side] = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name) / "data"
        folder.mkdir()
        task.write(folder)
        try:
            for number, system in enumerate(systems):
                sides[system] = Side(task, system, folder, Path(name) / f"{number}.log")
                print(f"  {system}: {sides[system].failed or 'checked'}", flush=True)
            for repeat in range(repeats):
                for one in list(sides.values())[:: 1 if repeat % 2 == 0 else -1]:
                    one.measure()
        finally:
            for one in sides.values():
                one.end()
    return {
        "name": task.name,
        "title": task.title,
        "rows": task.rows,
        "batch": task.batch,
        "ranks": task.ranks,
        "others_cores": round(neighbours.cores(), 2),
        "series": {system: summary(one, sides.get(OWN)) for system, one in sides.items()},
    }


def installed() -> dict[str, str | None]:
    """Versions of the systems; None where one is not installed."""
    found: dict[str, str | None] = {}
    for package in PACKAGES:
        name = package.partition("[")[0]
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def show(result: dict[str, Any]) -> None:
    print(f"{result['title']}; others used {result['others_cores']:.2f} cores")
    for system, one in result["series"].items():
        if "failed" in one:
            print(f"  {system:44} no figure: {one['failed']}")
            continue
        errors = [f"{one[f'rows_{what}']} rows {what}" for what in ("repeated", "missing") if one[f"rows_{what}"]]
        beside = f"{one['times_ours']:7.2f} x ours" if "times_ours" in one else ""
        print(
            f"  {system:44} {one['us_per_batch']:10.1f} us  spread {one['spread']:4.0%}  CPU "
            f"{one['cpu_us_per_batch']:10.1f} us  first {one['first_ms']:7.1f} ms  {beside}  {'; '.join(errors)}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", action="append", choices=TASKS, help="only this task (may be repeated)")
    parser.add_argument("--system", action="append", help="only this system (may be repeated)")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    arguments = parser.parse_args()
    start = time.perf_counter()
    results = {
        **machine.describe(("torch", "numpy")),
        "packages": installed(),
        "repeats": arguments.repeats,
        "chosen": {"tasks": arguments.task, "systems": arguments.system},
        "tasks": [],
    }
    for name in arguments.task or TASKS:
        task = side.load(name)
        wanted = [system for system in task.systems if system in (arguments.system or task.systems)]
        results["tasks"].append(run_task(task, wanted, arguments.repeats))
        show(results["tasks"][-1])
        results["seconds"] = round(time.perf_counter() - start)
        if arguments.json:  # after each task, so that a run that is cut off keeps what it has
            arguments.json.parent.mkdir(parents=True, exist_ok=True)
            arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    print(f"{results['seconds']} s")


if __name__ == "__main__":
    main()
