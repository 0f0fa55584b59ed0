# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A C++ program's pipelines beside torch::data, and what the library's headers cost the compiler.

    python benchmarks/python/cpp.py --json benchmarks/results/cpp.json

Builds benchmarks/cpp/torch_data against the installed package, as a user would, and runs it. A round measures ours,
each form of torch::data, and ours again. For the compiler, in turn, the CPU time of one file that includes
torch/torch.h, of the README's program, which includes this library's umbrella header alone, and of that program with
both headers; the last less the first is what this library adds.
"""

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from machine import Neighbours, describe

import torch_distinput as tdi

ROOT = Path(__file__).resolve().parents[2]
BARE = "#include <torch/torch.h>\n#include <iostream>\nint main() { std::cout << torch::arange(3) << '\\n'; }\n"


def run(*command: object) -> str:
    environment = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    words = [str(word) for word in command]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout


def build(folder: Path) -> Path:
    source = ROOT / "benchmarks/cpp/torch_data"
    options = [f"-DCMAKE_PREFIX_PATH={Path(tdi.__file__).parent}", "-DCMAKE_BUILD_TYPE=Release"]
    run("cmake", "-S", source, "-B", folder, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *options)
    run("cmake", "--build", folder)
    return folder / "beside_torch_data"


def compile_seconds(command: list[str], source: Path) -> float:
    """CPU seconds that compiling `source` takes; `command` names the flags."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(*command, "-c", source, "-o", source.with_suffix(".o"))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compiler(folder: Path) -> list[str]:
    """The compiler and the flags of the benchmark's own file, without a compiler cache."""
    (entry,) = json.loads((folder / "compile_commands.json").read_text())
    words = entry["command"].split()
    words = words[: words.index("-o")]
    return [word for word in words if Path(word).name != "ccache"]


def translation_unit(folder: Path, rounds: int) -> dict[str, list[float]]:
    """CPU seconds of the compiler for files that include torch's header, this library's, and both."""
    (program,) = re.findall(r"```cpp\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    sources = {"torch/torch.h": BARE, "torch_distinput": program, "both": f"#include <torch/torch.h>\n{program}"}
    found: dict[str, list[float]] = {name: [] for name in sources}
    for _ in range(rounds):
        for number, (name, text) in enumerate(sources.items()):
            source = folder / f"unit{number}.cpp"
            source.write_text(text)
            found[name].append(compile_seconds(compiler(folder), source))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="where the results go")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--compile-rounds", type=int, default=3)
    work = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        program = build(folder)
        others = Neighbours()
        measured = json.loads(run(program, work.rounds))
        cores = others.cores()
        units = translation_unit(folder, work.compile_rounds)
    cases = []
    print(f"others used {cores:.2f} cores")
    for name, series in measured.items():
        print(f"\n{name}")
        own = statistics.median(series["torch_distinput"])
        for rival, samples in series.items():
            median = statistics.median(samples)
            spread = (max(samples) - min(samples)) / median
            print(f"  {rival:32} {median:12.1f} us  spread {spread:4.0%}  ours/its {own / median:.2f}")
        cases.append({"name": name, "series": {key: {"samples_us": value} for key, value in series.items()}})
    seconds = {name: statistics.median(samples) for name, samples in units.items()}
    added = seconds["both"] - seconds["torch/torch.h"]
    print(f"\na translation unit: {seconds}, added by this library {added:.2f} s")
    if work.json:
        report = {
            **describe(("torch",)),
            "others_cores": cores,
            "cases": cases,
            "translation_unit": {"samples_s": units, "added_s": added},
        }
        work.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
