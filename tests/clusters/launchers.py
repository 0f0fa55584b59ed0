# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Which launchers are here, in which version, and how jobs run under them."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from job import ROWS
from pages import blocks
from places import DOCS

HERE = Path(__file__).resolve().parent
JOB = str(HERE / "job.py")
# Where `make test-clusters` installs Ray and Spark.
PYTHON = HERE.parents[1] / "build" / "clusters" / "bin" / "python"
TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
LIMIT = 120  # seconds that a job may take


class Absent(Exception):
    """Why a launcher is not here."""


def run(command: Sequence[str], limit: float = LIMIT, env: Mapping[str, str] | None = None) -> str:
    """The output of a command, whose processes all end at the limit. Raises AssertionError if it fails."""
    process = start(command, env)
    return output_of(process, limit)


def start(command: Sequence[str], env: Mapping[str, str] | None = None) -> subprocess.Popen:
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(command, env=env, text=True, start_new_session=True, **streams)


def output_of(process: subprocess.Popen, limit: float = LIMIT) -> str:
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output = f"{process.communicate()[0]}\nnot ended after {limit} s"
    assert process.returncode == 0, output
    return output


def program_of_page(word: str) -> str:
    """The program in docs/clusters.md that has this word."""
    (program,) = [block for block in blocks(DOCS / "clusters.md", "python") if word in block]
    return program


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


def check_rows(folder: Path, world: int, per_node: int | None = None) -> None:
    """Of the `world` processes of a job that wrote to `folder`: each row reached one of them once an epoch, and their
    steps are equal. `per_node`: processes of what the launcher takes for a node; None: all."""
    reports = [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(world)]
    assert [report["size"] for report in reports] == [world] * world
    assert [report["local_rank"] for report in reports] == [rank % (per_node or world) for rank in range(world)]
    for epoch in zip(*(report["epochs"] for report in reports)):
        assert len({len(steps) for steps in epoch}) == 1
        assert sorted(row for steps in epoch for step in steps for row in step) == list(range(ROWS))


def _version_said_by(*command: str) -> str:
    if shutil.which(command[0]) is None:
        raise Absent(f"{command[0]} is not installed")
    return re.search(r"\d+(\.\d+)+", run(command, 20))[0]


def _slurm() -> str:
    for program in ("srun", "slurmctld", "slurmd", "munged"):
        if shutil.which(program) is None:
            raise Absent(f"{program} is not installed")
    if os.getuid() != 0:
        raise Absent("slurmd starts only as root")
    return _version_said_by("slurmd", "-V")


def _package(name: str) -> str:
    if not PYTHON.exists():
        raise Absent(f"{name} is not installed; `make test-clusters` does")
    program = f"import importlib.metadata as m\ntry: print(m.version('{name}'))\nexcept m.PackageNotFoundError: pass"
    version = run([str(PYTHON), "-c", program], 20).strip()
    if not version:
        raise Absent(f"{name} could not be installed")
    return version


def _spark() -> str:
    if shutil.which("java") is None:
        raise Absent("java is not installed")
    return _package("pyspark")


# The version of each launcher; raises Absent.
VERSIONS: dict[str, Callable[[], str]] = {
    "torchrun": lambda: torch.__version__,
    "Kubeflow's variables": lambda: torch.__version__,
    "Open MPI": lambda: _version_said_by("mpirun.openmpi", "--version"),
    "MPICH": lambda: _version_said_by("mpirun.mpich", "--version"),
    "Slurm": _slurm,
    "Ray Train": lambda: _package("ray"),
    "Spark": _spark,
}
