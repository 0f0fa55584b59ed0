# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A wheel serves several minor releases of torch: the one in use chooses the native part, or is refused by name."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torch_distinput
from torch_distinput._native_part import minor_of, native_folder


def with_parts(package: Path, *minors: str) -> Path:
    for minor in minors:
        (package / "_native" / f"torch{minor}").mkdir(parents=True)
    (package / "_native" / "NOTICE").parent.mkdir(exist_ok=True)
    (package / "_native" / "NOTICE").touch()
    return package


@pytest.mark.parametrize("suffix", [".0", ".1+cpu", ".0+cu130", ".0a0+git12ab", ".0.dev20261101", ""])
@pytest.mark.parametrize("minor", ["2.9", "2.11", "2.100"])
def test_the_part_of_the_same_minor_release_is_chosen(tmp_path: Path, minor: str, suffix: str):
    package = with_parts(tmp_path, "2.9", "2.11", "2.100")
    assert native_folder(package, minor + suffix) == package / "_native" / f"torch{minor}"


def test_a_build_from_source_is_the_package_itself(tmp_path: Path):
    assert native_folder(tmp_path, "7.1.0") == tmp_path


@pytest.mark.parametrize(
    ("torch_version", "minor", "nearest"),
    [("2.10.2+cpu", "2.10", "2.11"), ("1.13.1", "1.13", "2.11"), ("2.15.0", "2.15", "2.14"), ("3.0.0", "3.0", "2.14")],
)
def test_another_torch_is_refused_in_one_line_with_what_to_do(
    tmp_path: Path, torch_version: str, minor: str, nearest: str
):
    package = with_parts(tmp_path, "2.14", "2.11", "2.13", "2.12")
    with pytest.raises(ImportError) as refused:
        native_folder(package, torch_version)
    assert str(refused.value) == (
        f"torch_distinput: this wheel serves torch 2.11, 2.12, 2.13, 2.14, but torch {torch_version} is installed: "
        f"install torch {nearest} with `pip install 'torch=={nearest}.*'`, or build torch_distinput for torch {minor} "
        "with `pip install --no-build-isolation --no-deps --force-reinstall .` in its source tree."
    )


def test_versions_are_compared_as_numbers():
    minors = [(major, minor) for major in (1, 2, 10) for minor in (0, 9, 10, 11, 100)]
    texts = [f"{major}.{minor}.{random.randrange(20)}" for major, minor in minors]
    assert [minor_of(text) for text in sorted(texts, key=minor_of)] == minors


PROGRAM = """
import torch_distinput._build, torch_distinput._C
print(torch_distinput._build.__file__, torch_distinput._C.__file__, sep="\\n")
"""


def test_the_chosen_part_is_imported_under_the_packages_name(tmp_path: Path):
    """The parts of the installed package, laid out as in a wheel, beside one for another torch."""
    installed = Path(torch_distinput.__file__).parent
    own = Path(torch_distinput._C.__file__).parent
    package = with_parts(tmp_path / "torch_distinput", "1.0")
    part = package / "_native" / "torch{}.{}".format(*minor_of(torch.__version__))
    part.mkdir()
    for file in installed.iterdir():
        if file.name not in ("_native", "_build.py", "lib", "include", "__pycache__") and not file.name.startswith(
            "_C."
        ):
            (package / file.name).symlink_to(file)
    for file in (*own.glob("_C.*.so"), own / "_build.py", own / "lib"):
        (part / file.name).symlink_to(file)
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{PROGRAM}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert [Path(line).parent for line in done.stdout.splitlines()] == [part, part]
