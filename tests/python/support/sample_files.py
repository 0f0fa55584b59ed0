# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Files of records for tests, written without this library."""

import atexit
import contextlib
import functools
import hashlib
import io
import json
import os
import shutil
import struct
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path

FIXED_BYTES = 4


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE = _crc_table()


def masked_crc(data: bytes) -> int:
    """CRC32C as TFRecord files store it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def tf_record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc(length)) + data + struct.pack("<I", masked_crc(data))


def tf_records(records: Iterable[bytes]) -> bytes:
    return b"".join(map(tf_record, records))


def number_files(files: list[list[int]], fmt: str) -> list[str]:
    """Paths of files that hold these numbers as text, a record each; made once for the whole test run.

    Processes with the same SAMPLE_FILES in their environment share the files in that folder.
    """
    return list(_number_files(json.dumps(files), fmt))


@functools.cache
def _number_files(files: str, fmt: str) -> tuple[str, ...]:
    folder = _folder(files + fmt)
    paths = []
    for number, rows in enumerate(json.loads(files)):
        path = folder / f"{number:05}"
        texts = [str(row).encode() for row in rows]
        if fmt == "tfrecord":
            content = tf_records(texts)
        elif fmt == "fixed":
            content = b"".join(text.rjust(FIXED_BYTES) for text in texts)
        else:
            content = b"".join(text + b"\n" for text in texts)
        _write_once(path, content)
        paths.append(str(path))
    return tuple(paths)


def _folder(name: str) -> Path:
    if shared := os.environ.get("SAMPLE_FILES"):
        folder = Path(shared) / hashlib.sha1(name.encode()).hexdigest()
        folder.mkdir(exist_ok=True)
        return folder
    folder = Path(tempfile.mkdtemp(prefix="tdi-files-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _write_once(path: Path, content: bytes) -> None:
    """Writes a file under another name and renames it, so that no reader sees a part of it or a change."""
    part = path.parent.with_name(f"{path.parent.name}-{os.getpid()}")
    part.write_bytes(content)
    with contextlib.suppress(FileExistsError):
        os.link(part, path)
    part.unlink()


def write_tar(path, members, form=tarfile.PAX_FORMAT, mode="w"):
    """An archive of (name or TarInfo, contents)."""
    with tarfile.open(path, mode, format=form) as archive:
        for name, data in members:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path
