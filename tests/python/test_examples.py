# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The examples run as a user would run them, and keep their promises."""

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "python"


def run(name: str) -> str:
    command = [sys.executable, str(EXAMPLES / name)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_the_digits_example_learns_and_sees_every_row_once():
    output = run("01_train_digits.py")
    assert float(re.search(r"test accuracy: (\d\.\d+)", output)[1]) >= 0.95
    assert re.search(r"every one of the 1438 rows was seen once", output)
    assert re.search(r"evaluated 359 of 359 test rows", output)
    assert re.search(r"DistributedSampler with 3 ranks would have counted 360", output)
