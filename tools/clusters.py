#!/usr/bin/env python3
# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Runs tests/clusters and writes what it saw of each launcher to docs/versions.md: `tools/clusters.py [option ...]`.

Options are pytest's. Ends with pytest's exit status.
"""

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from pathlib import Path

import torch
from versions_page import PAGE, LauncherRow, page_with

ROOT = Path(__file__).resolve().parents[1]


def rows_of(report: Path) -> list[LauncherRow]:
    """A row for each launcher of a report in JUnit's format."""
    of_launcher = defaultdict(list)
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        said = {one.get("name"): one.get("value") for one in case.iter("property")}
        of_launcher[said["launcher"], said["version"]].append(case)
    return [_row(*named, cases) for named, cases in of_launcher.items()]


def _row(launcher: str, version: str, cases: list[ElementTree.Element]) -> LauncherRow:
    skipped = [case.find("skipped") for case in cases if case.find("skipped") is not None]
    failed = sum(bool({part.tag for part in case} & {"failure", "error"}) for case in cases)
    seconds = sum(float(case.get("time", "0")) for case in cases)
    passed = len(cases) - failed - len(skipped)
    numbers = (str(passed), str(failed), str(len(skipped)), f"{seconds:.0f}")
    return LauncherRow(launcher, version or skipped[0].get("message", ""), torch.__version__, *numbers)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "tests/clusters", f"--junitxml={report}", *sys.argv[1:]]
        status = subprocess.run(command, cwd=ROOT).returncode
        if report.exists():
            PAGE.write_text(page_with(PAGE.read_text(), *rows_of(report)))
    return status


if __name__ == "__main__":
    sys.exit(main())
