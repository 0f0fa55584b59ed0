# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The package lance, without the warning that it gives at each fork of a process that has imported it: other tests in
the process fork, too, and look at warnings."""

import types
from typing import Any

import pytest


def lance_or_skip() -> Any:
    """The package; skips where it is not installed."""
    package = pytest.importorskip("lance", reason="pylance is not installed")
    package.warnings = types.SimpleNamespace(warn=lambda *_: None)  # all that it warns of
    return package
