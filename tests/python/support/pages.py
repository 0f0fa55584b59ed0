# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The documentation: its pages, the programs in them, and whether a committed chart shows what is drawn now."""

import re
from pathlib import Path
from typing import Any

from forks import processes_forked
from places import BENCHMARKS

# With programs that need no files.
PAGES = (
    *("README.md", "docs/index.md", "docs/quickstart.md", "docs/questions.md", "docs/moving.md", "docs/how_to.md"),
    "docs/measuring.md",
)


def blocks(page: Path, language: str) -> list[str]:
    """The blocks of code of one language in a page."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def run_blocks(page: Path, names: dict[str, Any], changes: dict[str, str] | None = None) -> dict[str, Any]:
    """Runs the Python blocks of a page one after the other with these names; returns all names afterwards.

    `changes`: what stands for a text of the page here, such as one device for eight. Each must occur. Processes are
    forked: what a page defines is in no module from which others could get it.
    """
    codes = blocks(page, "python")
    assert codes, f"{page.name} has no program"
    for text in changes or {}:
        assert any(text in code for code in codes), f"{page.name} does not say {text!r}"
    names.setdefault("__name__", "page")
    for number, code in enumerate(codes):
        for text, other in (changes or {}).items():
            code = code.replace(text, other)
        with processes_forked():
            exec(compile(code, f"{page.name}, block {number}", "exec"), names)
    return names


def as_drawn(name: str, drawn: str) -> bool:
    """To the byte where one version of matplotlib drew both; else all words and values, and as many bars."""
    committed = (BENCHMARKS / "results" / name).read_text()
    version = r"Matplotlib v[\d.]+"
    if re.findall(version, committed) == re.findall(version, drawn):
        return committed == drawn
    return all(
        re.findall(part, committed) == re.findall(part, drawn) for part in (r"<text[^>]*>(.*?)</text>", "patch_")
    )
