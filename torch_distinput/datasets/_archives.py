# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Datasets of the members of archives."""

import os
from typing import Any

from torch_distinput import _C
from torch_distinput.datasets._files import RecordFiles


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
        if isinstance(files, list):
            files = [name for path in files for name in (_C.expand_braces(path) if _is_pattern(path) else [path])]
        return _C.tar_members(files, *options)


def _is_pattern(path: bytes) -> bool:
    """Whether the braces of a path stand for names. Those of URLs do in each dataset: native code expands them."""
    return b"{" in path and not _C.names_object(path) and not os.path.exists(path)
