# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Small files that would unpack to much: chunks of a PNG beside the pixels, scans of a JPEG."""

import struct
import zlib

import pytest
import torch
from decoders import encoded, needs_decoders
from processes import peak_rise

import torch_distinput as tdi

Image = pytest.importorskip("PIL.Image")
pytestmark = needs_decoders

PACKED = zlib.compress(b"A" * 6_000_000, 9)
CHUNKS = {
    "zTXt": b"k\0\0" + PACKED,
    "iTXt": b"k\0\1\0\0\0" + PACKED,
    "tEXt": b"k\0" + b"A" * 6000,
    "iCCP": b"p\0\0" + PACKED,
    "eXIf": b"MM\0*" + b"\0" * 6000,
    "sPLT": b"p\0\x08" + b"\1\2\3\4\5\6" * 1000,
    "abCd": b"\0" * 6000,  # a chunk that no program knows
}


def chunk(kind: str, data: bytes) -> bytes:
    body = kind.encode() + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))


def png(*before: bytes) -> bytes:
    head = chunk("IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    pixels = chunk("IDAT", zlib.compress(b"\0abc"))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(before) + pixels + chunk("IEND", b"")


def decoded(data: bytes) -> torch.Tensor:
    (image,) = tdi.Dataset.from_tensor_slices([data]).decode_image()
    return image


@pytest.mark.parametrize("kind", CHUNKS)
def test_chunks_that_pixels_do_not_need_are_not_unpacked(kind):
    data = png(*[chunk(kind, CHUNKS[kind])] * 20)

    def decode():
        assert decoded(data).flatten().tolist() == [97, 98, 99]

    decode()  # loads what is loaded once
    assert peak_rise(decode) < 4 << 20


def jpeg_of_scans(scans: int) -> bytes:
    """A progressive JPEG whose last scan is repeated."""
    data = encoded(Image.new("RGB", (16, 16), (10, 200, 30)), "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    ready = data[:last].count(b"\xff\xda")
    return data[:last] + data[last:-2] * (scans - ready) + b"\xff\xd9"


def test_a_jpeg_of_many_scans_is_refused_and_one_of_an_honest_number_is_not():
    assert decoded(jpeg_of_scans(100)).shape == (3, 16, 16)
    with pytest.raises(tdi.InvalidArgumentError, match="row 0.*JPEG: it has more than 100 scans"):
        decoded(jpeg_of_scans(101))
