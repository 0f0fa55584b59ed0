# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Batches on an accelerator in software: `tests/fake_accelerator`, built by the C++ tests."""

import ast
import json
import subprocess
import sys

import pytest
from places import ROOT, SUPPORT

BUILD = ROOT / "build" / "release"
PROGRAMS = SUPPORT / "accelerator_programs.py"
HELPERS = ("many_fields", "raw", "check_rows", "with_workers", "page_locked", "outcome")
NAMES = [
    node.name
    for node in ast.parse(PROGRAMS.read_text()).body
    if isinstance(node, ast.FunctionDef) and node.name not in HELPERS
]

pytestmark = pytest.mark.skipif(
    not list(BUILD.glob("_fake_accelerator*.so")), reason="`make test-cpp` builds the fake accelerator"
)


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str | None]:
    done = subprocess.run(
        [sys.executable, str(PROGRAMS), str(BUILD)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", NAMES)
def test_on_the_fake_accelerator(outcomes, name):
    if (outcomes[name] or "").startswith("skipped: "):
        pytest.skip(outcomes[name].removeprefix("skipped: "))
    assert outcomes[name] is None, outcomes[name]
