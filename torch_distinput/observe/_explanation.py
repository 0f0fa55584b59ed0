# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`Explanation`: the text of an `explain()`, which notebooks and consoles show as a tree."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Any

from torch_distinput import _C


@dataclass
class Branch:
    """A line of the tree, with those below it."""

    text: str
    notes: str = ""
    below: list[Branch] = field(default_factory=list)

    def lines(self, first: str = "", rest: str = "") -> list[tuple[str, str]]:
        """Pairs of a drawn line and its notes; `first` and `rest` are drawn before the first and the other lines."""
        drawn = [(first + self.text, self.notes)]
        for branch in self.below:
            last = branch is self.below[-1]
            drawn += branch.lines(rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))
        return drawn

    def html(self) -> str:
        """A nested list."""
        notes = f" <small>{escape(self.notes)}</small>" if self.notes else ""
        below = "".join(f"<li>{branch.html()}</li>" for branch in self.below)
        return f"<code>{escape(self.text)}</code>{notes}" + (f"<ul>{below}</ul>" if below else "")


class Explanation(str):
    """A report as a str, so that it can be printed, searched and compared; as a value it is shown as a tree.

    Consoles show `repr`, notebooks the same as a nested list.

    >>> tdi.Dataset.range(4).batch(2, drop_remainder=True).explain()
    batch(batch_size=2, drop_remainder=True)  2 elements, plan, threads: ..., TensorSpec(shape=(2,), dtype=torch.int64)
    └─ range(start=0, stop=4, step=1)         4 elements, plan, threads: ..., TensorSpec(shape=(), dtype=torch.int64)
    """

    tree: Branch

    def __new__(cls, text: str, tree: Branch) -> Explanation:
        made = super().__new__(cls, text)
        made.tree = tree
        return made

    def __getnewargs__(self) -> Any:
        return str(self), self.tree

    def __repr__(self) -> str:
        lines = self.tree.lines()
        width = max(len(text) for text, _ in lines)
        return "\n".join(f"{text:<{width}}  {notes}".rstrip() for text, notes in lines)

    def _repr_html_(self) -> str:
        return f"<ul><li>{self.tree.html()}</li></ul>"


_IN_PYTHON = "stays in Python: its function or source is a Python one"


def of_pipeline(native: _C.Dataset) -> Explanation:
    """The report on a pipeline; its tree has the last op on top and the sources below."""
    text = native.explain()
    header, *lines = text.splitlines()
    starts = [header.index(name) for name in ("elements", "path", "threads", "element_spec")]
    finished: list[Branch] = []  # roots of what is not the input of an op yet
    for line, inputs in zip(lines, native.input_counts()):
        op, elements, path, threads, spec = (
            line[begin:end].strip() for begin, end in zip((0, *starts), (*starts, len(line)))
        )
        below = finished[len(finished) - inputs :]
        del finished[len(finished) - inputs :]
        notes = f"{elements} elements, {path.replace('runs user code', _IN_PYTHON)}, threads: {threads}, {spec}"
        finished.append(Branch(op, notes, below))
    return Explanation(text, finished[0])


def of_facts(title: str, text: str, below: list[Explanation] | None = None) -> Explanation:
    """The report in `text`, lines `name: fact`; its tree shows them below `title`, and then the trees of `below`."""
    branches = []
    for line in text.splitlines():
        name, _, fact = line.partition(": ")
        branches.append(Branch(name, fact))
    return Explanation(text, Branch(title, "", branches + [one.tree for one in below or []]))
