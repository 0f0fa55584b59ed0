# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Loads the native module `_C`, or says in one ImportError what is wrong and what to do.

The package's `__init__` calls `load()` before anything imports `torch_distinput._C`.
"""

import ctypes
import importlib
import os
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

# Imported first: it loads libtorch_cpu.so and libc10.so into the process, wherever they lie.
import torch

from torch_distinput._native_part import minor_of, native_folder

_TBB = "libtbb.so.12"


def load() -> ModuleType:
    """Returns `torch_distinput._C`; ImportError where it is not built or does not fit this torch and this oneTBB."""
    package = sys.modules["torch_distinput"]
    folder = str(native_folder(Path(__file__).parent, torch.__version__))
    if folder not in package.__path__:
        package.__path__.append(folder)  # so that `_C` and `_build` are found there under the package's name
    try:
        build = importlib.import_module("torch_distinput._build")
    except ModuleNotFoundError as error:
        raise ImportError(
            "torch_distinput: the native library is not built. Run `pip install --no-build-isolation .` in the "
            "source tree, or start Python elsewhere if the package is installed."
        ) from error
    _check_torch(torch.__version__, build.torch_version)
    tbb = _load_tbb()
    if tbb is not None:
        _check_tbb(tbb.TBB_runtime_interface_version(), build.tbb_interface_version)
    try:
        module = importlib.import_module("torch_distinput._C")
    except ImportError as error:
        raise ImportError(_explain(str(error))) from error
    module.look_for_curl_in(sysconfig.get_path("platlib"))
    return module


def _check_torch(found: str, built: str) -> None:
    if minor_of(found) != minor_of(built):
        found_minor, built_minor = (".".join(version.split(".")[:2]) for version in (found, built))
        raise ImportError(
            f"torch_distinput was built for torch {built_minor}, but torch {found} is installed: install torch "
            f"{built_minor} with `pip install 'torch=={built_minor}.*'`, or build torch_distinput for torch "
            f"{found_minor} with `pip install --no-build-isolation --no-deps --force-reinstall .` in its source tree."
        )


def _check_tbb(found: int, built: int) -> None:
    if found < built:
        raise ImportError(
            f"torch_distinput was built for oneTBB interface {built}, but an older one, {found}, is in this process. "
            "Run `pip install --upgrade tbb` in this environment, or import torch_distinput before the package that "
            "loads the older one."
        )


def _load_tbb() -> ctypes.CDLL | None:
    """The oneTBB of this process: one that is loaded already, else the one in the environment's prefix.

    None leaves the choice to the library's own search path. An explicit load also finds the environment's oneTBB when
    the package lies outside the environment, and takes it before an older oneTBB of the system.
    """
    try:
        return ctypes.CDLL(_TBB, mode=os.RTLD_NOLOAD)
    except OSError:
        pass
    try:
        return ctypes.CDLL(os.path.join(sys.prefix, "lib", _TBB))
    except OSError:
        return None


def _explain(error: str) -> str:
    if _TBB in error:
        cure = "oneTBB was not found: run `pip install tbb` in this environment."
    elif "undefined symbol" in error or "libtorch" in error or "libc10" in error:
        cure = (
            f"the library does not fit torch {torch.__version__}: build again with `pip install --no-build-isolation`."
        )
    else:
        cure = f"the module does not fit Python {sys.version.split()[0]}: build again with it."
    return f"torch_distinput: the native library could not be loaded ({error}); {cure}"
