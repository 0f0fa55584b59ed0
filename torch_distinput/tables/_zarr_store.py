# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Objects below a URL as a store of zarr, which this module imports: read with this library's retries and cache."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype

from torch_distinput import _C


class ObjectStore(Store):
    """Cannot be listed or written to: groups need consolidated metadata. Errors are those of `_C.InputFile`."""

    supports_writes = False
    supports_deletes = False
    supports_listing = False

    def __init__(self, op: str, root: str):
        super().__init__(read_only=True)
        self._op, self._root = op, root.rstrip("/")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectStore) and other._root == self._root

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """The object of `key`, or bytes of it; None where there is none."""
        data = await asyncio.to_thread(self._read, key, byte_range)
        return None if data is None else prototype.buffer.from_bytes(data)

    def _read(self, key: str, wanted: ByteRequest | None) -> bytes | None:
        try:
            file = _C.InputFile(f"{self._root}/{key}", self._op)
            begin, end = _bounds(wanted, file.size())
            return file.read_at(begin, end - begin)
        except _C.NotFoundError:
            return None

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        return list(await asyncio.gather(*[self.get(key, prototype, wanted) for key, wanted in key_ranges]))

    async def exists(self, key: str) -> bool:
        return await asyncio.to_thread(self._read, key, RangeByteRequest(0, 0)) is not None

    async def set(self, key: str, value: Buffer) -> None:
        raise NotImplementedError

    async def delete(self, key: str) -> None:
        raise NotImplementedError

    def list(self) -> AsyncIterator[str]:
        raise NotImplementedError

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        raise NotImplementedError

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        raise NotImplementedError


def _bounds(wanted: ByteRequest | None, size: int) -> tuple[int, int]:
    if isinstance(wanted, RangeByteRequest):
        return min(wanted.start, size), min(wanted.end, size)
    if isinstance(wanted, OffsetByteRequest):
        return min(wanted.offset, size), size
    if isinstance(wanted, SuffixByteRequest):
        return max(0, size - wanted.suffix), size
    return 0, size
