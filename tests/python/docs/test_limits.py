# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""docs/limits.md names every limit and behaviour once, with tests that exist."""

import ast
import re

from places import ROOT

LINES = [line for line in (ROOT / "docs" / "limits.md").read_text().splitlines() if line.startswith("| ")]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_every_limit_has_a_line():
    first = [cells(line)[0].split()[0] for line in LINES]
    recorded = ["limit", *[f"L{i}" for i in range(1, 33)], "behaviour", *map(str, range(1, 17))]
    assert first == recorded + ["DataLoader", *[f"D{i}" for i in range(1, 15)]]


def test_every_line_names_a_test_or_says_that_it_is_open():
    for line in LINES:
        proof = cells(line)[2]
        assert re.search(r"::test_|`\w+\.\w+`|shown by", proof) or re.search(
            r"open: (several processes|files|GPU)", proof
        ), line


def test_the_tests_that_it_names_exist():
    text = "\n".join(LINES)
    for name, test in re.findall(r"`([\w/]+\.py)::(\w+)`", text):
        tree = ast.parse((ROOT / "tests" / "python" / name).read_text())
        assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, f"{name}::{test}"
    sources = "\n".join(path.read_text() for path in (ROOT / "tests" / "cpp").rglob("*_test.cpp"))
    for suite, test in re.findall(r"`([A-Z]\w+)\.([A-Z]\w+)`", text):
        assert re.search(rf"TEST(_F|_P)?\({suite}, {test}\)", sources), f"{suite}.{test}"
