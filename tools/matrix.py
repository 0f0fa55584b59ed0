#!/usr/bin/env python3
# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The wheel of `make wheel` in a new environment, and the fast Python tests, for combinations of Python and torch.

    tools/matrix.py --pythons "python3.10 python3.11 python3.12 python3.13 python3.14" [combination ...]

A combination is PYTHON:TORCH:BUILD, as in 3.12:2.13.0:cuda, or 3.13t:2.11.0:cuda without the GIL. `cuda` is the
registry's plain build of torch, `cpu` the one of PyTorch's CPU index (TORCH_INDEX_URL, else the indexes in pip's
configuration). The results replace the rows of docs/versions.md. An environment with a CUDA build takes 5 GB; it is
removed again if all tests passed.

nox would make the environments, 40 lines of this, but a session of it has no time limit for a command.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from make_wheel import interpreters
from source_copy import ROOT, copy_source
from versions_page import PAGE, Row, page_with

PACKAGE = "torch_distinput"
# Every Python and every minor release of torch once, both builds of torch, the oldest and the newest together, and one
# without the GIL.
DEFAULT = (
    "3.10:2.11.0:cuda",
    "3.11:2.13.0:cpu",
    "3.12:2.12.1:cuda",
    "3.13:2.14.1:cuda",
    "3.13t:2.11.0:cuda",
    "3.14:2.14.1:cuda",
)
TEST_TOOLS = ("numpy", "pytest", "pytest-xdist", "hypothesis", "scikit-learn", "tqdm")
TEST_LIMIT = 2 * 3600  # seconds
# Variables of the caller's environment that would add to the search path are left out.
OUTSIDE = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}

FACTS = f"""
import importlib.metadata, json, platform, sys, torch, {PACKAGE}
from pathlib import Path
package = Path({PACKAGE}.__file__).parent
print(json.dumps({{
    "package": str(package),
    "python": platform.python_version() + sys.abiflags,
    "torch": torch.__version__,
    "cuda": torch.version.cuda,
    "library": any(package.glob("_native/torch*/lib/libtorch_distinput_cuda.so")),
    "tbb": importlib.metadata.version("tbb"),
}}))
"""
FIRST_BATCH = f"""
import torch, {PACKAGE} as tdi
(batch,) = next(iter(tdi.DataLoader(torch.utils.data.TensorDataset(torch.arange(8)), batch_size=4)))
assert batch.tolist() == [0, 1, 2, 3]
"""


class Failure(Exception):
    """A step that failed, in one line."""


@dataclasses.dataclass(frozen=True)
class Combination:
    python: str
    torch: str
    build: str

    @classmethod
    def parse(cls, text: str) -> "Combination":
        if not re.fullmatch(r"3\.\d+t?:\d+\.\d+\.\d+:(cpu|cuda)", text):
            raise Failure(f"combination {text!r}: wanted PYTHON:TORCH:BUILD, as in 3.12:2.13.0:cuda or 3.11:2.13.0:cpu")
        return cls(*text.split(":"))

    def __str__(self) -> str:
        return f"{self.python}:{self.torch}:{self.build}"

    @property
    def tag(self) -> str:
        """The Python's tag in names of wheels, such as cp313t."""
        return f"cp{self.python.replace('.', '')}"

    @property
    def requirement(self) -> str:
        """The requirement of torch. `===` compares texts: `==2.13.0` would accept 2.13.0+cpu too."""
        return f"torch==={self.torch}" + ("+cpu" if self.build == "cpu" else "")


# --- the steps -------------------------------------------------------------------------------------------
def run(command: list[object], log: Path, limit: float | None = None, **options: object) -> None:
    """Runs a command and appends its output to the log; ends all processes that it started. Raises Failure."""
    command, options = [str(part) for part in command], {"env": OUTSIDE} | options
    with log.open("a") as output:
        print("$", shlex.join(command), file=output, flush=True)
        streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
        process = subprocess.Popen(command, start_new_session=True, **streams, **options)
    try:
        status = process.wait(limit)
    except subprocess.TimeoutExpired:
        raise Failure(f"took more than {limit} s, see {log}") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if status:
        raise Failure(f"exit status {status}, see {log}")


class Environment:
    def __init__(self, interpreter: str, folder: Path, log: Path):
        shutil.rmtree(folder, ignore_errors=True)
        run([interpreter, "-m", "venv", "--upgrade-deps", folder], log)
        self.python = folder / "bin" / "python"
        self.log = log

    def install(self, *requirements: object, index: str | None = None) -> None:
        variables = OUTSIDE | ({"PIP_INDEX_URL": index} if index else {})
        run([self.python, "-m", "pip", "install", "--progress-bar=off", *requirements], self.log, env=variables)

    def output(self, program: str, **variables: str) -> str:
        done = subprocess.run(
            [self.python, "-c", program], cwd=self.log.parent, env=OUTSIDE | variables, timeout=300, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        if done.returncode:
            raise Failure(done.stdout)
        return done.stdout.strip()


def wheel_for(tag: str, dist: Path) -> Path:
    """The newest wheel for this Python, such as cp313 or cp313t."""
    found = sorted(dist.glob(f"{PACKAGE}-*-cp*-{tag}-*.whl"), key=lambda wheel: wheel.stat().st_mtime)
    if not found:
        raise Failure(f"{dist} has no wheel for {tag}: run make wheel with WHEEL_PYTHONS")
    return found[-1]


def run_tests(folder: Path, source: Path, environment: Environment, row: Row) -> list[str]:
    """The names of the tests that failed, run in a copy of the tree without the package."""
    tree, report = folder / "tree", folder / "tests.xml"
    shutil.copytree(source, tree, ignore=lambda place, names: {PACKAGE, "build"} if Path(place) == source else set())
    command = [environment.python, "-m", "pytest", "tests/python", "-m", "not slow", f"--junitxml={report}"]
    command += ["-n", os.cpu_count(), "--dist", "worksteal"]
    # This test checks the results of the run that it would be part of.
    command.append("--ignore=tests/python/tools/test_matrix.py")
    failures: list[str] = []
    try:
        run(command, folder / "tests.log", TEST_LIMIT, cwd=tree)
    except Failure as failure:
        failures.append(str(failure))
    if not report.exists():
        return failures
    suite = ElementTree.parse(report).getroot().find("testsuite")
    tests, skipped = int(suite.get("tests")), int(suite.get("skipped"))
    bad = [case for case in suite.iter("testcase") if {part.tag for part in case} & {"failure", "error"}]
    row.passed, row.failed, row.skipped = str(tests - skipped - len(bad)), str(len(bad)), str(skipped)
    return failures + [f"{case.get('classname')}::{case.get('name')}" for case in bad]


# --- one combination -------------------------------------------------------------------------------------
def examine(combination: Combination, interpreter: str, wheel: Path, folder: Path, source: Path, row: Row) -> list[str]:
    """Runs one combination and fills `row` until something fails; returns what failed."""
    environment = Environment(interpreter, folder / "env", folder / "install.log")
    index = os.environ.get("TORCH_INDEX_URL") if combination.build == "cpu" else None
    environment.install(combination.requirement, index=index or None)
    # A release without wheels for this Python would be compiled for half an hour.
    environment.install("--only-binary=:all:", *TEST_TOOLS)
    started = time.monotonic()
    environment.install(wheel)
    environment.output(FIRST_BATCH)
    row.first_batch_seconds = f"{time.monotonic() - started:.1f}"
    row.wheel = re.search(r"[^-]+(?=\.whl$)", wheel.name)[0].split(".")[0]
    run([environment.python, "-m", "pip", "check"], environment.log)
    facts = json.loads(environment.output(FACTS).splitlines()[-1])
    if not Path(facts["package"]).is_relative_to(folder):
        raise Failure(f"the tests would run against {facts['package']}")
    if bool(facts["cuda"]) != (combination.build == "cuda"):
        raise Failure(f"torch {facts['torch']} is the build for CUDA {facts['cuda']}")
    row.python, row.torch, row.onetbb = facts["python"], facts["torch"], facts["tbb"]
    row.build = f"CUDA {facts['cuda']}" if facts["cuda"] else "CPU"
    row.cuda_library = "yes" if facts["library"] else "no"

    started = time.monotonic()
    failures = run_tests(folder, source, environment, row)
    row.test_seconds = f"{time.monotonic() - started:.0f}"
    return failures


def attempt(combination: Combination, interpreter: str, wheel: Path, base: Path) -> bool:
    """Runs one combination and writes its row; returns whether all passed. The folder of a failed one is kept."""
    folder = base / str(combination).replace(":", "-")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"{combination} in {folder}", flush=True)
    row = Row(combination.python, combination.torch, "CUDA" if combination.build == "cuda" else "CPU")
    try:
        failures = examine(combination, interpreter, wheel, folder, base / "source", row)
    except Failure as failure:
        failures = [str(failure)]
    print(*(f"  FAILED {failure}" for failure in failures), f"  {row}", sep="\n", flush=True)
    PAGE.write_text(page_with(PAGE.read_text() if PAGE.exists() else "", row))
    if not failures:
        for part in ("env", "tree"):
            shutil.rmtree(folder / part, ignore_errors=True)
    return not failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("combinations", nargs="*", default=DEFAULT, metavar="PYTHON:TORCH:BUILD")
    parser.add_argument("--pythons", required=True, help="interpreters to choose from, separated by blanks")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "matrix", help="for environments")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where make wheel has put the wheels")
    arguments = parser.parse_args()
    combinations = [Combination.parse(text) for text in arguments.combinations]
    known = {tag: python for python, tag in interpreters(arguments.pythons.split())}
    for combination in combinations:
        if combination.tag not in known:
            raise Failure(f"{combination}: no Python {combination.python} among {arguments.pythons!r}")
    wheels = [wheel_for(combination.tag, arguments.dist) for combination in combinations]
    base = arguments.folder.resolve()
    copy_source(base / "source")
    passed = [attempt(one, known[one.tag], wheel, base) for one, wheel in zip(combinations, wheels, strict=True)]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f"matrix: {failure}")
