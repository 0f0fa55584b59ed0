# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Where the native part for the torch in use lies.

torch's C++ interface changes with its minor releases. A wheel therefore holds a native part for each of several, in
folders `_native/torch2.13`; a build from source holds one, beside the Python files.
"""

from pathlib import Path


def native_folder(package: Path, torch_version: str) -> Path:
    """The folder of `_C` and `_build` in the package's folder. ImportError where a wheel has none for this torch."""
    parts = {minor_of(part.name.removeprefix("torch")): part for part in (package / "_native").glob("torch*")}
    wanted = minor_of(torch_version)
    if not parts or wanted in parts:
        return parts.get(wanted, package)
    served = [_text(minor) for minor in sorted(parts)]
    nearest = served[-1] if wanted > max(parts) else served[0]
    raise ImportError(
        f"torch_distinput: this wheel serves torch {', '.join(served)}, but torch {torch_version} is installed: "
        f"install torch {nearest} with `pip install 'torch=={nearest}.*'`, or build torch_distinput for torch "
        f"{_text(wanted)} with `pip install --no-build-isolation --no-deps --force-reinstall .` in its source tree."
    )


def minor_of(torch_version: str) -> tuple[int, int]:
    """(2, 13) for "2.13.0+cpu"."""
    major, minor = torch_version.split(".")[:2]
    return int(major), int(minor)


def _text(minor: tuple[int, int]) -> str:
    return f"{minor[0]}.{minor[1]}"
