# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Arrow data that reaches beyond its memory, which pyarrow reads from a stream without a look, is refused."""

import numpy as np
import pytest

import torch_distinput as tdi

pa = pytest.importorskip("pyarrow")


ROWS = 20


def tampered(array, old, new):
    """A table of one column as pyarrow reads it from a stream in which the bytes `old` are `new`."""
    sink = pa.BufferOutputStream()
    table = pa.table({"c": array})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    whole = sink.getvalue().to_pybytes()
    assert whole.count(old) == 1 and len(old) == len(new)
    return pa.ipc.open_stream(whole.replace(old, new)).read_all()


def offsets_of(step, kind, change):
    """The bytes of offsets `step` apart, and the same with some changed."""
    offsets = np.arange(0, step * (ROWS + 1), step, dtype=kind)
    other = offsets.copy()
    for row, offset in change.items():
        other[row] = offset
    return offsets.tobytes(), other.tobytes()


FAR = 3_748_216
DAMAGED = {
    "the last text": lambda: tampered(pa.array(["x"] * ROWS), *offsets_of(1, np.int32, {-1: FAR})),
    "all texts": lambda: tampered(
        pa.array(["x"] * ROWS), *offsets_of(1, np.int32, dict.fromkeys(range(ROWS + 1), FAR))
    ),
    "a text in the middle": lambda: tampered(pa.array(["x"] * ROWS), *offsets_of(1, np.int32, {7: FAR})),
    "a negative offset": lambda: tampered(pa.array(["x"] * ROWS), *offsets_of(1, np.int32, {0: -FAR})),
    "a large text": lambda: tampered(
        pa.array(["x"] * ROWS, pa.large_string()), *offsets_of(1, np.int64, {-1: FAR << 20})
    ),
    "a binary": lambda: tampered(pa.array([b"x"] * ROWS), *offsets_of(1, np.int32, {-1: FAR})),
    "a list": lambda: tampered(pa.array([[1.0, 2.0]] * ROWS), *offsets_of(2, np.int32, {-1: FAR})),
    "a list in the middle": lambda: tampered(pa.array([[1.0, 2.0]] * ROWS), *offsets_of(2, np.int32, {7: FAR})),
    "a field": lambda: tampered(pa.array([{"a": "x"}] * ROWS), *offsets_of(1, np.int32, {-1: FAR})),
    "an index": lambda: pa.table(
        {"c": pa.DictionaryArray.from_arrays(pa.array([0, FAR] * 10), pa.array(["a", "b"]), safe=False)}
    ),
    "a view": lambda: tampered(
        pa.array(["a text of more than twelve bytes"] * ROWS, pa.string_view()),
        *(b"\x20\0\0\0a te\0\0\0\0" + np.int32(offset).tobytes() for offset in (3 * 32, FAR)),
    ),
}


def as_table(table):
    return table


def as_batch(table):
    return table.to_batches()[0]


def as_reader(table):
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches())


def as_dataset(table):
    return pytest.importorskip("pyarrow.dataset").dataset(table)


def as_scanner(table):
    return as_dataset(table).scanner()


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize(
    "form", [as_table, as_batch, as_reader, as_dataset, as_scanner], ids=lambda form: form.__name__
)
def test_data_that_reaches_beyond_its_memory_is_refused(name, form):
    with pytest.raises(ValueError, match="from_arrow: "):
        list(tdi.Dataset.from_arrow(form(DAMAGED[name]()), nulls="mask"))


def test_damage_of_one_batch_of_a_stream_spares_those_before():
    good, bad = as_batch(pa.table({"c": ["x"] * ROWS})), as_batch(DAMAGED["the last text"]())
    rows = iter(tdi.Dataset.from_arrow(pa.RecordBatchReader.from_batches(good.schema, [good, bad])))
    assert [next(rows)["c"] for _ in range(ROWS)] == ["x"] * ROWS
    with pytest.raises(ValueError, match="from_arrow: .*the data is damaged"):
        next(rows)


def test_a_damaged_column_of_tokens_is_refused():
    column = pa.array([[1, 2]] * ROWS)
    for change in ({-1: FAR}, {7: FAR}):
        with pytest.raises(ValueError, match="the data is damaged"):
            tdi.TokenDataset.from_tokens(tampered(column, *offsets_of(2, np.int32, change)).column("c"), 4)
