# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Joins the indexes of the objects of a folder into one object, so that a program asks once for all of them."""

from collections.abc import Iterable

from torch_distinput import _C
from torch_distinput.cli._index_files import Indexed, read_object, write_object


def write_manifests(indexed: Iterable[Indexed]) -> None:
    """Writes what is new. Where that is not possible, programs read the index of each object by itself."""
    folders: dict[str, dict[str, bytes]] = {}
    for one in indexed:
        if one.content is not None and not one.problem and _C.names_object(one.name):
            entries = folders.setdefault(_C.manifest_url(one.name, one.kind.stored), {})
            entries[one.name[one.name.rfind("/") + 1 :]] = one.content
    for url, entries in folders.items():
        if len(entries) > 1:
            _write(url, entries)


def _write(url: str, entries: dict[str, bytes]) -> None:
    before = _C.decode_manifest(read_object(url, _C.MOST_MANIFEST_BYTES) or b"") or {}
    # Other files of the folder may have been indexed by another run.
    after = _C.encode_manifest(before | entries)
    if len(after) > _C.MOST_MANIFEST_BYTES:
        after = _C.encode_manifest(entries)
    if len(after) <= _C.MOST_MANIFEST_BYTES and before | entries != before:
        write_object(url, after)
