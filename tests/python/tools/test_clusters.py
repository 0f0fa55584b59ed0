# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`make test-clusters` keeps one row for each launcher, beside those of `make matrix`."""

import sys

from places import ROOT

sys.path.insert(0, str(ROOT / "tools"))
try:
    import clusters
    from versions_page import LauncherRow, Row, page_with, rows_of
finally:
    sys.path.pop(0)

REPORT = """<testsuites><testsuite>
  <testcase name="a" time="1.4">{slurm}</testcase>
  <testcase name="b" time="2.1">{slurm}<failure message="wrong"/></testcase>
  <testcase name="c" time="0">{ray}<skipped message="ray is not installed"/></testcase>
</testsuite></testsuites>"""


def properties(launcher, version):
    return (
        f'<properties><property name="launcher" value="{launcher}"/><property name="version" value="{version}"/>'
        "</properties>"
    )


def launcher_row(launcher, version):
    return LauncherRow(launcher, version, "2.13.0", "1", "0", "0", "3")


def test_a_row_counts_the_tests_of_a_launcher_or_says_why_they_were_skipped(tmp_path):
    report = tmp_path / "report.xml"
    report.write_text(REPORT.format(slurm=properties("Slurm", "22.05"), ray=properties("Ray", "")))
    slurm, ray = clusters.rows_of(report)
    assert (slurm.version, slurm.passed, slurm.failed, slurm.skipped, slurm.seconds) == ("22.05", "1", "1", "0", "4")
    assert (ray.version, ray.passed, ray.failed, ray.skipped) == ("ray is not installed", "0", "0", "1")


def test_rows_of_launchers_take_the_place_of_older_ones_and_leave_the_others():
    page = page_with(
        "", Row("3.10.1", "2.9.1+cu130", "CUDA 13.0"), launcher_row("Slurm", "22"), launcher_row("Ray", "2")
    )
    page = page_with(page, launcher_row("Slurm", "23"), Row("3.11.1", "2.9.1", "CPU"))
    found = [(row.python, row.torch) if isinstance(row, Row) else (row.launcher, row.version) for row in rows_of(page)]
    assert found == [("3.10.1", "2.9.1+cu130"), ("3.11.1", "2.9.1"), ("Ray", "2"), ("Slurm", "23")]
