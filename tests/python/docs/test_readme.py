# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Programs in README.md, in the pages of docs/ and in its notebook run, what pages link to exists, and docs/limits.md
names every limit and behaviour once, with tests that exist."""

import ast
import contextlib
import io
import json
import os
import re
import subprocess
import sys

import pytest
from pages import PAGES, blocks, run_blocks
from places import DOCS, ROOT


def anchors(page):
    """The anchors of a page's headings, as GitHub and MkDocs make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_the_python_programs_of_a_page_run_one_after_the_other(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    assert len(blocks(ROOT / page, "python")) >= (1 if page == "docs/index.md" else 3)
    namespace = run_blocks(ROOT / page, {})
    if page == "README.md":
        info = namespace["steps"].step_info
        assert (info.step, info.valid, info.is_last) == (15, (20, 20), True)
        assert namespace["model"].weight.grad is not None


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_first_program_prints_what_the_page_shows(page, capsys):
    exec(compile(blocks(ROOT / page, "python")[0], page, "exec"), {"__name__": "page"})
    assert capsys.readouterr().out == blocks(ROOT / page, "text")[0]


@pytest.mark.parametrize("page", ["README.md", *(str(p.relative_to(ROOT)) for p in sorted(ROOT.glob("docs/**/*.md")))])
def test_what_a_page_links_to_exists(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text()):
        name, _, anchor = target.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        there = (ROOT / page).parent / name if name else ROOT / page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


def test_the_programs_for_several_processes_run_under_torchrun(tmp_path):
    parts = blocks(ROOT / "README.md", "python")[:3]
    assert [word in part for word, part in zip(("import torch\n", '"RANK" in', "load_state_dict"), parts)] == [True] * 3
    # No collective at the end: torch's thread may let go of its tensor when the interpreter is gone, and abort.
    count = """
lengths = [len(y) for _, y in loader]
print(f"rows and steps: {sum(lengths)}, {len(lengths)}.")
"""
    (tmp_path / "train.py").write_text("\n".join([*parts, count]))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "train.py"]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": path}
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=environment)
    assert result.returncode == 0, result.stderr
    found = re.findall(r"rows and steps: (\d+), (\d+)\.", result.stdout)
    assert len(found) == 2 and sum(int(rows) for rows, _ in found) == 1000
    assert {steps for _, steps in found} == {"8"}


def test_the_cpp_program_is_the_one_the_install_test_builds():
    consumer = ROOT / "tests/install/consumer"
    assert blocks(ROOT / "README.md", "cpp")[0] == (consumer / "main.cpp").read_text()
    assert (consumer / "CMakeLists.txt").read_text().endswith(blocks(ROOT / "README.md", "cmake")[0])


NOTEBOOK = DOCS / "forty_rows.ipynb"


def test_the_notebook_prints_what_it_shows():
    pytest.importorskip("matplotlib").use("Agg")
    figures = pytest.importorskip("matplotlib.pyplot")
    names = {"__name__": "notebook"}
    for number, cell in enumerate(json.loads(NOTEBOOK.read_text())["cells"]):
        if cell["cell_type"] != "code":
            continue
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
        shown = "".join("".join(one["text"]) for one in cell["outputs"] if one["output_type"] == "stream")
        assert printed.getvalue() == shown
        assert any("image/png" in one.get("data", {}) for one in cell["outputs"]) == bool(figures.get_fignums())
        figures.close("all")
    assert len(names["together"]) == 40


LINES = [line for line in (ROOT / "docs" / "limits.md").read_text().splitlines() if line.startswith("| ")]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_every_limit_has_a_line():
    first = [cells(line)[0].split()[0] for line in LINES]
    recorded = ["limit", *[f"L{i}" for i in range(1, 33)], "behaviour", *map(str, range(1, 17))]
    assert first == recorded + ["DataLoader", *[f"D{i}" for i in range(1, 18)]]


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
