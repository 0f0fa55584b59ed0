# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A wheel brings the decoders of images along."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from decoders import needs_decoders
from places import ROOT

from torch_distinput import _C

TOOL = ROOT / "tools" / "bundle_decoders.py"
pytestmark = [needs_decoders, pytest.mark.skipif(shutil.which("ldd") is None, reason="there is no ldd")]


def test_a_library_finds_the_decoders_beside_it(tmp_path):
    if Path(_C.__file__).parent.parent.name == "_native":
        pytest.skip("the package is from a wheel of `make wheel`, in which the decoders have names of their own")
    (installed,) = (Path(_C.__file__).parent / "lib").glob("libtorch_distinput.so.*")
    library = tmp_path / installed.name
    shutil.copyfile(installed, library)
    bundled = subprocess.run([sys.executable, TOOL, library], capture_output=True, text=True, check=True).stdout.split()
    assert {re.split(r"[\d.]", name)[0] for name in bundled} >= {"libjpeg", "libpng", "libwebp"}
    listed = subprocess.run(["ldd", library], capture_output=True, text=True, check=True).stdout
    notices = (tmp_path / "DECODERS.txt").read_text()
    for name in bundled:
        assert f"{name} => {tmp_path / name}" in listed
        assert f"{name} -- " in notices
    assert "BSD-3-Clause" in notices
