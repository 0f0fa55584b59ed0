# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`explain`: show how a dataset or loader of a script would run, and why."""

import argparse

from torch_distinput.cli._target import add_target, load_target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    add_target(parser)


def run(arguments: argparse.Namespace) -> None:
    """Prints the object's `explain()`. TypeError where it has none."""
    value, _ = load_target(arguments.target, arguments.script_arguments)
    if not callable(getattr(value, "explain", None)):
        raise TypeError(f"`{arguments.target}` is a {type(value).__name__}, which has no explain().")
    print(value.explain())
