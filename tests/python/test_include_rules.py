# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The borders between the rooms of csrc/ hold, and the script that guards them can fail."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tools" / "check_includes.py"


def check(root: Path) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True, timeout=60)


def test_the_source_tree_keeps_the_rules():
    result = check(ROOT)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("file", "include", "rule"),
    [
        ("core/a.cpp", '"runtime/pool.h"', "core may include only core, include"),
        ("runtime/a.cpp", '"core/element.h"', "runtime may include only"),
        ("runtime/a.cpp", '"torch_distinput/element.h"', "runtime may include only"),
        ("runtime/a.cpp", "<c10/util/Exception.h>", "runtime and files do not know torch"),
        ("ops/a.cpp", '"sources/files.h"', "ops may include only"),
        ("ops/a.cpp", '"../sources/files.h"', "ops may include only"),
        ("distribute/a.cpp", '"device/copy_engine.h"', "distribute may include only"),
        ("distribute/a.cpp", "<torch/csrc/distributed/c10d/Store.hpp>", "only comm and the bindings see c10d"),
        ("python/a.cpp", '"core/element.h"', "python may include only"),
        ("kernels/a.cpp", "<pybind11/pybind11.h>", "only python sees pybind11"),
        ("device/a.cpp", "<cuda_runtime.h>", "CUDA lives in device/cuda"),
        ("include/torch_distinput/a.h", '"core/element.h"', "include may include only include"),
        ("include/torch_distinput/a.h", "<tbb/task_arena.h>", "neither public headers nor core know oneTBB"),
        ("include/torch_distinput/a.h", "<torch/csrc/distributed/c10d/Store.hpp>", "only comm and the bindings see c10d"),
        ("include/torch_distinput/a.h", "<Python.h>", "only python sees pybind11 and CPython"),
        ("comm/a.cpp", "<torch/torch.h>", "too slow to compile"),
        ("attic/a.cpp", "<vector>", "attic is not a room"),
    ],
)
def test_a_violation_is_reported_with_its_place(tmp_path: Path, file: str, include: str, rule: str):
    for header in ("sources/files.h", "core/element.h", "include/torch_distinput/element.h"):
        (tmp_path / "csrc" / header).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "csrc" / header).touch()
    planted = tmp_path / "csrc" / file
    planted.parent.mkdir(parents=True, exist_ok=True)
    planted.write_text(f"#include {include}\n")

    result = check(tmp_path)

    assert result.returncode == 1
    assert f"csrc/{file}:1:" in result.stdout
    assert rule in result.stdout


@pytest.mark.parametrize(
    ("file", "include"),
    [
        ("core/a.cpp", '"torch_distinput/element.h"'),
        ("core/a.cpp", "<ATen/core/Tensor.h>"),
        ("runtime/a.cpp", "<tbb/task_arena.h>"),
        ("comm/a.cpp", "<torch/csrc/distributed/c10d/Store.hpp>"),
        ("distribute/a.cpp", '"comm/communicator.h"'),
        ("python/a.cpp", '"runtime/worker_thread.h"'),
        ("device/cuda/a.cu", "<cuda_runtime.h>"),
    ],
)
def test_an_allowed_include_passes(tmp_path: Path, file: str, include: str):
    allowed = tmp_path / "csrc" / file
    allowed.parent.mkdir(parents=True)
    allowed.write_text(f"#include {include}\n")

    result = check(tmp_path)

    assert result.returncode == 0, result.stdout
