# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The rules between the rooms of csrc/ and of torch_distinput/ hold, and the scripts that check them can fail."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

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
        ("runtime/a.cpp", "<c10/util/Exception.h>", "base, runtime, workers, remote and io do not know torch"),
        ("ops/a.cpp", '"sources/files.h"', "ops may include only"),
        ("ops/a.cpp", '"../sources/files.h"', "ops may include only"),
        ("distribute/steps/a.cpp", '"comm/waiting.h"', "distribute/steps may include only"),
        ("distribute/steps/a.cpp", "<torch/csrc/distributed/c10d/Store.hpp>", "only comm and the bindings see c10d"),
        ("bindings/a.cpp", '"core/element.h"', "bindings may include only"),
        ("kernels/a.cpp", "<pybind11/pybind11.h>", "only the bindings see pybind11"),
        ("device/a.cpp", "<cuda_runtime.h>", "CUDA lives in device/cuda"),
        ("include/torch_distinput/a.h", '"core/element.h"', "include may include only include"),
        ("include/torch_distinput/a.h", "<tbb/task_arena.h>", "only runtime and kernels know oneTBB"),
        (
            "include/torch_distinput/a.h",
            "<torch/csrc/distributed/c10d/Store.hpp>",
            "only comm and the bindings see c10d",
        ),
        ("include/torch_distinput/a.h", "<Python.h>", "only the bindings see pybind11 and CPython"),
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
        ("distribute/coordination/a.cpp", '"comm/key_value_store.h"'),
        ("bindings/bind_multi_worker.cpp", '"comm/tensor_text.h"'),
        ("device/cuda/a.cu", "<cuda_runtime.h>"),
    ],
)
def test_an_allowed_include_passes(tmp_path: Path, file: str, include: str):
    allowed = tmp_path / "csrc" / file
    allowed.parent.mkdir(parents=True)
    allowed.write_text(f"#include {include}\n")

    result = check(tmp_path)

    assert result.returncode == 0, result.stdout


def test_a_sub_room_has_its_own_line(tmp_path: Path):
    planted = tmp_path / "csrc" / "distribute" / "splitting" / "a.cpp"
    planted.parent.mkdir(parents=True)
    planted.write_text('#include "distribute/steps/b.h"\n')

    result = check(tmp_path)

    assert result.returncode == 1
    assert "distribute/splitting may include only" in result.stdout


def test_a_cycle_of_headers_and_sources_is_reported(tmp_path: Path):
    folder = tmp_path / "csrc" / "core"
    folder.mkdir(parents=True)
    (folder / "a.h").write_text("")
    (folder / "a.cpp").write_text('#include "core/b.h"\n')
    (folder / "b.h").write_text('#include "core/a.h"\n')

    result = check(tmp_path)

    assert result.returncode == 1
    assert "csrc/core/a.h:1: includes itself by way of core/b" in result.stdout


def test_the_umbrella_header_has_every_public_header():
    folder = ROOT / "csrc" / "include" / "torch_distinput"
    included = set(re.findall(r'#include "torch_distinput/(.+?)"', (folder / "torch_distinput.h").read_text()))
    assert included == {path.name for path in folder.glob("*.h")} - {"torch_distinput.h", "api.h"}


CHECK_IMPORTS = ROOT / "tools" / "check_imports.py"


def check_modules(root: Path, **modules: str) -> subprocess.CompletedProcess:
    for name, text in modules.items():
        path = root / "torch_distinput" / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return subprocess.run([sys.executable, CHECK_IMPORTS, root], capture_output=True, text=True, timeout=60)


def test_the_package_keeps_the_rules():
    result = check_modules(ROOT)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("module", "line", "rule"),
    [
        ("ops___a", "from torch_distinput.loader._b import c", "imports loader/_b, but ops may import only ops, base"),
        ("loader__state___a", "from torch_distinput.loader.ranks import _b", "loader/state may import only"),
        ("base___a", "import torch_distinput.loader._b", "base may import only base"),
        ("base___a", "def f():\n    from torch_distinput.loader._b import c", "base may import only base"),
        ("base___a", "if TYPE_CHECKING:\n    from torch_distinput.loader._b import c", "base may import only base"),
        ("attic___a", "", "attic is not a room"),
        ("loader__a", "", "a module that is not public begins with an underscore"),
        ("loader___a", "from torch_distinput.base._b import _c", "uses _c, which is private to base/_b"),
        ("loader___a", "print(loader._memory)", "uses _memory, which no class here has"),
        (
            "loader___a",
            "class A:\n    def f(self):\n        return self.loader._memory",
            "uses _memory, which no class",
        ),
        ("loader___a", "print(getattr(loader, '_memory', None))", "uses _memory"),
        ("loader___a", "from torch_distinput.loader._a import a", ""),
    ],
)
def test_a_forbidden_import_is_reported_with_its_place(tmp_path: Path, module: str, line: str, rule: str):
    others = {"loader___b": "c = 1\n", "loader__ranks___b": "", "base___b": "_c = 1\n"}
    result = check_modules(tmp_path, **others, **{module: f"{line}\n"})
    assert result.returncode == (1 if rule else 0)
    assert rule in result.stdout
    assert not rule or f"torch_distinput/{module.replace('__', '/')}.py:" in result.stdout


def test_a_member_of_a_class_of_the_module_passes(tmp_path: Path):
    text = "class A:\n    def __init__(self):\n        self._b = 1\n\n\ndef b_of(a):\n    return a._b\n"
    result = check_modules(tmp_path, loader___a=text)
    assert result.returncode == 0, result.stdout


def test_a_circle_of_modules_is_reported_also_inside_functions(tmp_path: Path):
    one = "from torch_distinput.loader._b import b\n"
    two = "def f():\n    from torch_distinput.loader._c import c\n"
    result = check_modules(tmp_path, loader___a=one, loader___b=two, loader___c="import torch_distinput.loader._a\n")
    assert result.returncode == 1
    assert "loader/_a.py:1: imports itself by way of loader/_b, loader/_c" in result.stdout


def test_the_api_page_names_every_public_module(monkeypatch):
    monkeypatch.syspath_prepend(CHECK_IMPORTS.parent)
    import check_imports

    page = (ROOT / "docs" / "api.md").read_text().replace("`tdi.", "`torch_distinput.")
    names = {f"torch_distinput.{module.replace('/', '.')}" for module in check_imports.PUBLIC if module[0] != "_"}
    assert names and all(name in page for name in names)
