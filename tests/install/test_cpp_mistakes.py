# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What the compiler says first about a program with a typical mistake."""

import os
import subprocess
from pathlib import Path

import pytest
from installed import TOOLS
from torch.utils.cpp_extension import include_paths

# Compiling each takes ten seconds.
pytestmark = pytest.mark.slow

HEADER = "#include <torch_distinput/torch_distinput.h>\nnamespace tdi = torch_distinput;\n"
OWN_EXAMPLE = (
    "#include <torch/data.h>\n"
    + HEADER
    + """
struct Three { at::Tensor a, b, c; };
class Own : public torch::data::datasets::Dataset<Own, Three> {
 public:
  Three get(std::size_t) override { return {}; }
  std::optional<std::size_t> size() const override { return 3; }
};
"""
)
MISTAKES = {
    "C++17": (HEADER + "int main() {}", "torch_distinput needs C++20", "c++17"),
    "example type of its own": (
        OWN_EXAMPLE + "int main() { auto rows = tdi::from_torch_data(Own()); }",
        "from_torch_data, make_data_loader: examples are torch::data::Example",
        "c++20",
    ),
    "example type of its own in a loader": (
        OWN_EXAMPLE + "int main() { auto loader = tdi::make_data_loader(Own(), 3); }",
        "from_torch_data, make_data_loader: examples are torch::data::Example",
        "c++20",
    ),
    "struct without fields": (
        HEADER + "struct Row { int x; };\nint main() { for (auto& row : tdi::as<Row>(tdi::Dataset::range(3))) row; }",
        "as: the struct must name its fields",
        "c++20",
    ),
    "function of other arguments": (
        HEADER
        + 'int main() {\n  tdi::MirroredStrategy strategy({"cpu"});\n'
        + "  for (auto& batch : strategy.distribute_dataset(tdi::Dataset::range(3).batch(2)))\n"
        + "    strategy.run([](const at::Tensor& part) { return part; }, batch);\n}",
        "run: the function must be callable, as const, with one argument for each",
        "c++20",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_first_error_is_a_sentence_of_this_library(mistake: str, prefix: Path, tmp_path: Path):
    program, sentence, standard = MISTAKES[mistake]
    source = tmp_path / "program.cpp"
    source.write_text(program)
    folders = [f"-isystem{folder}" for folder in include_paths()]
    compiler = os.environ.get("CXX", "c++")
    command = [compiler, f"-std={standard}", "-fsyntax-only", f"-I{prefix / 'include'}", *folders, str(source)]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env={**os.environ, "PATH": TOOLS}, check=False
    )
    errors = [line for line in result.stderr.splitlines() if "error:" in line]
    assert result.returncode != 0 and sentence in errors[0], result.stderr[:4000]
