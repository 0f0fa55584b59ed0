# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`SCRIPT:OBJECT`, the argument of commands that look at a user's object."""

import argparse
import contextlib
import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

RUN_NAME = "__torch_distinput__"


def add_target(parser: argparse.ArgumentParser) -> None:
    """Adds the argument. What follows `--` goes to the script, as `script_arguments`."""
    parser.add_argument(
        "target",
        metavar="SCRIPT:OBJECT",
        help="a Python file, and the name in it of a DataLoader, Dataset or other iterable, or of a function without "
        "arguments that makes one; what is below `if __name__ == '__main__'` does not run; arguments after `--` are "
        "the script's own",
    )


def load_target(target: str, arguments: Sequence[str] = ()) -> tuple[Any, dict[str, Any]]:
    """The object, and the names of its script, which finds `arguments` in sys.argv.

    Raises ValueError, LookupError or OSError if it is missing; ValueError with file and line if the script fails.
    """
    file, separator, name = target.rpartition(":")
    if not separator or not name.isidentifier():
        raise ValueError(f"`{target}` must be SCRIPT:OBJECT, such as train.py:loader.")
    path = Path(file)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file `{file}`.")
    with _as_the_program(path, arguments), _told_where(path, name):
        names = runpy.run_path(str(path), run_name=RUN_NAME)
    if name not in names:
        raise LookupError(f"`{file}` defines no `{name}`.")
    value = names[name]
    if callable(value) and not hasattr(value, "__iter__"):
        with _as_the_program(path, arguments), _told_where(path, name):
            value = value()
    return value, names


@contextlib.contextmanager
def _as_the_program(path: Path, arguments: Sequence[str]) -> Iterator[None]:
    """The modules beside the script can be imported, and sys.argv is the script's."""
    before = sys.argv
    sys.path.insert(0, str(path.resolve().parent))
    sys.argv = [str(path), *arguments]
    try:
        yield
    finally:
        sys.argv = before
        sys.path.pop(0)


@contextlib.contextmanager
def _told_where(path: Path, name: str) -> Iterator[None]:
    try:
        yield
    except SystemExit as error:
        raise ValueError(
            f"`{path}` ended with exit status {error.code} before `{name}` was there; what stands after `--` is passed "
            "to it as its arguments."
        ) from error
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(path)]
        place = f", line {lines[-1]}" if lines else ""
        text = str(error).splitlines()
        told = f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
        raise ValueError(f"`{path}`{place}: {told}") from error
