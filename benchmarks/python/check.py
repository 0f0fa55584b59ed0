# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Compares ratios of new results with those of committed ones:

    check.py COMMITTED.json NEW.json [COMMITTED.json NEW.json ...]

A ratio is this library's time a batch beside that of another series of the same work in the same run, so that it says
the same on a faster or slower machine; times are never compared. A new ratio fails where it is worse than each pair of
samples of the committed run allows, and worse by more than the new run's own spread. Exits with 1 where one fails, or
where the new results lack one that they did not leave out by their command; says where the processors differ.
"""

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OWN = "torch_distinput"
Series = dict[str, dict[str, Any]]


def works_of(results: dict[str, Any]) -> dict[str, Series]:
    """The series of each work that has samples."""
    works = next((results[key] for key in ("works", "cases", "tasks") if key in results), [])
    return {
        work["name"]: {name: one for name, one in work["series"].items() if one.get("samples_us")} for work in works
    }


def rivals(series: Series) -> Iterator[tuple[str, str]]:
    """Pairs of a series of this library and one of another: the same variant of it where there is one."""
    for own in series:
        if not own.startswith(OWN):
            continue
        variant = own.removeprefix(OWN)
        others = [name for name in series if not name.startswith(OWN)]
        same = [name for name in others if variant and name.endswith(variant)]
        yield from ((own, other) for other in same or others)


def ratio(series: Series, own: str, other: str) -> tuple[float, float, float]:
    """Least, median and largest of our time beside theirs."""
    mine, theirs = series[own]["samples_us"], series[other]["samples_us"]
    return min(mine) / max(theirs), statistics.median(mine) / statistics.median(theirs), max(mine) / min(theirs)


def left_out(new: dict[str, Any], work: str, *series: str) -> bool:
    """Whether the command of the new results asked for other tasks or systems only."""
    tasks, systems = (new.get("chosen", {}).get(key) for key in ("tasks", "systems"))
    return (tasks is not None and work not in tasks) or (systems is not None and not set(series) <= set(systems))


def check(committed: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[bool, str]]:
    """Each ratio of the committed results: whether it holds, and a line about it."""
    now = works_of(new)
    for work, series in works_of(committed).items():
        for own, other in rivals(series):
            if left_out(new, work, own, other):
                continue
            name = f"{work}: {own} beside {other}"
            there = now.get(work, {})
            if own not in there or other not in there:
                yield False, f"{name}: the new results have no such series"
                continue
            _, before, allowed = ratio(series, own, other)
            least, found, _ = ratio(there, own, other)
            fails = found > allowed and least > before
            yield not fails, f"{name}: {found:.3f}, committed {before:.3f}, at most {allowed:.3f} by its spread"


def processors(committed: dict[str, Any], new: dict[str, Any]) -> str | None:
    """What to know where the two runs had different processors; None where they had the same."""
    before, now = (results.get("machine", {}).get("cpu") for results in (committed, new))
    if before == now:
        return None
    return (
        f"committed on {before}, measured on {now}: caches and memory change ratios, too. Whether a change made one "
        "worse, results of the commit before it on this machine tell: give them in place of the committed ones"
    )


def main(arguments: list[str]) -> int:
    """Prints a line for each ratio; returns the exit code."""
    if not arguments or len(arguments) % 2:
        print("check.py: pairs of files are needed: COMMITTED.json NEW.json ...", file=sys.stderr)
        return 2
    failed = 0
    for committed, new in zip(arguments[::2], arguments[1::2]):
        results = [json.loads(Path(path).read_text()) for path in (committed, new)]
        if difference := processors(*results):
            print(f"note   {Path(committed).name}: {difference}")
        for holds, line in check(*results):
            print("ok    " if holds else "WORSE ", line)
            failed += not holds
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
