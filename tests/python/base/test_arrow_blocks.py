# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Arrow's tables and record batches in batches that processes share: not copied, and not believed."""

import gc
import mmap
import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_distinput as tdi
from torch_distinput.base._batch_format import pack, unpack
from torch_distinput.base._sealed_memory import read_sealed, write_sealed
from torch_distinput.base._slab_memory import ReadSlab, WrittenSlab

pa = pytest.importorskip("pyarrow")


SCHEMA = pa.schema([("text", pa.string()), ("number", pa.int64()), ("list", pa.list_(pa.int32()))])


def batches():
    numbers = st.none() | st.integers(-(2**63), 2**63 - 1)
    row = st.tuples(st.none() | st.text(max_size=5), numbers, st.none() | st.lists(st.integers(0, 9), max_size=3))
    rows = st.lists(row.map(lambda values: dict(zip(SCHEMA.names, values, strict=True))), max_size=5)
    return rows.map(lambda found: pa.RecordBatch.from_pylist(found, SCHEMA))


def tables():
    cuts = st.builds(lambda batch, *cut: batch.slice(*cut), batches(), st.integers(0, 3), st.integers(0, 3))
    return cuts | st.lists(cuts, max_size=3).map(lambda found: pa.Table.from_batches(found, SCHEMA))


def addresses(table):
    arrays = [chunk for column in table.columns for chunk in getattr(column, "chunks", [column])]
    return [buffer.address for array in arrays for buffer in array.buffers() if buffer is not None and buffer.size]


def mappings(name):
    with open("/proc/self/maps") as maps:
        found = [line.split()[0].split("-") for line in maps if name in line]
    return [range(int(begin, 16), int(end, 16)) for begin, end in found]


@settings(max_examples=100, deadline=None)
@given(tables())
def test_what_arrives_is_what_was_written_and_lies_in_the_memory(table):
    found = read_sealed(write_sealed({"rows": table, "x": torch.ones(2)}))["rows"]
    assert type(found) is type(table) and found.schema.equals(table.schema) and found.equals(table)
    memory = mappings("torch_distinput_batch")
    assert all(any(address in each for each in memory) for address in addresses(found))


def test_a_table_holds_its_memory():
    gc.collect()
    before = len(mappings("torch_distinput_batch"))
    column = read_sealed(write_sealed([pa.table({"name": ["a", "bc"]}), torch.ones(2)]))[0].column("name")
    gc.collect()
    assert len(mappings("torch_distinput_batch")) == before + 1
    assert column.to_pylist() == ["a", "bc"]
    del column
    assert len(mappings("torch_distinput_batch")) == before


def test_a_table_is_copied_out_of_a_slab():
    packed, slab = pack(pa.table({"name": ["a", "bc"]})), WrittenSlab(1)
    slab.write(packed)
    memory = ReadSlab(slab.descriptor).lent(lambda: None)
    found = unpack(packed.text, memory.numpy(), packed.whole_size - packed.size, memory)
    slab.write(pack(pa.table({"name": ["x", "yz"]})))
    assert found.column("name").to_pylist() == ["a", "bc"]


@settings(max_examples=200, deadline=None)
@given(st.data(), tables())
def test_damaged_bytes_are_an_error_or_another_table(data, table):
    packed, memory = pack(table), mmap.mmap(-1, 1 << 16)
    for place, block in packed.blocks:
        memory[place : place + len(block)] = block
    for _ in range(data.draw(st.integers(1, 4))):
        memory[data.draw(st.integers(0, packed.size - 1))] = data.draw(st.integers(0, 255))
    try:
        unpack(packed.text, memory, 0).to_pydict()
    except tdi.DistributedDatasetError as error:
        assert "breaks its format" in str(error)
    except (OverflowError, UnicodeDecodeError):  # names of columns
        pass


def test_texts_beyond_their_memory_are_refused():
    packed, memory = pack(pa.table({"name": ["a", "bc"]})), mmap.mmap(-1, 1 << 16)
    ends = struct.pack("<3i", 0, 1, 3)
    ((place, block),) = packed.blocks
    assert bytes(block).count(ends) == 1
    memory[place : place + len(block)] = bytes(block).replace(ends, struct.pack("<3i", 0, 1 << 20, 3))
    with pytest.raises(tdi.DistributedDatasetError, match="breaks its format"):
        unpack(packed.text, memory, 0)


@pytest.mark.parametrize("kind", ["Array", "Schema", "", None, 3])
def test_another_class_of_arrow_is_refused(kind):
    with pytest.raises(tdi.DistributedDatasetError, match="must be one of Table, RecordBatch"):
        unpack(pack(pa.table({"x": [1]})).text.replace(b'"Table"', repr_of(kind)), mmap.mmap(-1, 4096), 0)


def repr_of(kind):
    return b"null" if kind is None else (b'"%s"' % kind.encode() if isinstance(kind, str) else b"%d" % kind)
