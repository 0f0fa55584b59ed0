# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The commands of `python -m torch_distinput`, one a module: each has `add_arguments(parser)` and `run(arguments)`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from torch_distinput import _build
from torch_distinput.cli import _bench as bench
from torch_distinput.cli import _bench_store as bench_store
from torch_distinput.cli import _cache as cache
from torch_distinput.cli import _doctor as doctor
from torch_distinput.cli import _explain as explain
from torch_distinput.cli import _index as index
from torch_distinput.cli import _inspect as inspect
from torch_distinput.cli import _report as report

COMMANDS = {
    "doctor": doctor,
    "explain": explain,
    "bench": bench,
    "bench-store": bench_store,
    "index": index,
    "cache": cache,
    "inspect": inspect,
    "report": report,
}


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(prog="python -m torch_distinput")
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--cmake-prefix-path",
        action="store_true",
        help="print the folder that CMAKE_PREFIX_PATH needs for find_package(torch_distinput)",
    )
    group.add_argument("--version", action="store_true", help="print the version and the torch it was built for")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, command in COMMANDS.items():
        line = (command.__doc__ or "").splitlines()[0]
        text = line.split(": ", 1)[1]
        command.add_arguments(commands.add_parser(name, help=text, description=text))
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command line, by default that of this process. Exits with 1 and one line where a command fails."""
    parser = make_parser()
    words = list(sys.argv[1:] if arguments is None else arguments)
    own = words.index("--") if "--" in words else len(words)
    given = parser.parse_args(words[:own])
    given.script_arguments = words[own + 1 :]
    if given.script_arguments and not hasattr(given, "target"):
        parser.error("only commands that run a script take arguments after `--`")
    if given.cmake_prefix_path:
        print(Path(_build.__file__).resolve().parent)
    elif given.version:
        print(f"torch_distinput {_build.version} (torch {_build.torch_version})")
    elif given.command is None:
        parser.error("a command or an option is needed")
    else:
        try:
            COMMANDS[given.command].run(given)
        except (OSError, ValueError, TypeError, LookupError) as error:
            sys.exit(f"{given.command}: {error}")
