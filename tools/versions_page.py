# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""docs/versions.md: a table with a row for each combination of versions that `make matrix` ran."""

import dataclasses
import datetime
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "versions.md"


@dataclasses.dataclass
class Row:
    """A row of the table. The cells without a default identify the combination."""

    python: str
    torch: str
    build: str
    cuda_library: str = "-"
    onetbb: str = "-"
    compiler: str = "-"
    wheel: str = "no"
    passed: str = "-"
    failed: str = "-"
    skipped: str = "-"
    build_seconds: str = "-"
    test_seconds: str = "-"
    date: str = dataclasses.field(default_factory=lambda: datetime.date.today().isoformat())

    @property
    def key(self) -> tuple[tuple[int, ...], tuple[int, ...], str]:
        """The sort key. It leaves out Python's patch release, so that a new one replaces the row of the old one."""
        python, torch = (tuple(map(int, text.split("+")[0].split("."))) for text in (self.python, self.torch))
        return python[:2], torch, self.build.split()[0]


TITLES = [field.name.replace("_", " ") for field in dataclasses.fields(Row)]
HEAD = f"""# Versions
What `make matrix` saw: a wheel built for each of these, installed into an environment of its own away from the source
tree, and the fast Python tests (`-m "not slow"`) run against it. Seconds are those of the machine that did it, beside
other work; they are no benchmark. Skipped are tests that need what the C++ tests build, a GPU or another torch.

| {" | ".join(TITLES)} |
|{"---|" * len(TITLES)}
"""


def rows_of(page: str) -> list[Row]:
    lines = [line for line in page.splitlines() if re.match(r"\| \d", line)]
    return [Row(*(cell.strip() for cell in line.strip("|").split("|"))) for line in lines]


def page_with(page: str, *rows: Row) -> str:
    """The page in which these rows replace those of the same combinations."""
    latest = {row.key: row for row in (*rows_of(page), *rows)}
    return HEAD + "".join(f"| {' | '.join(dataclasses.astuple(latest[key]))} |\n" for key in sorted(latest))
