# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The package, installed once for all tests of this folder."""

import shutil
import sys
from pathlib import Path

import pytest
from installed import ROOT, WORK, run


@pytest.fixture(scope="session")
def site() -> Path:
    """A folder with the installed package, away from the source tree and from torch."""
    folder = WORK / "site"
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--no-index"]
    run(*pip, "--target", folder, ROOT, timeout=1800)
    return folder


@pytest.fixture(scope="session")
def prefix(site: Path) -> Path:
    """The CMAKE_PREFIX_PATH that the installed package prints."""
    ask = [sys.executable, "-m", "torch_distinput", "--cmake-prefix-path"]
    return Path(run(*ask, env={"PYTHONPATH": str(site)}, timeout=120).strip())
