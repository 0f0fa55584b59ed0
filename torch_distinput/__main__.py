# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`python -m torch_distinput`: facts that build scripts ask for."""

import argparse
from pathlib import Path

from torch_distinput import _build


def main() -> None:
    """Prints the fact that the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m torch_distinput")
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument(
        "--cmake-prefix-path",
        action="store_true",
        help="print the folder that CMAKE_PREFIX_PATH needs for find_package(torch_distinput)",
    )
    group.add_argument("--version", action="store_true", help="print the version and the torch it was built for")
    arguments = parser.parse_args()
    if arguments.cmake_prefix_path:
        print(Path(__file__).resolve().parent)
    else:
        print(f"torch_distinput {_build.version} (torch {_build.torch_version})")


if __name__ == "__main__":
    main()
