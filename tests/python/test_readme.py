# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The programs in README.md and in the pages of docs/ run, and what these link to exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/quickstart.md", "docs/moving.md", "docs/how_to.md", "docs/measuring.md")


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def anchors(page):
    """The anchors of a page's headings, as GitHub and MkDocs make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_the_python_programs_of_a_page_run_one_after_the_other(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    namespace = {"__name__": "page"}
    for number, code in enumerate(blocks(page, "python")):
        exec(compile(code, f"{page}, block {number}", "exec"), namespace)
    assert number >= 2
    if page == "README.md":
        info = namespace["steps"].step_info
        assert (info.step, info.valid, info.is_last) == (15, (20, 20), True)
        assert namespace["model"].weight.grad is not None


@pytest.mark.parametrize("page", ["README.md", *(str(p.relative_to(ROOT)) for p in sorted(ROOT.glob("docs/**/*.md")))])
def test_what_a_page_links_to_exists(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text()):
        name, _, anchor = target.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        there = (ROOT / page).parent / name if name else ROOT / page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


def test_the_cpp_program_is_the_one_the_install_test_builds():
    assert blocks("README.md", "cpp")[0] == (ROOT / "tests/install/consumer/main.cpp").read_text()
