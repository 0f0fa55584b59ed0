# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""An object as pyarrow reads it: what it asks for is what lies there, and what was read is not read again."""

import io

from hypothesis import given
from hypothesis import strategies as st

from torch_distinput.tables._table_file import Seekable

SIZE = 64
BYTES = bytes(range(SIZE))


class Object:
    """64 bytes; `reads` are the offsets that were asked for."""

    def __init__(self):
        self.reads = []

    def size(self):
        return SIZE

    def read_at(self, offset, size):
        self.reads += range(offset, offset + size)
        return BYTES[offset : offset + size]


def parts():
    """Ranges without common bytes, by offset."""

    def cut(places):
        places = sorted(places)
        return {begin: BYTES[begin:end] for begin, end in zip(places[::2], places[1::2])}

    return st.sets(st.integers(0, SIZE), max_size=8).map(cut)


@given(parts(), st.lists(st.tuples(st.integers(0, SIZE + 2), st.integers(-1, SIZE)), max_size=12))
def test_reads_are_those_of_a_file(given, reads):
    held = {offset for begin, part in given.items() for offset in range(begin, begin + len(part))}
    under, model = Object(), io.BytesIO(BYTES)
    file = Seekable(under, dict(given))
    ended = set()  # the parts whose ends were read, which are held no longer
    for place, size in reads:
        under.reads.clear()
        assert (file.seek(place), file.read(size)) == (model.seek(place), model.read(size))
        assert file.tell() == model.tell()
        wanted = range(place, model.tell())
        assert under.reads == [offset for offset in wanted if offset not in held - ended]
        for begin, part in given.items():
            if begin + len(part) - 1 in wanted:
                ended |= set(range(begin, begin + len(part)))
