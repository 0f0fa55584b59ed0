# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Folders of the source tree."""

from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
ROOT = SUPPORT.parents[2]
BENCHMARKS = ROOT / "benchmarks"
DOCS = ROOT / "docs"
EXAMPLES = ROOT / "examples" / "python"
GOLDENS = ROOT / "tests" / "goldens"
