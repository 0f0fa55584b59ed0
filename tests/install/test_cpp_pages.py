# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The C++ blocks of the documentation build against the installed package and run."""

import re
from pathlib import Path

import pytest
from installed import HERE, ROOT, WORK, build, run
from pages import blocks

CPP, PREPROCESSING = ROOT / "docs/cpp.md", ROOT / "docs/preprocessing.md"
NAMES = ["checkpoint", "replicas", "errors", "structs", "loaders"]  # in the order of docs/cpp.md


def program() -> str:
    """The program around the blocks, with the CPU in the place of a GPU."""
    found = blocks(CPP, "cpp")
    assert len(found) == len(NAMES)
    (layers,) = blocks(PREPROCESSING, "cpp")
    head, _, body = layers.partition("\n\n")
    parts = dict(zip(NAMES, found, strict=True)) | {"preprocessing_head": head, "preprocessing": body}
    assert '.device = "cuda:0"' in parts["loaders"]
    parts["loaders"] = parts["loaders"].replace('.device = "cuda:0"', '.device = "cpu"')
    return re.sub(r"@(\w+)@", lambda name: parts.pop(name[1]), (HERE / "pages/pages.cpp.in").read_text())


@pytest.mark.slow
def test_the_blocks_build_and_run(prefix: Path, tmp_path: Path):
    main = WORK / "pages.cpp"
    main.write_text(program())
    folder = build("pages", prefix, definitions={"PAGES_MAIN": main})
    output = run(folder / "pages", timeout=120, cwd=tmp_path)
    assert "all blocks ran" in output and "map(parse): element 17: bad number" in output


@pytest.mark.parametrize("page", [CPP, ROOT / "README.md"])
def test_what_a_page_says_about_cmake_is_what_a_program_here_is_built_with(page):
    built = (HERE / "consumer/CMakeLists.txt").read_text()
    (code,) = blocks(page, "cmake")
    commands = [line.partition("#")[0].strip() for line in code.splitlines() if line.strip()]
    assert len(commands) == 3 and all(command in built for command in commands)


def test_every_cpp_block_is_run_somewhere():
    pages = {page.name for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")] if blocks(page, "cpp")}
    assert pages == {"README.md", CPP.name, PREPROCESSING.name}
