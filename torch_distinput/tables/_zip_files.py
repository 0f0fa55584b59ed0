# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Zip archives: their directory, at the end of the file, is the index of the members."""

from __future__ import annotations

import stat
import struct
import threading
import zipfile
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from torch_distinput.tables._block_files import BlockFiles
from torch_distinput.tables._table_file import KeptReads, Seekable, Stamp, TableFile

KEY = "__key__"
# Groups of members are read together until they have so many bytes.
_BLOCK_BYTES = 256 << 10
# What a member counts for besides its bytes.
_MEMBER_BYTES = 512
# The bytes read at the end of a file: most directories of small archives are shorter.
_END_GUESS = 64 << 10
# The head of a member, before its name and the field after that, whose lengths are known once it is read.
_HEAD = struct.Struct("<4s22xHH")
_HEAD_SIGNATURE = b"PK\3\4"
_MOST_NAMES = 2 * 0xFFFF
_IS_ENCRYPTED = 1
# Deflate cannot shrink bytes more than this.
_MOST_INFLATION = 1032


@dataclass(frozen=True)
class Members:
    """The members of an archive that elements are made of, in the order of its directory: of member i, the head begins
    at byte `begins[i]`, nothing else lies in the `room[i]` bytes from there, of which `packed[i]` stand for
    `unpacked[i]` bytes with the checksum `checksums[i]`. Group g is members [first[g], first[g + 1]), which have the
    name `keys[g]` up to their suffixes. `problems`: why a group cannot be read. Block b is groups [blocks[b],
    blocks[b + 1])."""

    begins: Any
    room: Any
    packed: Any
    unpacked: Any
    checksums: Any
    is_deflated: Any
    suffixes: list[str]
    keys: list[str]
    first: list[int]
    problems: dict[int, str]
    blocks: list[int]

    def members_of(self, groups: range) -> range:
        """The numbers of their members."""
        return range(self.first[groups.start], self.first[groups.stop])

    def groups_of(self, block: int) -> range:
        """The numbers of its groups."""
        return range(self.blocks[block], self.blocks[block + 1])

    def shown(self, member: int, group: int) -> str:
        """A member in messages."""
        return f"member '{self.keys[group]}.{self.suffixes[member]}'"


class ZipFiles(BlockFiles[Members]):
    """Reads groups of members, as `TarDataset` defines them, whose contents have at most `most` bytes together."""

    def __init__(self, op: str, most: int):
        super().__init__(op)
        self._most = most
        self._suffixes: list[str] = []  # of the first group, which all must have
        self._suffixes_lock = threading.Lock()

    def make_index(self, file: TableFile, stamp: Stamp) -> Members:
        kept = KeptReads(file)
        begin = max(0, stamp.size - _END_GUESS)
        kept.read_at(begin, stamp.size - begin)
        try:
            with zipfile.ZipFile(Seekable(kept)) as archive:
                found, end = archive.filelist, archive.start_dir
        except (zipfile.BadZipFile, NotImplementedError, struct.error) as error:
            raise self.fault(file, f"this is not a zip archive, or it is damaged: {error}.") from None
        return _Grouping(found, end, self._most).members()

    def rows(self, index: Members) -> list[int]:
        return np.diff(index.blocks).tolist()

    def schema_of(self, file: TableFile, index: Members) -> Any:
        with self._suffixes_lock:
            if not self._suffixes:
                if not index.keys:
                    raise self.fault(file, "no member of it has a suffix, but those of the first archive are the type.")
                self._suffixes = sorted(index.suffixes[index.first[0] : index.first[1]])
        return self._schema()

    def _schema(self) -> Any:
        import pyarrow

        contents = [(suffix, pyarrow.large_binary()) for suffix in self._suffixes]
        return pyarrow.schema([(KEY, pyarrow.large_string()), *contents])

    def ranges(self, index: Members, block: int) -> list[tuple[int, int]]:
        return _ranges(index, index.members_of(index.groups_of(block)))

    def read_block(self, file: TableFile, index: Members, block: int) -> Any:
        return self._read(file, index, index.groups_of(block))

    def read_rows(self, file: bytes, block: int, begin: int, end: int) -> Any:
        """Groups [begin, end) of a block: a bad one costs the others nothing."""
        with self.errors(file):
            index, opened = self._current(file)
            return self._read(opened, index, index.groups_of(block)[begin:end])

    def _read(self, file: TableFile, index: Members, groups: range) -> Any:
        import pyarrow

        for group in groups:
            self._check(file, index, group)
        pieces = _Pieces(file, _ranges(index, index.members_of(groups)))
        contents: dict[str, list[bytes | memoryview]] = {suffix: [] for suffix in self._suffixes}
        for group in groups:
            for member in index.members_of(range(group, group + 1)):
                piece = pieces.at(int(index.begins[member]), int(index.room[member]))
                try:
                    contents[index.suffixes[member]].append(_content(index, member, piece))
                except ValueError as error:
                    shown = index.shown(member, group)
                    raise self.fault(file, f"byte {index.begins[member]}: {shown} {error}.") from None
        columns = list(map(_column, contents.values()))
        keys = pyarrow.array(index.keys[groups.start : groups.stop], pyarrow.large_string())
        return pyarrow.Table.from_arrays([keys, *columns], schema=self._schema())

    def _check(self, file: TableFile, index: Members, group: int) -> None:
        if group in index.problems:
            raise self.fault(file, index.problems[group])
        suffixes = {index.suffixes[member] for member in index.members_of(range(group, group + 1))}
        for suffix in sorted(suffixes ^ set(self._suffixes)):
            has = "has a member" if suffix in suffixes else "has no member"
            raise self.fault(
                file,
                f"'{index.keys[group]}' {has} '.{suffix}' in contrast to the first element; all elements must have the "
                "same suffixes.",
            )


@dataclass
class _Grouping:
    """Turns the directory of an archive, which begins at byte `end`, into members by groups."""

    found: list[zipfile.ZipInfo]
    end: int
    most: int
    kept: list[tuple[int, int, int, int, bool]] = field(default_factory=list)
    suffixes: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    problems: dict[int, str] = field(default_factory=dict)

    def members(self) -> Members:
        for info in self.found:
            split = None if info.is_dir() else _split(info.filename)
            if split is not None:
                self._add(info, *split)
        self.first.append(len(self.kept))
        begins, packed, unpacked, checksums, is_deflated = np.array(self.kept, np.int64).reshape(-1, 5).T
        return Members(
            begins,
            self._room(begins, packed),
            packed,
            unpacked,
            checksums,
            is_deflated.astype(bool),
            self.suffixes,
            self.keys,
            self.first,
            self.problems,
            self._blocks(np.maximum(packed, unpacked) + _MEMBER_BYTES),
        )

    def _add(self, info: zipfile.ZipInfo, key: str, suffix: str) -> None:
        if not self.keys or self.keys[-1] != key:
            self.keys.append(key)
            self.first.append(len(self.kept))
        problem = _refusal(info, suffix)
        if suffix in self.suffixes[self.first[-1] :]:
            problem = "occurs twice"
        is_deflated = info.compress_type == zipfile.ZIP_DEFLATED
        numbers = info.header_offset, info.compress_size, info.file_size, info.CRC, is_deflated
        if not self._is_plausible(info):
            problem, numbers = "has impossible sizes", (0, 0, 0, 0, False)
        if problem:
            self.problems.setdefault(len(self.keys) - 1, f"member '{info.filename}' {problem}.")
        self.kept.append(numbers)
        self.suffixes.append(suffix)

    def _is_plausible(self, info: zipfile.ZipInfo) -> bool:
        """Whether the directory says of a member what can be, so that its numbers bound what is read."""
        lies_in_file = 0 <= info.header_offset < self.end and info.compress_size <= self.end
        return lies_in_file and info.file_size <= _MOST_INFLATION * info.compress_size

    def _room(self, begins: Any, packed: Any) -> Any:
        """The bytes from the head of each member up to the next one's, as far as they can be its own."""
        all_begin = {info.header_offset for info in self.found if 0 <= info.header_offset < self.end}
        heads = np.array([*sorted(all_begin), self.end], np.int64)
        after = heads[np.minimum(np.searchsorted(heads, begins, "right"), len(heads) - 1)]
        return np.clip(after - begins, 0, _HEAD.size + _MOST_NAMES + packed)

    def _blocks(self, sizes: Any) -> list[int]:
        """The bounds of blocks of groups. A group that is too large is refused, and so takes no room."""
        ends = np.concatenate([[0], np.cumsum(sizes)])
        blocks, filled = [0], 0
        for group, (begin, end) in enumerate(zip(self.first, self.first[1:], strict=False)):
            size = int(ends[end] - ends[begin])
            content = size - _MEMBER_BYTES * (end - begin)
            if content > self.most:
                self.problems.setdefault(
                    group,
                    f"the members of '{self.keys[group]}' have {content} bytes, more than the {self.most} of "
                    "`max_record_bytes`.",
                )
            if group > blocks[-1] and filled + size > _BLOCK_BYTES:
                blocks.append(group)
                filled = 0
            filled += size
        return [*blocks, len(self.keys)] if self.keys else [0]


class _Pieces:
    """Ranges (offset and size) of a file that were read at once."""

    def __init__(self, file: TableFile, ranges: list[tuple[int, int]]):
        file.will_read(ranges)
        self._ranges = [(begin, file.read_at(begin, size)) for begin, size in ranges]

    def at(self, begin: int, size: int) -> memoryview:
        """These bytes; fewer where the file has no more."""
        for first, data in self._ranges:
            if first <= begin < first + len(data):
                return memoryview(data)[begin - first : begin - first + size]
        return memoryview(b"")


def _column(values: list[bytes | memoryview]) -> Any:
    """These bytes as Arrow has them; of a single member without a copy."""
    import pyarrow

    ends = np.cumsum([0, *map(len, values)], dtype=np.int64)
    data = values[0] if len(values) == 1 else b"".join(values)
    buffers = [None, pyarrow.py_buffer(ends), pyarrow.py_buffer(data)]
    return pyarrow.Array.from_buffers(pyarrow.large_binary(), len(values), buffers)


def _split(name: str) -> tuple[str, str] | None:
    """The name up to the first dot of its last part, and the suffix after it; None for a name without."""
    dot = name.find(".", name.rfind("/") + 1)
    if dot <= name.rfind("/") + 1:
        return None
    return name[:dot], name[dot + 1 :].encode().lower().decode()  # of ASCII alone, as in tar archives


def _refusal(info: zipfile.ZipInfo, suffix: str) -> str:
    """Why a member cannot be read; empty if it can."""
    if info.filename.startswith("/") or "/../" in f"/{info.filename}/" or "\0" in info.orig_filename:
        return "has a name that leads out of the archive"
    if suffix == KEY:
        return "has a suffix that stands for the name"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "is a link"
    if info.flag_bits & _IS_ENCRYPTED:
        return "is encrypted"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return f"is compressed by method {info.compress_type}, but only stored and deflated ones are read"
    return ""


def _ranges(index: Members, members: range) -> list[tuple[int, int]]:
    """Where members lie: offset and size of what is read at once."""
    joined: list[tuple[int, int]] = []
    places = zip(index.begins[members.start : members.stop], index.room[members.start : members.stop], strict=True)
    for begin, size in sorted((int(begin), int(size)) for begin, size in places):
        first, length = joined[-1] if joined else (begin, 0)
        if joined and begin == first + length:
            joined[-1] = first, length + size
        else:
            joined.append((begin, size))
    return joined


def _content(index: Members, member: int, piece: memoryview) -> bytes | memoryview:
    """The bytes of a member, of which `piece` has the head and what follows; ValueError for damage."""
    if len(piece) < _HEAD.size:
        raise ValueError("does not begin here")
    signature, name, extra = _HEAD.unpack_from(piece)
    if signature != _HEAD_SIGNATURE:
        raise ValueError("does not begin here")
    begin, size = _HEAD.size + name + extra, int(index.unpacked[member])
    packed = piece[begin : begin + int(index.packed[member])]
    if len(packed) < index.packed[member]:
        raise ValueError(f"has {index.packed[member]} bytes, which reach into what follows it")
    data = _inflated(packed, size) if index.is_deflated[member] else packed
    if len(data) != size:
        raise ValueError(f"has not the {size} bytes that the directory says")
    if zlib.crc32(data) != index.checksums[member]:
        raise ValueError("has a wrong checksum")
    return data


def _inflated(packed: memoryview, size: int) -> bytes:
    """At most one byte more than `size`."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        data = inflater.decompress(packed, size + 1)
    except zlib.error as error:
        raise ValueError(f"cannot be unpacked: {error}") from None
    if not inflater.eof and len(data) == size:
        data += inflater.decompress(inflater.unconsumed_tail, 1)
    return data
