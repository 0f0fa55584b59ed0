# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A package built with TDI_MACHINE_RPATH=OFF works in another place, with another torch and another oneTBB."""

import re
import shutil
import sys
from pathlib import Path

import pytest
import torch
from installed import HERE, ROOT, WORK, library_of, run

# Links the library twice, and compiles a program.
pytestmark = pytest.mark.slow
BUILD = ROOT / "build" / "release"


def configure(machine_rpath: str) -> None:
    """Neither value compiles anything again: only what is written into the library when it is linked changes."""
    run("cmake", "-S", ROOT, "-B", BUILD, f"-DTDI_MACHINE_RPATH={machine_rpath}", timeout=300)
    run("cmake", "--build", BUILD, "--target", "tdi_package", timeout=1800)


def libraries(file: Path) -> dict[str, str]:
    """Where the loader finds each library that `file` needs."""
    environment = {"LD_LIBRARY_PATH": "", "LD_PRELOAD": ""}
    return dict(re.findall(r"^\s*(\S+) => (.+?)(?: \(0x\w+\))?$", run("ldd", file, env=environment, timeout=60), re.M))


@pytest.fixture(scope="module")
def moved(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment elsewhere: oneTBB in `lib`; torch and the package in `lib/python/site-packages`."""
    tbb = Path(libraries(library_of(site / "torch_distinput"))["libtbb.so.12"])
    staged = WORK / "portable" / "torch_distinput"
    shutil.rmtree(staged, ignore_errors=True)
    try:
        configure("OFF")
        run("cmake", "--install", BUILD, "--prefix", staged, timeout=120)
    finally:
        configure("ON")
    environment = tmp_path_factory.mktemp("elsewhere")
    packages = environment / "lib/python/site-packages"
    shutil.copytree(staged, packages / "torch_distinput")
    shutil.rmtree(staged)
    (packages / "torch").symlink_to(Path(torch.__file__).parent)
    shutil.copy(tbb, environment / "lib/libtbb.so.12")
    return environment


def own(path: str) -> bool:
    return any(name in path for name in ("torch", "libc10", "libtbb", "libgomp"))


def check_loads_from(environment: Path, file: Path) -> None:
    found = libraries(file)
    assert {"libtorch_cpu.so", "libc10.so", "libtbb.so.12"} <= set(found), found
    outside = {path for name, path in found.items() if own(name) and not path.startswith(str(environment))}
    assert not outside
    assert not [path for path in found.values() if path.startswith((str(ROOT), sys.prefix)) or path == "not found"]


def test_the_files_name_no_place_of_the_machine_that_built_them(moved: Path):
    package = moved / "lib/python/site-packages/torch_distinput"
    for library in package.rglob("*.so*"):
        runpath = re.search(r"RUNPATH.*\[(.*)\]", run("readelf", "-d", library, timeout=60))
        folders = runpath[1].split(":") if runpath else []
        assert all(folder.startswith("$ORIGIN") for folder in folders), (library, folders)
    places = {str(ROOT), sys.prefix, str(Path(torch.__file__).parent)}
    for file in (package / "lib/cmake").rglob("*.cmake"):
        assert not [place for place in places if place in file.read_text()], file


def test_the_library_finds_what_lies_beside_it(moved: Path):
    check_loads_from(moved, library_of(moved / "lib/python/site-packages/torch_distinput"))


def test_a_program_is_built_and_runs_there(moved: Path):
    """With a LibTorch that `find_package` finds beside the package, and with no Python."""
    folder = moved / "build"
    options = [
        f"-DCMAKE_PREFIX_PATH={moved / 'lib/python/site-packages/torch_distinput'}",
        "-DCMAKE_DISABLE_FIND_PACKAGE_Python=ON",
        "-DCMAKE_BUILD_TYPE=Release",
    ]
    run("cmake", "-S", HERE / "consumer", "-B", folder, *options, cwd=moved, timeout=120)
    run("cmake", "--build", folder, cwd=moved, timeout=900)
    check_loads_from(moved, folder / "app")
    output = run(folder / "app", cwd=moved, env={"LD_LIBRARY_PATH": ""}, timeout=60)
    assert sorted(int(row) for row in re.findall(r"^ *(\d+)$", output, re.MULTILINE)) == list(range(10)), output
    assert "python" not in "".join(libraries(folder / "app"))
