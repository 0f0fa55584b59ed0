# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`SCRIPT:OBJECT`, the argument of commands that look at a user's object."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path
from typing import Any

RUN_NAME = "__torch_distinput__"


def add_target(parser: argparse.ArgumentParser) -> None:
    """Adds the argument."""
    parser.add_argument(
        "target",
        metavar="SCRIPT:OBJECT",
        help="a Python file, and the name in it of a DataLoader, Dataset or other iterable, or of a function without "
        "arguments that makes one; what is below `if __name__ == '__main__'` does not run",
    )


def load_target(target: str) -> tuple[Any, dict[str, Any]]:
    """The object, and the names of its script. ValueError, LookupError or OSError for one that is not there."""
    file, separator, name = target.rpartition(":")
    if not separator or not name.isidentifier():
        raise ValueError(f"`{target}` must be SCRIPT:OBJECT, such as train.py:loader.")
    path = Path(file)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file `{file}`.")
    sys.path.insert(0, str(path.resolve().parent))
    try:
        names = runpy.run_path(str(path), run_name=RUN_NAME)
    finally:
        sys.path.pop(0)
    if name not in names:
        raise LookupError(f"`{file}` defines no `{name}`.")
    value = names[name]
    if callable(value) and not hasattr(value, "__iter__"):
        value = value()
    return value, names
