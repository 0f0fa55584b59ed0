# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""docs/versions.md: a table with a row for each combination of versions that `make matrix` ran, and one with a row for
each launcher that `make test-clusters` looked for."""

import dataclasses
import datetime
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

PAGE = Path(__file__).resolve().parents[1] / "docs" / "versions.md"


def _today() -> str:
    return datetime.date.today().isoformat()


@dataclasses.dataclass
class Row:
    """A row of the first table. The cells without a default identify the combination."""

    python: str
    torch: str
    build: str
    cuda_library: str = "-"
    onetbb: str = "-"
    wheel: str = "no"
    first_batch_seconds: str = "-"
    passed: str = "-"
    failed: str = "-"
    skipped: str = "-"
    test_seconds: str = "-"
    date: str = dataclasses.field(default_factory=_today)

    @property
    def key(self) -> tuple[tuple[int, ...], tuple[int, ...], str]:
        """The sort key. It leaves out Python's patch release, so that a new one replaces the row of the old one."""
        torch = tuple(map(int, self.torch.split("+")[0].split(".")))
        minor, without_gil = int(self.python.split(".")[1].rstrip("t")), self.python.endswith("t")
        return (3, minor, without_gil), torch, self.build.split()[0]


@dataclasses.dataclass
class LauncherRow:
    """A row of the second table."""

    launcher: str
    version: str
    torch: str
    passed: str
    failed: str
    skipped: str
    seconds: str
    date: str = dataclasses.field(default_factory=_today)

    @property
    def key(self) -> str:
        return self.launcher


AnyRow: TypeAlias = Row | LauncherRow


def _table(kind: type[AnyRow]) -> str:
    titles = [field.name.replace("_", " ") for field in dataclasses.fields(kind)]
    return f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}\n"


HEAD = f"""# Versions
What `make matrix` saw: the wheel of `make wheel` for the Python, installed into an environment of its own away from
the source tree, and the fast Python tests (`-m "not slow"`) run against it. Where its column says no more than `yes`,
it was built for that torch alone. A `t` behind the version of Python: without the GIL. First batch seconds: from the
start of `pip install` of the wheel, oneTBB included, to the end of a program that reads a batch. Seconds are those of
the machine that did it, beside other work; they are no benchmark. Skipped are tests that need other packages, what the
C++ tests build, a GPU or another torch.

{_table(Row)}"""

LAUNCHERS = f"""
## Launchers
What `make test-clusters` saw: jobs of 3 or 4 processes on one machine, started by the real launchers, that read a
dataset with `DataLoader(distributed=True)`; each row reached one process, and all took the same number of steps. In
place of a version stands why a launcher's tests were skipped.

{_table(LauncherRow)}"""


def _cells(lines: Iterable[str]) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def rows_of(page: str) -> list[AnyRow]:
    combinations, _, launchers = page.partition("\n## Launchers\n")
    found: list[AnyRow] = [Row(*cells) for cells in _cells(re.findall(r"^\| \d.*", combinations, re.MULTILINE))]
    _, _, body = launchers.partition("---|\n")
    return found + [LauncherRow(*cells) for cells in _cells(body.splitlines())]


def page_with(page: str, *rows: AnyRow) -> str:
    """The page in which these rows replace those of the same combinations and launchers."""
    text = ""
    for head, kind in ((HEAD, Row), (LAUNCHERS, LauncherRow)):
        latest = {row.key: row for row in (*rows_of(page), *rows) if isinstance(row, kind)}
        text += head + "".join(f"| {' | '.join(dataclasses.astuple(latest[key]))} |\n" for key in sorted(latest))
    return text
