# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Datasets of the members of archives."""

import os
from collections.abc import Iterable
from typing import Any

from torch_distinput import _C
from torch_distinput.base._arguments import Path, count
from torch_distinput.datasets._dataset import Dataset
from torch_distinput.datasets._files import RecordFiles, files_of
from torch_distinput.ops._description import described
from torch_distinput.storage._options import CacheDir, Storage, StorageOptions
from torch_distinput.tables._column_options import column_options, pyarrow_for
from torch_distinput.tables._zip_files import ZipFiles

# What the members of one key may have in archives that unpack to more than they are.
_MOST_BYTES = 1 << 28


class TarDataset(RecordFiles):
    """The groups of tar archives in WebDataset's layout, as dicts of `bytes` by suffix with `__key__`.

    Consecutive members whose names are equal up to the first dot of the last part are one element: `a/7.jpg` and
    `a/7.cls` become {"__key__": "a/7", "cls": ..., "jpg": ...}, with the suffixes in lower case and sorted. All
    elements must have the suffixes of the first one. Folders and members without a suffix are left out.

    Args:
        files: a path, paths, or a dataset of paths. Unless a file with that very name exists, `{000..012}` in a path
            counts, with the width of a first number that begins with 0, and `{a,b}` lists. In a URL they always do,
            and it may have the wildcards of `Dataset.list_files`; what matches is listed now and sorted.
        compression_type: None, "GZIP" or "ZLIB".
        index: as in `TextLineDataset`: plain archives get random access.
        max_record_bytes: as in `TextLineDataset`, for all members of one key with their heads. In a compressed archive,
            nothing after a larger group is read.

    Raises, when elements are read, what `TFRecordDataset` raises, and InvalidArgumentError, naming file, member and
    byte, for damage, for links and sparse files, for a member that occurs twice and for names that lead out of the
    archive.

    >>> import io, tarfile
    >>> with tarfile.open("shard-0.tar", "w") as archive:
    ...     for name, data in (("7.cls", b"3"), ("7.txt", b"seven")):
    ...         member = tarfile.TarInfo(name)
    ...         member.size = len(data)
    ...         archive.addfile(member, io.BytesIO(data))
    >>> list(tdi.TarDataset("shard-{0..0}.tar"))
    [{'__key__': '7', 'cls': b'3', 'txt': b'seven'}]
    """

    _op = "TarDataset"

    def _records(self, files: Any, *options: Any) -> _C.Dataset:
        return _C.tar_members(_expanded(files), *options)


class ZipDataset(Dataset):
    """The groups of zip archives, as dicts of `bytes` by suffix with `__key__`: as `TarDataset` has them.

    The directory at the end of an archive is its index: random access, an exact length and O(1) resume without a pass
    over the data, in stores, too, where only the members that are needed are read. Groups are read together until they
    have 256 KiB, which are a block for `shuffle(blocks=)`. Members may be stored or deflated, in archives of any size.

    Args:
        files: as in `TarDataset`.
        max_record_bytes: an element whose members have more bytes together, packed or unpacked, is an error that names
            file and key, before any of them is read; None: 2**28.
        storage_options, filesystem, cache_dir, cache_bytes: how URLs are read, as in `TextLineDataset`.

    Raises ImportError without pyarrow, which passes the members on; when elements are read, NotFoundError for a missing
    file, OSError for one that cannot be read, and InvalidArgumentError, naming file and member, for what is no zip
    archive, for damage (the checksum of each member is compared when it is read), for links, encrypted members, other
    compressions, members that share bytes, a member that occurs twice, and names that lead out of the archive. With
    `on_error="skip"` such an element is skipped and counted.

    >>> import zipfile
    >>> with zipfile.ZipFile("photos.zip", "w") as archive:
    ...     archive.writestr("cats/7.cls", b"3")
    ...     archive.writestr("cats/7.txt", b"seven")
    >>> list(tdi.ZipDataset("photos.zip"))  # doctest: +SKIP
    [{'__key__': 'cats/7', 'cls': b'3', 'txt': b'seven'}]
    """

    @described
    def __init__(
        self,
        files: Path | Iterable[Path] | Dataset,
        max_record_bytes: int | None = None,
        *,
        storage_options: StorageOptions = None,
        filesystem: Any = None,
        cache_dir: CacheDir = None,
        cache_bytes: int | None = None,
    ):
        op = "ZipDataset"
        pyarrow_for(op)
        most = _MOST_BYTES if max_record_bytes is None else count(op, "max_record_bytes", max_record_bytes, least=1)
        names = _expanded(files_of(op, files, Storage(storage_options, filesystem, cache_dir, cache_bytes)))
        super().__init__(_C.blocks(names, ZipFiles(op, most), op, "", column_options(op, "error", None), True))


def _expanded(files: Any) -> Any:
    """Names with their braces expanded; a dataset of names as it is."""
    if not isinstance(files, list):
        return files
    return [name for path in files for name in (_C.expand_braces(path) if _is_pattern(path) else [path])]


def _is_pattern(path: bytes) -> bool:
    """Whether the braces of a path stand for names. Those of URLs do in each dataset: native code expands them."""
    return b"{" in path and not _C.names_object(path) and not os.path.exists(path)
