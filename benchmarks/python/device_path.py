# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What the path to a device costs the host: runs `bench_device` and writes the ratios.

make bench                     # builds it
python benchmarks/python/device_path.py --json benchmarks/results/device_path.json
"""

import argparse
import json
import statistics
import subprocess
from pathlib import Path

from machine import Neighbours, describe

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "release" / "bench_device"
REPEATS = 9
# Question: ours, the other side.
RATIOS = {
    "a batch for a replica on the host, with the way to devices / without it": ("HostWithTheWay", "HostWithoutTheWay"),
    "64 leaves of 4 kB put together / 64 calls of copy_": ("PutTogether", "CopyLeafByLeaf"),
    "uint8 images to float32, NHWC / to(float32), sub, div": ("UnpackToNhwc", "TorchToNhwc"),
    "the same to NCHW / and permute": ("UnpackToNchw", "TorchToNchw"),
}


def measure() -> dict[str, list[float]]:
    """Microseconds of CPU time of each benchmark, one number a repeat; the repeats of all benchmarks alternate."""
    command = [
        PROGRAM,
        "--benchmark_format=json",
        f"--benchmark_repetitions={REPEATS}",
        "--benchmark_enable_random_interleaving=true",
        "--benchmark_min_time=0.1",
    ]
    runs = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)["benchmarks"]
    scale = {"ns": 1e-3, "us": 1.0, "ms": 1e3}
    times: dict[str, list[float]] = {}
    for run in runs:
        if run["run_type"] == "iteration":
            times.setdefault(run["run_name"].removeprefix("BM_"), []).append(run["cpu_time"] * scale[run["time_unit"]])
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the results here")
    arguments = parser.parse_args()
    neighbours = Neighbours()
    times = measure()
    result = describe(("torch",)) | {"others_used_cores": round(neighbours.cores(), 2), "repeats": REPEATS}
    result["cpu_us"] = {
        name: {"median": round(statistics.median(values), 2), "least": round(min(values), 2)}
        for name, values in times.items()
    }
    # The minimum of several repeats is the figure that other programs on the machine disturb least.
    for name, pick in (("ratios_of_least", min), ("ratios_of_medians", statistics.median)):
        result[name] = {
            question: round(pick(times[ours]) / pick(times[other]), 3) for question, (ours, other) in RATIOS.items()
        }
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
