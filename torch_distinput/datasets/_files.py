# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Datasets of the records in files."""

import sys
from collections.abc import Iterable
from typing import Any

from torch_distinput import _C
from torch_distinput.base._arguments import Path, file_names, integer, is_flag, optional_integer, optional_text
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.ops._base import native_of
from torch_distinput.ops._description import described
from torch_distinput.storage._options import CacheDir, Storage, StorageOptions, stored_names
from torch_distinput.typing import Compression, Index


class RecordFiles(Dataset):
    """Records of files, which native code finds. Not made directly."""

    _op: str

    @described
    def __init__(
        self,
        files: Path | Iterable[Path] | Dataset,
        compression_type: Compression | None = None,
        index: Index = "auto",
        max_record_bytes: int | None = None,
        *,
        storage_options: StorageOptions = None,
        filesystem: Any = None,
        cache_dir: CacheDir = None,
        cache_bytes: int | None = None,
    ):
        options = record_options(compression_type, index, max_record_bytes, self._op)
        storage = Storage(storage_options, filesystem, cache_dir, cache_bytes)
        super().__init__(self._records(files_of(self._op, files, storage), *options))

    def _records(self, files: Any, *options: Any) -> _C.Dataset:
        raise NotImplementedError


class TextLineDataset(RecordFiles):
    r"""The lines of text files, as `str` without line ends; carriage returns are dropped, as in tf.data.

    Args:
        files: a path, paths, or a dataset of paths (`Dataset.list_files`); they are read in that order. A URL that is
            given here may have the wildcards and braces of `Dataset.list_files`; what matches is listed now and sorted.
        compression_type: None, "GZIP" or "ZLIB".
        index: whether an index of the lines is made when it is first needed: one pass over the files, on all cores,
            that gives random access, an exact length, a full shuffle and O(1) resume. For files of 256 KiB or more it
            is stored in a hidden file beside the file, or else in the user's cache folder, and made again when the file
            changes; TORCH_DISTINPUT_WRITE_INDEX=0 in the environment stores none. False reads one line after the other.
            "auto" makes an index where that is possible: for uncompressed regular files whose number is known.
        max_record_bytes: a line (in other datasets: a record) of more bytes is an error that names the file; the rest
            of it is not held in memory, because a megabyte of gzip may unpack to a gigabyte. None: 2**28 in compressed
            files and pipes, whose size does not bound their records; no limit in other files.
        storage_options: how stores are asked for the URLs among `files`, such as {"endpoint_url": ..., "key": ...}; for
            all objects of the bucket in this process. What is not given comes from the usual variables and files.
            "credentials" may be a function of a URL that returns such a dict, with "expires" in seconds since 1970.
        filesystem: a file system of fsspec that reads the files, for stores that this library does not know. Slower,
            and not in a forked process.
        cache_dir: a folder of this machine where bytes of the URLs' bucket are kept once they were read, for all
            processes of this user, or of the group that may write to it; None: the variable TDI_CACHE, else none.
        cache_bytes: what that folder may hold; None: TDI_CACHE_BYTES, else all but a twentieth of its disk.

    Files may be URLs (https, http, s3, gs, az, hf): docs/remote.md.

    Raises, when elements are read, NotFoundError for a missing file, OSError for one that cannot be read, and
    InvalidArgumentError, naming file and byte, for text that is not UTF-8, for a line that is too large and for a file
    that changes meanwhile.
    With `on_error="skip"` such a line is skipped and counted, or the rest of a file that cannot be read further.

    >>> import pathlib
    >>> _ = pathlib.Path("lines.txt").write_text("one\ntwo\n")
    >>> list(tdi.TextLineDataset("lines.txt"))
    ['one', 'two']
    """

    _op, _records = "TextLineDataset", staticmethod(_C.text_lines)


class TFRecordDataset(RecordFiles):
    """The records of TFRecord files, as `bytes`; all checksums are checked. Arguments and errors: `TextLineDataset`.

    Raises InvalidArgumentError, naming file and byte, also for a record with a wrong checksum or an impossible length,
    and for a file that ends inside a record.
    """

    _op, _records = "TFRecordDataset", staticmethod(_C.tf_records)


class FixedLengthRecordDataset(Dataset):
    """The records of files whose records all have `record_bytes` bytes, as `bytes`.

    Each file is a header of `header_bytes`, records, and a footer of `footer_bytes`; a file of another length raises
    InvalidArgumentError when it is read. ValueError where `record_bytes` is more than `max_record_bytes`. Other
    arguments and errors: `TextLineDataset`.

    >>> import pathlib
    >>> _ = pathlib.Path("records.bin").write_bytes(b"aabb")
    >>> list(tdi.FixedLengthRecordDataset("records.bin", record_bytes=2))
    [b'aa', b'bb']
    """

    @described
    def __init__(
        self,
        files: Path | Iterable[Path] | Dataset,
        record_bytes: int,
        header_bytes: int = 0,
        footer_bytes: int = 0,
        compression_type: Compression | None = None,
        index: Index = "auto",
        max_record_bytes: int | None = None,
        *,
        storage_options: StorageOptions = None,
        filesystem: Any = None,
        cache_dir: CacheDir = None,
        cache_bytes: int | None = None,
    ):
        name = "FixedLengthRecordDataset"
        sizes = (
            integer(name, "record_bytes", record_bytes),
            integer(name, "header_bytes", header_bytes),
            integer(name, "footer_bytes", footer_bytes),
        )
        options = record_options(compression_type, index, max_record_bytes, name)
        storage = Storage(storage_options, filesystem, cache_dir, cache_bytes)
        super().__init__(_C.fixed_records(files_of(name, files, storage), *sizes, *options))


def files_of(op: str, files: Any, storage: Storage) -> Any:
    """The argument `files` of a dataset of files as native code takes it: names, or a dataset of names. `storage` says
    how URLs among the names are read."""
    if not isinstance(files, Dataset):
        return stored_names(op, file_names(files, f"{op}: `files`"), storage)
    for name in storage.given():
        raise ValueError(f"{op}: give `{name}` to the `list_files` that names the files.")
    return native_of(files)


def record_options(
    compression_type: Any, index: Any, max_record_bytes: Any, name: str
) -> tuple[str | None, bool | None, int | None]:
    """The arguments that all datasets of records have, as native code takes them."""
    compression = optional_text(name, "compression_type", compression_type)
    return compression, index_flag(index, name), optional_integer(name, "max_record_bytes", max_record_bytes)


def index_flag(index: Any, name: str) -> bool | None:
    """The argument `index` of a dataset of files: None for "auto"."""
    if is_flag(index):
        return bool(index)
    if isinstance(index, str) and index == "auto":
        return None
    raise ValueError(f'{name}: `index` must be True, False or "auto", but is {index!r}.')


# From so many bytes of objects on that were read for their indexes alone, a line says how that is avoided.
_MUCH = 256 << 20
_ADVICE = (
    "\nThese files are downloaded once to find their records, before the first batch. `python -m torch_distinput index "
    "URL...` stores what is found beside the data, for all programs; `index=False` reads in order, without "
    "random access."
)


class Progress:
    """Shows on stderr how far the indexing of files is: a tqdm bar where tqdm is installed, else a line."""

    advised = False

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.shown = False
        self.bar: Any = None
        self.percent = -1

    def __call__(self, files: int, done_bytes: int, total: int, done: bool, downloaded: int = 0) -> None:
        """`downloaded`: bytes of objects that had no stored index."""
        if not self.shown:
            self.shown = True
            self.bar = _tqdm_bar(files)
        if self.bar is not None:
            self.bar.total = total
            self.bar.n = done_bytes
            self.bar.refresh()
        elif done_bytes * 100 // max(total, 1) != self.percent:
            self.percent = done_bytes * 100 // max(total, 1)
            print(f"\rindexing {files} file(s): {self.percent} %", end="", file=sys.stderr, flush=True)
        if downloaded >= _MUCH and not self.advised:
            self.advised = True
            print(_ADVICE, file=sys.stderr)
        if done:
            print(file=sys.stderr) if self.bar is None else self.bar.close()
            self._begin()


def _tqdm_bar(files: int) -> Any:
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    return tqdm(desc=f"indexing {files} file(s)", unit="B", unit_scale=True, leave=False)


_C.show_progress(Progress())
