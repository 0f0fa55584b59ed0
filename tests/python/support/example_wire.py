# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A writer of tf.train.Example messages for tests, independent of the library and of protobuf."""

import struct
from collections.abc import Mapping
from typing import Any


def varint(number: int) -> bytes:
    number &= 2**64 - 1
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, body: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(body)) + body


def feature(values: list, packed: bool = True) -> bytes:
    """A Feature: a list of bytes, of floats or of ints; nothing for an empty list."""
    if not values:
        return b""
    if isinstance(values[0], bytes):
        return field(1, b"".join(field(1, value) for value in values))
    if isinstance(values[0], float):
        numbers = [struct.pack("<f", value) for value in values]
        return field(2, field(1, b"".join(numbers)) if packed else b"".join(b"\x0d" + n for n in numbers))
    numbers = [varint(value) for value in values]
    return field(3, field(1, b"".join(numbers)) if packed else b"".join(b"\x08" + n for n in numbers))


def features(values: Mapping[str, Any], packed: bool = True) -> bytes:
    return b"".join(
        field(1, field(1, key.encode()) + field(2, feature(list_, packed))) for key, list_ in values.items()
    )


def example(values: Mapping[str, list], packed: bool = True) -> bytes:
    return field(1, features(values, packed))


def sequence_example(context: Mapping[str, list], sequences: Mapping[str, list[list]]) -> bytes:
    lists = (
        field(1, field(1, key.encode()) + field(2, b"".join(field(1, feature(step)) for step in steps)))
        for key, steps in sequences.items()
    )
    return field(1, features(context)) + field(2, b"".join(lists))


def tensor(number: int, shape: tuple[int, ...], content: bytes = b"", values: bytes = b"") -> bytes:
    """A TensorProto of the dtype with this number; `values` are further fields."""
    dims = b"".join(field(2, b"\x08" + varint(size)) for size in shape)
    return b"\x08" + varint(number) + field(2, dims) + (field(4, content) if content else b"") + values
