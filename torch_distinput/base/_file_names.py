# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Converts paths to the bytes that the native library takes."""

import os
from typing import Any

Path = str | bytes | os.PathLike


def file_names(paths: Any, where: str) -> list[bytes]:
    """One path or several as file names in the file system's encoding. `where` begins the TypeError's message."""
    if isinstance(paths, (str, bytes, os.PathLike)):
        paths = [paths]
    try:
        return [os.fsencode(path) for path in paths]
    except TypeError:
        raise TypeError(f"{where} must be a path or paths, but is {paths!r}.") from None
