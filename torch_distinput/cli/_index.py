# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`index`: make the indexes of files of records and store them beside the data, so that no program waits for them."""

from __future__ import annotations

import argparse
import glob
import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TypeVar

from torch_distinput import _C
from torch_distinput.cli._index_files import Indexed, Indexer, Stopped, size_of
from torch_distinput.cli._index_kinds import FORMATS, Kind, format_of, kind_of, why_not
from torch_distinput.cli._index_manifests import write_manifests
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.datasets._files import Progress

Result = TypeVar("Result")

_JOBS = 8
_LOOK_SECONDS = 0.2
_ERRORS = (OSError, ValueError, TypeError, LookupError, RuntimeError)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="URLs (https, http, s3, gs, az, hf) and paths; patterns as those of `Dataset.list_files`; folders, with "
        '"/" at the end of a URL: all files in them whose endings tell a format',
    )
    parser.add_argument(
        "--format", choices=FORMATS, help="what the files are; without it, the ending of each name tells"
    )
    parser.add_argument("--delimiter", metavar="C", help='between columns of CSV ("," and a tab in .tsv files)')
    parser.add_argument("--jobs", type=int, default=_JOBS, metavar="N", help=f"files at a time ({_JOBS})")
    parser.add_argument(
        "--shard",
        metavar="I/N",
        help="only each N-th file, from number I (0 to N - 1) on: N machines share the work. A run without it then "
        "joins the indexes of each folder into one object",
    )


def run(arguments: argparse.Namespace) -> None:
    """Makes the indexes that are not there, and prints what was done. ValueError for arguments out of range; files that
    have no index in the end are told one a line, and the exit status is 1."""
    jobs = arguments.jobs
    if jobs < 1:
        raise ValueError(f"`--jobs` must be at least 1, but is {jobs}.")
    if not _C.may_store():
        raise ValueError("TORCH_DISTINPUT_WRITE_INDEX=0 in the environment forbids to store indexes; unset it.")
    number, count = _shard(arguments.shard)
    names = sorted({name for given in arguments.files for name in _names(given, arguments.format)})
    kinds = {name: _kind(name, arguments.format, arguments.delimiter) for name in names[number::count]}
    indexed, failed = _index_all(kinds, jobs)
    if count == 1:
        write_manifests(indexed)
    for line in _summary(indexed):
        print(line)
    for name, error in sorted(failed.items()):
        print(_one_line(name, error), file=sys.stderr)
    if failed:
        sys.exit(1)


def _shard(given: str | None) -> tuple[int, int]:
    if given is None:
        return 0, 1
    number, _, count = given.partition("/")
    if number.isdecimal() and count.isdecimal() and int(number) < int(count):
        return int(number), int(count)
    raise ValueError(f"`--shard` must be I/N with I from 0 to N - 1, but is {given!r}.")


def _names(given: str, format_: str | None) -> list[str]:
    """The files that an argument stands for."""
    if _C.names_object(given):
        found = list(Dataset.list_files(given + "**" if given.endswith("/") else given, shuffle=False))
        is_one = found == [given]
    elif os.path.isdir(given):
        found, is_one = [str(path) for path in Path(given).rglob("*") if path.is_file()], False
    else:
        is_one = os.path.exists(given)
        found = list(Dataset.list_files(glob.escape(given) if is_one else given, shuffle=False))
    names = [os.fsdecode(name) for name in found]
    if format_ is not None or is_one:
        return names
    # What else lies in the folder is not meant.
    known = [name for name in names if format_of(name) and not name.rsplit("/", 1)[-1].startswith(".")]
    if names and not known:
        raise ValueError(f"{_shown(names[0])}: {why_not(names[0])}.")
    return known


def _kind(name: str, format_: str | None, delimiter: str | None) -> Kind:
    found = format_ or format_of(name)
    if found is None:
        raise ValueError(f"{_shown(name)}: {why_not(name)}.")
    is_tab = delimiter is None and name.lower().endswith(".tsv")
    return kind_of(found, "\t" if is_tab else delimiter)


def _index_all(kinds: dict[str, Kind], jobs: int) -> tuple[list[Indexed], dict[str, BaseException]]:
    """Indexes files side by side and shows the progress. Returns what was done, and the error of each other file."""
    indexer = Indexer()
    with ThreadPoolExecutor(jobs) as threads:
        try:
            sizes, failed = _results({name: threads.submit(size_of, name) for name in kinds})
            work = {name: threads.submit(indexer.index, name, kinds[name], size) for name, size in sizes.items()}
            _show_progress(work.values(), indexer, sum(sizes.values()))
        except BaseException:
            indexer.stop()
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    indexed, more = _results(work)
    return list(indexed.values()), failed | more


def _results(work: dict[str, Future[Result]]) -> tuple[dict[str, Result], dict[str, BaseException]]:
    done: dict[str, Result] = {}
    failed: dict[str, BaseException] = {}
    for name, future in work.items():
        try:
            done[name] = future.result()
        except (*_ERRORS, Stopped) as error:
            failed[name] = error
    return done, failed


def _show_progress(work: Iterable[Future[Indexed]], indexer: Indexer, total: int) -> None:
    pending = set(work)
    files, progress = len(pending), Progress()
    while pending:
        _, pending = wait(pending, _LOOK_SECONDS, FIRST_COMPLETED)
        progress(files, indexer.bytes_read(), total, not pending)


def _summary(indexed: list[Indexed]) -> Iterator[str]:
    with_index = [one for one in indexed if one.content is not None]
    made = sum(one.made for one in with_index)
    yield (
        f"{made} {'index' if made == 1 else 'indexes'} made, {len(with_index) - made} were there: "
        f"{sum(one.records for one in with_index):,} records in {len(with_index)} file(s)"
    )
    small = len(indexed) - len(with_index)
    if small:
        yield f"{small} file(s) of less than 256 KiB need none"
    refused = [one for one in with_index if one.problem]
    if refused:
        yield (
            f"{len(refused)} of them could not be stored beside the data, and are in the cache folder of this user "
            f"alone: {refused[0].problem}. Run this with credentials that may write there, or copy them there."
        )


def _one_line(name: str, error: BaseException) -> str:
    text = " ".join(str(error).split()).removeprefix("index: ")
    return f"index: {text}" if _shown(name) in text else f"index: {_shown(name)}: {text}"


def _shown(name: str) -> str:
    return _C.shown_url(name) if _C.names_object(name) else name
