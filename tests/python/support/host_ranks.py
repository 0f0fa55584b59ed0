# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Processes that start together on one host, and how many bytes each of them reads. For programs of `run_script`."""

import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import torch_distinput as tdi

MIB = 1 << 20


def _write_records(path: Path, size: int) -> None:
    with tdi.TFRecordWriter(str(path)) as writer:
        for _ in range(size // 8192):
            writer.write(b"x" * 8176)


# What writes a file of about this many bytes, and the number of rows of such files.
WRITERS = {
    "records": _write_records,
    "tokens": lambda path, size: np.tile(np.arange(1024, dtype=np.uint16), size // 2048).tofile(path),
    "csv": lambda path, size: path.write_text("a,b\n" + "1234567,7654321\n" * (size // 16)),
    "jsonl": lambda path, size: path.write_text('{"a": 12345678}\n' * (size // 16)),
}
READERS = {
    "records": tdi.TFRecordDataset,
    "tokens": lambda files: tdi.TokenDataset(files, np.uint16, sequence_length=None, document_boundary=1023),
    "csv": tdi.CsvDataset,
    "jsonl": tdi.JsonLinesDataset,
    "parquet": tdi.ParquetDataset,
}


def write_files(folder: Path, kind: str, count: int, size: int) -> list[str]:
    files = [folder / f"{number:03}.{kind}" for number in range(count)]
    for file in files:
        WRITERS[kind](file, size)
    return [str(file) for file in files]


def bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


def opened_by(process: int) -> Iterator[str]:
    """The paths that a running process has open."""
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            yield os.readlink(descriptor)


@contextlib.contextmanager
def started(
    works: list[Callable[[], object]], linger: Callable[[], object] = lambda: None
) -> Iterator[tuple[list[int], list[int]]]:
    """Forks a process for each of `works`: their ids, and descriptors from which each one's result is read, as JSON.
    Each calls `linger` after it has told its result. What the caller raises ends them."""
    processes, results = [], []
    for work in works:
        result, told = os.pipe()
        process = os.fork()
        if process == 0:
            os.write(told, json.dumps(work()).encode())
            os.close(told)
            linger()
            os._exit(0)
        os.close(told)
        processes.append(process)
        results.append(result)
    try:
        yield processes, results
    except BaseException:
        for process in processes:
            os.kill(process, signal.SIGKILL)
        raise
    finally:
        for process in processes:
            os.waitpid(process, 0)


def result_of(descriptor: int) -> object:
    with open(descriptor, "rb") as file:
        return json.loads(file.read())


def run_together(works: list[Callable[[], object]]) -> list[tuple[object, int]]:
    """The result of each of `works`, called in processes that begin at the same time, and the bytes that each reads.
    All live until the last one has its result, as the ranks of a job do."""
    may_begin, begin = os.pipe()
    may_end, end = os.pipe()

    def counted(work: Callable[[], object]) -> Callable[[], object]:
        def run() -> object:
            os.close(begin)
            os.close(end)
            os.read(may_begin, 1)
            before = bytes_read()
            return work(), bytes_read() - before

        return run

    with started([counted(work) for work in works], linger=lambda: os.read(may_end, 1)) as (_, results):
        os.close(begin)
        found = [tuple(result_of(result)) for result in results]
        os.close(end)
    return found
