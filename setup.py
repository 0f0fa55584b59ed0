# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Builds the native library with CMake and installs it inside the Python package."""

import importlib.metadata
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
PACKAGE = "torch_distinput"
BUILD = ROOT / "build" / "release"
# `make wheel`: a folder with native parts that are built, `torch2.13` for each minor release of torch.
NATIVE_PARTS = os.environ.get("TDI_NATIVE_PARTS")


def version_of(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def tool(name: str) -> str | None:
    """The program beside the interpreter (a virtual environment need not be activated), else on PATH."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name)


def requirements() -> list[str]:
    """The binary works with the minor releases of torch, and the kind of oneTBB, it was built with."""
    if NATIVE_PARTS:
        minors = sorted(int(part.name.removeprefix("torch2.")) for part in Path(NATIVE_PARTS).glob("torch2.*"))
        return [f"torch>=2.{minors[0]},<2.{minors[-1] + 1}", "numpy", "tbb"]
    torch = version_of("torch")
    wanted = [f"torch=={'.'.join(torch.split('.')[:2])}.*" if torch else "torch>=2.11", "numpy"]
    if version_of("tbb-devel"):
        wanted.append("tbb")
    return wanted


def prepare_build_folder() -> None:
    """Empties the build folder when it belongs to another interpreter or another torch."""
    key = f"{sys.executable}\n{version_of('torch')}\n"
    stamp = BUILD / "made_for.txt"
    if BUILD.exists() and (not stamp.exists() or stamp.read_text() != key):
        shutil.rmtree(BUILD)
    BUILD.mkdir(parents=True, exist_ok=True)
    stamp.write_text(key)


class CMakeBuild(build_ext):
    def run(self) -> None:
        # setuptools clears `inplace` while it builds; it copies only the module back to the source
        # tree, so an editable install must bring the rest of the package there itself.
        self.to_source = bool(self.inplace or getattr(self, "editable_mode", False))
        super().run()

    def build_extension(self, ext: Extension) -> None:
        package = Path(self.get_ext_fullpath(ext.name)).resolve().parent
        if NATIVE_PARTS:
            shutil.copytree(NATIVE_PARTS, package / "_native", dirs_exist_ok=True)
            return
        if importlib.util.find_spec("torch") is None:
            raise SystemExit(
                f"{PACKAGE}: torch is not importable by {sys.executable}. Install torch first, then "
                "pass --no-build-isolation to pip, so that the build sees the torch it will run with."
            )
        cmake = tool("cmake")
        if cmake is None:
            raise SystemExit(f"{PACKAGE}: CMake was not found. Install it with `pip install cmake`.")
        prepare_build_folder()
        configure = [cmake, "-S", str(ROOT), "-B", str(BUILD), f"-DPython_EXECUTABLE={sys.executable}"]
        ninja = tool("ninja")
        if ninja and not (BUILD / "CMakeCache.txt").exists():
            configure += ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
        jobs = os.environ.get("MAX_JOBS") or str(os.cpu_count())
        build = [cmake, "--build", str(BUILD), "--target", "tdi_package", "--parallel", jobs]
        subprocess.run(configure + shlex.split(os.environ.get("CMAKE_ARGS", "")), check=True)
        subprocess.run(build, check=True)

        self.install(cmake, package)
        if self.to_source:
            self.install(cmake, ROOT / PACKAGE)
        else:  # a wheel, which may be installed where the decoders are not
            (library,) = (package / "lib").glob("libtorch_distinput.so.*")
            subprocess.run([sys.executable, str(ROOT / "tools" / "bundle_decoders.py"), str(library)], check=True)

    def install(self, cmake: str, prefix: Path) -> None:
        for stale in ("include", "lib"):
            shutil.rmtree(prefix / stale, ignore_errors=True)
        subprocess.run([cmake, "--install", str(BUILD), "--prefix", str(prefix)], check=True)


setup(
    ext_modules=[Extension(f"{PACKAGE}._C", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
    install_requires=requirements(),
)
