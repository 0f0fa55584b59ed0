# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The programs in README.md run."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def block(language: str) -> str:
    return re.search(rf"```{language}\n(.*?)```", README, re.DOTALL).group(1)


def test_the_python_program_runs_all_its_steps():
    namespace = {}
    exec(compile(block("python"), "README.md", "exec"), namespace)
    info = namespace["steps"].step_info
    assert (info.step, info.valid, info.is_last) == (15, (20, 20), True)
    assert namespace["model"].weight.grad is not None


def test_the_cpp_program_is_the_one_the_install_test_builds():
    assert block("cpp") == (ROOT / "tests/install/consumer/main.cpp").read_text()
