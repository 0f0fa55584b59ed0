# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The site of the documentation is built without a warning, and needs no other host."""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec

import pytest
from places import ROOT

NEEDED = ("mkdocs", "material", "mkdocstrings", "mkdocs_jupyter", "mkdoxy")
MISSING = [name for name in NEEDED if find_spec(name) is None]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (the extra `docs`)"),
]


def test_the_site_is_built_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=400)
    assert result.returncode == 0, result.stderr
    site = tmp_path / "site"
    texts = {page.relative_to(site).parts[0]: page.read_text() for page in site.glob("*/index.html")}
    assert "data:image/png" in texts["forty_rows"]
    assert re.findall(r'href="[^"]*\.md', texts["forty_rows"]) == []
    assert "torch_distinput.DataLoader" in texts["api"]
    loaded = [
        found for text in texts.values() for found in re.findall(r'<(?:script|img)[^>]*src="(https?:[^"]*)"', text)
    ]
    assert loaded == []
    if shutil.which("doxygen") is None:
        assert "Doxygen is not installed" in result.stderr
    else:
        page = (site / "cpp_api/classtorch__distinput_1_1Dataset/index.html").read_text()
        assert "from_tensor_slices" in page and "TDI_API" not in page
