# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`make matrix` covers the declared versions and keeps one row for each combination."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

TOOL = ROOT / "tools" / "matrix.py"
sys.path.insert(0, str(TOOL.parent))
try:
    import matrix
    from versions_page import Row, page_with, rows_of
finally:
    sys.path.pop(0)

DEFAULT = [matrix.Combination.parse(text) for text in matrix.DEFAULT]
PYTHONS = {combination.python for combination in DEFAULT}
WITH_GIL = {python for python in PYTHONS if not python.endswith("t")}
MINORS = {combination.torch.rpartition(".")[0] for combination in DEFAULT}


def as_numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def test_the_oldest_and_newest_declared_torch_are_covered_and_both_builds():
    oldest, newest = min(MINORS, key=as_numbers), max(MINORS, key=as_numbers)
    build = (ROOT / "CMakeLists.txt").read_text()
    assert re.search(r"VERSION_LESS ([\d.]+) OR \w+ VERSION_GREATER ([\d.]+)\)", build).groups() == (oldest, newest)
    assert f"torch {oldest} to {newest}" in (ROOT / "README.md").read_text()
    assert {combination.build for combination in DEFAULT} == {"cpu", "cuda"}


def test_every_python_from_the_oldest_declared_one_is_covered():
    oldest = re.search(r'requires-python = ">=3\.(\d+)"', (ROOT / "pyproject.toml").read_text())[1]
    assert {f"3.{minor}" for minor in range(int(oldest), int(oldest) + len(WITH_GIL))} == WITH_GIL


def test_a_row_takes_the_place_of_the_one_about_the_same_combination():
    page = page_with("", Row("3.10.1", "2.9.1+cu130", "CUDA 13.0"), Row("3.9.2", "2.10.0", "CPU"))
    later = Row("3.10.7", "2.9.1+cu130", "CUDA 13.0", wheel="linux"), Row("3.10.7", "2.9.1+cpu", "CPU")
    found = [(row.python, row.torch, row.wheel) for row in rows_of(page_with(page, *later))]
    assert found == [("3.9.2", "2.10.0", "no"), ("3.10.7", "2.9.1+cpu", "no"), ("3.10.7", "2.9.1+cu130", "linux")]


def test_a_python_without_the_gil_has_a_row_of_its_own():
    page = ""
    for python in ("3.13.5t", "3.13.0", "3.14.1", "3.13.6t"):
        page = page_with(page, Row(python, "2.11.0", "CPU"))
    assert [row.python for row in rows_of(page)] == ["3.13.0", "3.13.6t", "3.14.1"]


def test_the_newest_wheel_for_a_python_is_taken(tmp_path: Path):
    for age, name in enumerate(("0.2.0-cp312-cp312", "0.1.0-cp312-cp312", "0.2.0-cp313-cp313t", "0.2.0-cp313-cp313")):
        wheel = tmp_path / f"torch_distinput-{name}-linux_x86_64.whl"
        wheel.touch()
        os.utime(wheel, (0, 100 - age))
    assert matrix.wheel_for("cp312", tmp_path).name == "torch_distinput-0.2.0-cp312-cp312-linux_x86_64.whl"
    assert "-cp313-cp313t-" in matrix.wheel_for("cp313t", tmp_path).name
    with pytest.raises(matrix.Failure, match="no wheel for cp311: run make wheel"):
        matrix.wheel_for("cp311", tmp_path)


@pytest.mark.parametrize(
    ("combination", "said"),
    [
        ("3.12:2.13:cuda", "combination '3.12:2.13:cuda': wanted PYTHON:TORCH:BUILD"),
        ("3.12:2.13.0:rocm", "combination '3.12:2.13.0:rocm': wanted PYTHON:TORCH:BUILD"),
        ("3.1:2.13.0:cpu", "3.1:2.13.0:cpu: no Python 3.1 among"),
        ("3.1t:2.13.0:cpu", "3.1t:2.13.0:cpu: no Python 3.1t among"),
    ],
)
def test_a_combination_that_cannot_run_is_refused_by_name(tmp_path: Path, combination: str, said: str):
    command = [sys.executable, TOOL, "--pythons", sys.executable, "--folder", tmp_path, combination]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.startswith(f"matrix: {said}")
    assert list(tmp_path.iterdir()) == []
