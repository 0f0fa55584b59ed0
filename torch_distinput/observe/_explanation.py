# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`Explanation`: the text of an `explain()`, with the ops as a tree."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Any

from torch_distinput import _C
from torch_distinput.base._structure import map_leaves


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
    """A report as a str: lines `name: fact`, and below them the ops that run, the last one on top, as a tree.

    `print`, `str` and consoles show the same text; notebooks show a nested list. `title`: what the facts are about.

    Attributes:
        facts: the lines `name: fact`; for a pipeline, what an epoch reads over networks, if it does.
        ops: the last op with its inputs below; None where there is no pipeline.

    >>> tdi.Dataset.range(4).batch(2, drop_remainder=True).explain()
    batch(batch_size=2, drop_remainder=True)  2 elements, plan, threads: ..., int64[2]
    └─ range(start=0, stop=4, step=1)         4 elements, plan, threads: ..., int64[]
    """

    facts: list[str]
    ops: Branch | None
    _title: str

    def __new__(cls, title: str, facts: list[str], ops: Branch | None) -> Explanation:
        tree = ops if ops is None or not facts else Branch(title, "", [ops])
        made = super().__new__(cls, "\n".join(facts + _aligned(tree)))
        made._title, made.facts, made.ops = title, facts, ops
        return made

    def __getnewargs__(self) -> Any:
        return self._title, self.facts, self.ops

    @property
    def tree(self) -> Branch:
        """The facts and the ops in one tree."""
        if self.ops is not None and not self.facts:
            return self.ops
        named = [line.partition(": ") for line in self.facts]
        below = [] if self.ops is None else [self.ops]
        return Branch(self._title, "", [Branch(name, fact) for name, _, fact in named] + below)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<ul><li>{self.tree.html()}</li></ul>"


_WIDEST = 72  # a longer line pushes its own notes to the right, and no others


def _aligned(tree: Branch | None) -> list[str]:
    """The lines of `tree`, with their notes in a column."""
    lines = [] if tree is None else tree.lines()
    width = max((len(text) for text, _ in lines if len(text) <= _WIDEST), default=0)
    return [f"{text:<{width}}  {notes}".rstrip() for text, notes in lines]


_COUNTS = {_C.INFINITE: "infinitely many", _C.UNKNOWN: "an unknown number of"}
_IN_PYTHON = "; stays in Python: its function or source is a Python one"


def _notes(op: _C.OpInfo) -> str:
    path = op.path + (f"; {op.facts}" if op.facts else "") + (_IN_PYTHON if op.runs_user_code else "")
    spec = "unknown type" if op.spec is None else str(map_leaves(_type, op.spec))
    return f"{_COUNTS.get(op.cardinality, op.cardinality)} elements, {path}, threads: {op.threads}, {spec}"


class _Word(str):
    """A text that stands without quotes in a printed structure."""

    __repr__ = str.__str__


def _type(spec: Any) -> _Word:
    """The type of a leaf: `float32[None, 20]` for a tensor."""
    if not isinstance(spec, _C.TensorSpec):
        return _Word(repr(spec))
    dims = "..." if spec.shape is None else ", ".join(map(str, spec.shape))
    return _Word(f"{str(spec.dtype).removeprefix('torch.')}[{dims}]")


def of_pipeline(native: _C.Dataset) -> Explanation:
    """The report on a pipeline."""
    finished: list[Branch] = []  # ops that no other op has taken as its input yet
    for op in native.ops():
        first = len(finished) - op.num_inputs
        finished[first:] = [Branch(op.call, _notes(op), finished[first:])]
    return Explanation("Dataset", native.network_facts(), finished[0])


# A fact in place of how rows are assigned: to assign them, they are counted.
UNCOUNTED = "assignment: known when there is an index, which is made first"
