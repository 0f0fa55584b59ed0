# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The import rules between the rooms of torch_distinput/ hold, and the script that checks them can fail."""

import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

SCRIPT = ROOT / "tools" / "check_imports.py"


def check(root: Path, **modules: str) -> subprocess.CompletedProcess:
    for name, text in modules.items():
        path = root / "torch_distinput" / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True, timeout=60)


def test_the_package_keeps_the_rules():
    result = check(ROOT)
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
def test_a_violation_is_reported_with_its_place(tmp_path: Path, module: str, line: str, rule: str):
    others = {"loader___b": "c = 1\n", "loader__ranks___b": "", "base___b": "_c = 1\n"}
    result = check(tmp_path, **others, **{module: f"{line}\n"})
    assert result.returncode == (1 if rule else 0)
    assert rule in result.stdout
    assert not rule or f"torch_distinput/{module.replace('__', '/')}.py:" in result.stdout


def test_a_member_of_a_class_of_the_module_passes(tmp_path: Path):
    text = "class A:\n    def __init__(self):\n        self._b = 1\n\n\ndef b_of(a):\n    return a._b\n"
    result = check(tmp_path, loader___a=text)
    assert result.returncode == 0, result.stdout


def test_a_circle_of_modules_is_reported_also_inside_functions(tmp_path: Path):
    one = "from torch_distinput.loader._b import b\n"
    two = "def f():\n    from torch_distinput.loader._c import c\n"
    result = check(tmp_path, loader___a=one, loader___b=two, loader___c="import torch_distinput.loader._a\n")
    assert result.returncode == 1
    assert "loader/_a.py:1: imports itself by way of loader/_b, loader/_c" in result.stdout


def test_the_api_page_names_every_public_module(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    import check_imports

    page = (ROOT / "docs" / "api.md").read_text().replace("`tdi.", "`torch_distinput.")
    names = {f"torch_distinput.{module.replace('/', '.')}" for module in check_imports.PUBLIC if module[0] != "_"}
    assert names and all(name in page for name in names)
