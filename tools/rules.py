# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What the scripts that check which file may use which have in common."""

import sys
from collections.abc import Callable
from pathlib import Path


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """The groups of nodes that lie on a cycle (Tarjan's strongly connected components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = []
            while not group or group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return sorted(found)


def report(what: str, violations: Callable[[Path], tuple[int, list[str]]]) -> int:
    """Prints the violations in the source tree that the command line names, by default this one; the exit status.
    `violations(root)`: the number of files read, and a line for each violation."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    count, found = violations(root)
    print("\n".join([*found, f"{what}: {count} files, {len(found)} violations"]))
    return 1 if found else 0
