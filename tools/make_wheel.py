#!/usr/bin/env python3
# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Makes the wheels: one for each Python, with a native part for each minor release of torch.

    tools/make_wheel.py --pythons "python3.10 python3.11" --torches "2.11.0 2.12.1 2.13.0 2.14.1"

It runs in an environment with CMake, auditwheel and patchelf. Each torch is downloaded for its headers and the
libraries to link with. The library depends on torch alone and is compiled once for each; the Python module is compiled
for each Python besides. auditwheel adds the decoders of images, and names the wheel by the oldest glibc that it runs
with. A wheel must stay below the limits of size.
"""

import argparse
import importlib.metadata
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from bundle_decoders import decoders_of, notices
from source_copy import ROOT, copy_source

NEEDED_OF_TORCH = (
    "torch/include/",
    *(f"torch/lib/lib{name}.so" for name in ("c10", "torch", "torch_cpu", "torch_python")),
)
# What the environment of a wheel's user brings: oneTBB is a package of its own.
NOT_BUNDLED = ("libtorch*.so*", "libc10*.so*", "libtbb.so.12")
CUDA_NOTICE = """
libtorch_distinput_cuda.so, where it is there, contains the CUDA runtime (cudart) -- NVIDIA's CUDA Toolkit End User
License Agreement, which names it among the files that may be distributed.
"""
WHEEL_LIMIT = 40_000_000  # bytes
PART_LIMIT = 15_000_000


def run(*command: object, **variables: str) -> str:
    """The standard output of a command; its errors are shown. Raises SystemExit if it fails."""
    done = subprocess.run(
        [str(part) for part in command], cwd=ROOT, env=os.environ | variables, stdout=subprocess.PIPE, text=True
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout}\nmake_wheel: {' '.join(map(str, command))} failed")
    return done.stdout


def minor_of(version: str) -> str:
    return ".".join(version.split(".")[:2])


# --- what is compiled with -------------------------------------------------------------------------------
def torch_of(version: str, folder: Path) -> Path:
    """The folder of this torch, with what a compiler needs of it. Downloads its wheel if it is not there."""
    place = folder / "torches" / minor_of(version)
    if not place.exists():
        download, unpacked = folder / "download", folder / "unpacked"
        run(sys.executable, "-m", "pip", "download", "--no-deps", "--dest", download, f"torch=={version}")
        (wheel,) = download.glob("torch-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked, [name for name in archive.namelist() if name.startswith(NEEDED_OF_TORCH)])
        wheel.unlink()
        place.parent.mkdir(exist_ok=True)
        unpacked.rename(place)
    return place / "torch"


def tbb_of_this_environment() -> list[str]:
    """CMake's option for the oneTBB installed beside this program; CMake would look beside each interpreter."""
    found = [file for file in importlib.metadata.files("tbb-devel") or () if file.name == "TBBConfig.cmake"]
    return [f"-DTBB_DIR={found[0].locate().resolve().parent}"]


def build_native_part(version: str, interpreter: str, folder: Path, prefix: Path, jobs: int) -> None:
    """Compiles for one torch and one Python, and installs into `prefix`."""
    build = folder / f"torch{minor_of(version)}"
    options = [
        f"-DPython_EXECUTABLE={interpreter}",
        f"-DTDI_TORCH_ROOT={torch_of(version, folder)}",
        "-DTDI_MACHINE_RPATH=OFF",
        "-DTDI_SITE=../../..",
        *tbb_of_this_environment(),
    ]
    # CMake keeps what it found out about an interpreter: that of the one before is dropped.
    run("cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-UPython*", "-U_Python*", *options)
    run("cmake", "--build", build, "--target", "tdi_package", "--parallel", jobs)
    run("cmake", "--install", build, "--prefix", prefix)


# --- one wheel -------------------------------------------------------------------------------------------
def interpreters(pythons: list[str]) -> Iterator[tuple[str, str]]:
    """Those of the interpreters that run here, with their tags in names of wheels, such as cp313 or cp313t."""
    for python in pythons:
        ask = [python, "-c", "import sys; print('cp%d%d' % sys.version_info[:2] + sys.abiflags)"]
        done = subprocess.run(ask, capture_output=True, text=True) if shutil.which(python) else None
        if done is not None and done.returncode == 0:
            yield python, done.stdout.strip()
        else:
            print(f"{python} is not here, so that no wheel is made for it")


def pack(interpreter: str, parts: Path, folder: Path) -> Path:
    """The wheel with these native parts, which runs where the decoders are not installed."""
    library = next(parts.glob("torch*/lib/libtorch_distinput.so.*"))
    (parts / "NOTICE").write_text(notices(decoders_of(library)) + CUDA_NOTICE)
    shutil.rmtree(folder, ignore_errors=True)
    copy_source(folder / "source")
    pip = [interpreter, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder / "raw", folder / "source"]
    run(*pip, TDI_NATIVE_PARTS=str(parts))
    (wheel,) = (folder / "raw").glob("*.whl")
    excluded = [f"--exclude={name}" for name in NOT_BUNDLED]
    repair = ["auditwheel", "repair", "--strip", *excluded, "--wheel-dir", folder / "repaired", wheel]
    run(sys.executable, "-m", *repair)
    (wheel,) = (folder / "repaired").glob("*.whl")
    return look_for_tbb(wheel, folder)


def look_for_tbb(wheel: Path, folder: Path) -> Path:
    """The wheel whose libraries look for oneTBB in the environment's `lib`: auditwheel drops places outside a wheel.

    Python's module is preceded by an explicit load; C++ programs need the place.
    """
    run(sys.executable, "-m", "wheel", "unpack", "--dest", folder / "unpacked", wheel)
    (root,) = (folder / "unpacked").iterdir()
    for library in root.glob("*/_native/*/lib/libtorch_distinput.so.*"):
        run("patchelf", "--add-rpath", "$ORIGIN/../../../../../..", library)
    run(sys.executable, "-m", "wheel", "pack", "--dest-dir", folder, root)
    (packed,) = folder.glob("*.whl")
    return packed


def sizes(wheel: Path) -> Iterator[tuple[str, int, int]]:
    """The compressed bytes of the wheel and of each native part in it, with their limits."""
    yield wheel.name, wheel.stat().st_size, WHEEL_LIMIT
    parts: dict[str, int] = {}
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            path = Path(member.filename).parts
            if len(path) > 3 and path[1] == "_native":
                parts[path[2]] = parts.get(path[2], 0) + member.compress_size
    for name, size in sorted(parts.items()):
        yield name, size, PART_LIMIT


def check_sizes(wheel: Path) -> None:
    """Prints the sizes; SystemExit where one is over its limit."""
    for name, size, limit in sizes(wheel):
        print(f"{name}: {size / 1e6:.1f} MB of {limit / 1e6:.0f}")
        if size > limit:
            raise SystemExit(f"make_wheel: {name} is larger than {limit} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pythons", required=True, help="interpreters, separated by blanks")
    parser.add_argument("--torches", required=True, help="releases of torch, one a minor, separated by blanks")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "wheel", help="for downloads and what is built")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="for the wheels")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    arguments.dist.mkdir(exist_ok=True)
    for interpreter, tag in interpreters(arguments.pythons.split()):
        parts = folder / "parts" / tag
        shutil.rmtree(parts, ignore_errors=True)
        for version in arguments.torches.split():
            build_native_part(version, interpreter, folder, parts / f"torch{minor_of(version)}", arguments.jobs)
        wheel = pack(interpreter, parts, folder / "packed" / tag)
        check_sizes(wheel)
        wheel.replace(arguments.dist / wheel.name)


if __name__ == "__main__":
    main()
