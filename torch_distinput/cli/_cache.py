# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`cache`: what the cache of remote bytes on this machine holds; fill it before a run, or make it smaller."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

from torch_distinput import _C
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.observe._units import bytes_text

_JOBS = 8
_AT_ONCE = 32 << 20
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("--dir", metavar="FOLDER", help="the folder of the cache; without it, TDI_CACHE")
    does = parser.add_subparsers(dest="does", required=True, metavar="ACTION")
    does.add_parser("list", help="each object of which bytes are kept, that which was used last first")
    warm = does.add_parser("warm", help="read whole objects into the cache")
    warm.add_argument("urls", nargs="+", metavar="URL", help="URLs, and patterns as those of `Dataset.list_files`")
    trim = does.add_parser("trim", help="remove objects, those that were not used for longest first")
    trim.add_argument("bytes", metavar="BYTES", help='how much may remain: "500G", "0"')


def run(arguments: argparse.Namespace) -> None:
    """Prints what was found or done. ValueError where there is no cache, and for a size that cannot be read."""
    folder = arguments.dir or os.environ.get("TDI_CACHE")
    if not folder:
        raise ValueError("name the folder of the cache: `--dir FOLDER`, or TDI_CACHE in the environment.")
    folder = os.path.abspath(folder)
    lines = {"list": _list, "warm": _warm, "trim": _trim}[arguments.does](folder, arguments)
    for line in lines:
        print(line)


def _list(folder: str, _: argparse.Namespace) -> Iterator[str]:
    objects = _C.list_object_cache(folder)
    for url, version, size, kept, used in objects:
        when = datetime.fromtimestamp(used).isoformat(" ", "minutes")
        yield f"{bytes_text(kept)} of {bytes_text(size)}  {when}  {url or '(damaged)'}  {version}".rstrip()
    yield f"{len(objects)} object(s), {bytes_text(sum(kept for _, _, _, kept, _ in objects))}"


def _warm(folder: str, arguments: argparse.Namespace) -> Iterator[str]:
    names = [name for url in arguments.urls for name in Dataset.list_files(url, shuffle=False, cache_dir=folder)]
    with ThreadPoolExecutor(_JOBS) as threads:
        sizes = list(threads.map(_read, names))
    yield f"{len(names)} object(s), {bytes_text(sum(sizes))}"


def _read(name: str) -> int:
    """Reads an object from its first byte to its last one; its size."""
    file = _C.InputFile(name, "cache")
    size = file.size()
    file.will_read([(0, min(size, _AT_ONCE))])
    for offset in range(0, size, _AT_ONCE):
        file.will_read([(offset + _AT_ONCE, _AT_ONCE)])
        file.read_at(offset, _AT_ONCE)
    return size


def _trim(folder: str, arguments: argparse.Namespace) -> Iterator[str]:
    yield f"{bytes_text(_C.trim_object_cache(folder, _size(arguments.bytes)))} remain"


def _size(text: str) -> int:
    number, unit = text.lower().removesuffix("b"), ""
    if number and number[-1] in _UNITS:
        number, unit = number[:-1], number[-1]
    try:
        size = float(number)
    except ValueError:
        size = -1.0
    if not 0 <= size < 1e18:
        raise ValueError(f'BYTES must be a number with an ending of k, M, G or T, as in "500G", but is {text!r}.')
    return int(size * _UNITS[unit])
