# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What `make wheel` packs: native parts side by side, a requirement that admits their torches, and limits of size."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from installed import ROOT

sys.path.insert(0, str(ROOT / "tools"))
try:
    import make_wheel
    from source_copy import copy_source
finally:
    sys.path.pop(0)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel whose native parts are texts."""
    folder = tmp_path_factory.mktemp("wheel")
    for minor in ("2.9", "2.11", "2.10"):
        part = folder / "parts" / f"torch{minor}"
        (part / "lib").mkdir(parents=True)
        (part / "lib" / "library").write_text(minor)
        (part / "_build.py").write_text(f'torch_version = "{minor}.0"\n')
    (folder / "parts" / "NOTICE").write_text("licences\n")
    copy_source(folder / "source")
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-index", "--no-build-isolation"]
    done = subprocess.run(
        [*pip, "--wheel-dir", folder, folder / "source"],
        env=os.environ | {"TDI_NATIVE_PARTS": str(folder / "parts")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_parts_lie_side_by_side_and_nothing_is_compiled(wheel: zipfile.ZipFile):
    names = wheel.namelist()
    for minor in ("2.9", "2.10", "2.11"):
        assert wheel.read(f"torch_distinput/_native/torch{minor}/lib/library").decode() == minor
    assert "torch_distinput/_native/NOTICE" in names and "torch_distinput/_native_part.py" in names
    assert not [name for name in names if re.match(r"torch_distinput/(_build\.py|_C\..*so|lib/|include/)", name)]


def test_the_torches_of_all_parts_are_admitted_and_no_others(wheel: zipfile.ZipFile):
    (metadata,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
    required = re.findall(r"^Requires-Dist: ([^;\n]+)$", wheel.read(metadata).decode(), re.MULTILINE)
    (torch,) = (text for text in required if text.startswith("torch"))
    assert sorted(re.split(",", torch.removeprefix("torch"))) == ["<2.12", ">=2.9"]
    assert {"numpy", "tbb"} < set(required)


def test_the_wheel_is_for_one_python(wheel: zipfile.ZipFile):
    tag = "cp{}{}".format(*sys.version_info[:2])
    assert f"-{tag}-{tag}" in Path(wheel.filename).name


def test_a_part_over_its_limit_fails_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "package-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("package/_native/NOTICE", "x" * 1000)
        archive.writestr("package/_native/torch2.9/_C.so", "x" * 100)
        archive.writestr("package/_native/torch2.10/lib/library.so", "x" * 101)
    make_wheel.check_sizes(path)
    monkeypatch.setattr(make_wheel, "PART_LIMIT", 100)
    with pytest.raises(SystemExit, match=r"torch2\.10 is larger than 100 bytes"):
        make_wheel.check_sizes(path)
    monkeypatch.setattr(make_wheel, "WHEEL_LIMIT", 1000)
    with pytest.raises(SystemExit, match=r"package-1-py3-none-any\.whl is larger than 1000 bytes"):
        make_wheel.check_sizes(path)
