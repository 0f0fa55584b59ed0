# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Arrow data as datasets: equal values for every type, nulls, stacks, and what is refused."""

import ctypes
import datetime

import pytest
import torch
from arrow_tables import plain
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_distinput as tdi

pa = pytest.importorskip("pyarrow")

NUMBERS = [pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.int64(), pa.float16(), pa.float32(), pa.float64()]
TIMES = [pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us"), pa.timestamp("ms", "UTC"), pa.duration("ns")]
TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()]


def values_of(kind):
    """Values of a type, as pyarrow takes them."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return st.lists(values_of(kind.value_type), max_size=3)
    if pa.types.is_fixed_size_list(kind):
        return st.lists(values_of(kind.value_type), min_size=kind.list_size, max_size=kind.list_size)
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({field.name: values_of(field.type) for field in kind})
    if pa.types.is_dictionary(kind):
        return values_of(kind.value_type)
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_fixed_size_binary(kind):
        return st.binary(min_size=kind.byte_width, max_size=kind.byte_width)
    if kind in TEXTS:
        text = st.text(max_size=20, alphabet="aé€x")
        return text if "string" in str(kind) else text.map(str.encode)
    if pa.types.is_floating(kind):
        return st.integers(-100, 100).map(float)
    return st.integers(0, 100)


SCALARS = [*NUMBERS, *TEXTS, pa.bool_(), pa.binary(3)]
KINDS = st.sampled_from(
    [
        *SCALARS,
        *TIMES,
        pa.list_(pa.int32()),
        pa.large_list(pa.float64()),
        pa.list_(pa.bool_()),
        pa.list_(pa.list_(pa.int16(), 2)),
        pa.list_(pa.float32(), 2),
        pa.list_(pa.string(), 2),
        pa.list_(pa.list_(pa.int64(), 2), 3),
        pa.struct([("a", pa.int64()), ("b", pa.string())]),
        pa.struct([("s", pa.struct([("x", pa.list_(pa.int8()))])), ("y", pa.bool_())]),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.int64()),
    ]
)


@st.composite
def tables(draw, nulls=False):
    """Tables in several chunks, partly slices of larger arrays."""
    schema = pa.schema([(f"c{i}", kind) for i, kind in enumerate(draw(st.lists(KINDS, min_size=1, max_size=4)))])
    batches = []
    for size in draw(st.lists(st.integers(0, 5), max_size=3)):
        columns = []
        for field in schema:
            value = st.none() | values_of(field.type) if nulls else values_of(field.type)
            items = draw(st.lists(value, min_size=size + 2, max_size=size + 2))
            columns.append(pa.array(items, field.type)[1 : size + 1])
        batches.append(pa.record_batch(columns, schema=schema))
    return pa.Table.from_batches(batches, schema)


def expected(value, kind, fill=None):
    """What a row's Arrow value becomes; `fill`: for a null of numbers."""
    if pa.types.is_struct(kind):
        return {field.name: expected(None if value is None else value[field.name], field.type, fill) for field in kind}
    if pa.types.is_dictionary(kind):
        return expected(value, kind.value_type, fill)
    if kind in TEXTS or pa.types.is_fixed_size_binary(kind):
        return ("" if "string" in str(kind) else b"") if value is None else value
    if pa.types.is_fixed_size_list(kind):
        return [expected(item, kind.value_type, fill) for item in value or [None] * kind.list_size]
    if value is None:
        return [] if pa.types.is_list(kind) or pa.types.is_large_list(kind) else fill
    return value


def as_numbers(table):
    """The table with dates and times as integers, whose values Python can compare."""
    for i, field in enumerate(table.schema):
        if field.type in TIMES:
            width = pa.int32() if field.type.bit_width == 32 else pa.int64()
            table = table.set_column(i, field.name, table.column(i).cast(width))
    return table


@settings(max_examples=40)
@given(tables())
def test_rows_are_those_of_the_table(table):
    dataset = tdi.Dataset.from_arrow(table)
    kinds = as_numbers(table).schema
    rows = [
        {name: expected(value, kinds.field(name).type) for name, value in row.items()}
        for row in as_numbers(table).to_pylist()
    ]
    assert [plain(row) for row in dataset] == rows
    assert len(dataset) == len(rows)
    tdi.testing.assert_paths_agree(dataset.shuffle(seed=1))


@settings(max_examples=30)
@given(tables(nulls=True))
def test_masked_nulls_are_zero_and_told_apart(table):
    table = as_numbers(table)
    found = [plain(row) for row in tdi.Dataset.from_arrow(table, nulls="mask")]
    for row, original in zip(found, table.to_pylist(), strict=True):
        check_masked(row, original, table.schema)


def check_masked(row, original, fields):
    for field in fields:
        value = None if original is None else original[field.name]
        if pa.types.is_struct(field.type):
            check_masked(row[field.name], value, field.type)
        else:
            assert row[f"{field.name}_valid"] is (value is not None)
            assert row[field.name] == expected(value, field.type, fill=0)


@pytest.mark.parametrize("kind", [*NUMBERS, pa.bool_(), pa.date32()])
def test_a_number_fills_nulls(kind):
    numbers = pa.array([1, None, 0], pa.int32() if kind == pa.date32() else pa.int8())
    table = pa.table({"x": numbers.cast(kind)})
    found = torch.stack(list(tdi.Dataset.from_arrow(table, nulls={"x": 1}).map(lambda row: row["x"])))
    assert found.tolist() == [1, 1, 0]
    with pytest.raises(tdi.InvalidArgumentError, match=r"from_arrow: column 'x' is null in row 1; give `nulls`"):
        tdi.Dataset.from_arrow(table)


def test_a_fill_must_fit_its_column():
    table = pa.table({"x": pa.array([1, None], pa.int8()), "s": ["a", None]})
    assert tdi.Dataset.from_arrow(table.select(["s"]), nulls="none").take(2).batch(2)  # a str fills strings
    assert [row["s"] for row in tdi.Dataset.from_arrow(table.select(["s"]), nulls="none")] == ["a", "none"]
    for value in (300, 0.5, float("nan")):
        with pytest.raises(ValueError, match="does not fit a column of int8"):
            tdi.Dataset.from_arrow(table.select(["x"]), nulls=value)
    with pytest.raises(tdi.InvalidArgumentError, match="column 's' is null in row 1"):
        tdi.Dataset.from_arrow(table, nulls=0)
    with pytest.raises(ValueError, match="`nulls` names the column 'z', which is not there"):
        tdi.Dataset.from_arrow(table, nulls={"z": 0})
    with pytest.raises(TypeError, match="`nulls` must be"):
        tdi.Dataset.from_arrow(table, nulls=[1])


@pytest.mark.parametrize("values", [pa.array(["x", None, "z"]), pa.array(["x", None, "z"], pa.string_view())])
def test_a_null_in_a_dictionary_is_a_null_of_its_rows(values):
    column = pa.DictionaryArray.from_arrays(pa.array([2, 0, 1, None], pa.int8()), values)
    table = pa.table({"c": column})
    assert [row["c"] for row in tdi.Dataset.from_arrow(table, nulls="-")] == ["z", "x", "-", "-"]
    assert [plain(row) for row in tdi.Dataset.from_arrow(table.slice(1), nulls="mask")] == [
        {"c": "x", "c_valid": True},
        {"c": "", "c_valid": False},
        {"c": "", "c_valid": False},
    ]
    assert [row["c"] for row in tdi.Dataset.from_arrow(table.slice(0, 2))] == ["z", "x"]
    with pytest.raises(tdi.InvalidArgumentError, match="column 'c' is null in row 2"):
        tdi.Dataset.from_arrow(table)
    lists = pa.ListArray.from_arrays([0, 1, 3], pa.DictionaryArray.from_arrays([0, 1, 0], pa.array([5, None])))
    assert [row["l"].tolist() for row in tdi.Dataset.from_arrow(pa.table({"l": lists}), nulls=9)] == [[5], [9, 5]]
    with pytest.raises(tdi.InvalidArgumentError, match="column 'l' has a list with a null in it"):
        tdi.Dataset.from_arrow(pa.table({"l": lists}))


def test_paths_of_columns_begin_at_columns_whatever_the_producer_calls_its_table():
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.sql("select * from (values (1, 'a'), (null, 'b')) t(i, s)")
    assert [plain(row) for row in tdi.Dataset.from_arrow(relation, nulls={"i": 7})] == [
        {"i": 1, "s": "a"},
        {"i": 7, "s": "b"},
    ]
    with pytest.raises(tdi.InvalidArgumentError, match="from_arrow: column 'i' is null in row 1"):
        tdi.Dataset.from_arrow(relation)


def test_leaves_of_one_name_are_refused():
    with pytest.raises(ValueError, match="from_arrow: column 'a' occurs twice"):
        tdi.Dataset.from_arrow(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]))
    with pytest.raises(ValueError, match="the mask of column 'a' would have the name of the column 'a_valid'"):
        tdi.Dataset.from_arrow(pa.table({"a": [1, None], "a_valid": [1, 2]}), nulls="mask")


def test_items_of_lists_are_filled_but_not_masked():
    table = pa.table({"l": pa.array([[1, None], None, []], pa.list_(pa.int16()))})
    assert [row["l"].tolist() for row in tdi.Dataset.from_arrow(table, nulls=7)] == [[1, 7], [], []]
    for rule in ("error", "mask"):
        with pytest.raises(tdi.InvalidArgumentError, match="column 'l' has a list with a null in it"):
            tdi.Dataset.from_arrow(table, nulls=rule)


def test_columns_are_stacked_into_one_leaf():
    table = pa.table({"a": [1.0, 2.0], "v": pa.array([[3, 4], [5, 6]], pa.list_(pa.int32(), 2)), "y": [7, 8]})
    dataset = tdi.Dataset.from_arrow(table, stack={"x": ["v", "a"]})
    assert dataset.element_spec == {"y": tdi.TensorSpec([], torch.int64), "x": tdi.TensorSpec([3], torch.float64)}
    batch = next(iter(dataset.batch(2)))
    assert batch["x"].tolist() == [[3, 4, 1], [5, 6, 2]] and batch["y"].tolist() == [7, 8]
    assert [row["x"].tolist() for row in dataset] == [[3, 4, 1], [5, 6, 2]]
    for stack, message in {"z": "which is not there", "a": "twice"}.items():
        with pytest.raises(ValueError, match=message):
            tdi.Dataset.from_arrow(table, stack={"x": ["a", stack]})
    with pytest.raises(ValueError, match="'y' has the name of another leaf"):
        tdi.Dataset.from_arrow(table, stack={"y": ["a"]})


def test_a_mask_stays_beside_a_stack():
    table = pa.table({"a": [1, None], "b": [2, 3]})
    dataset = tdi.Dataset.from_arrow(table, nulls={"a": "mask"}, stack={"x": ["a", "b"]})
    assert [plain(row) for row in dataset] == [{"a_valid": True, "x": [1, 2]}, {"a_valid": False, "x": [0, 3]}]


@pytest.mark.parametrize(
    ("column", "what"),
    [
        (pa.array([1], pa.decimal128(5)), "a decimal"),
        (pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]), "a union"),
        (pa.array([[(1, 2)]], pa.map_(pa.int8(), pa.int8())), "a map"),
        (pa.nulls(1), "null in all rows"),
        (pa.DictionaryArray.from_arrays([0], pa.array([[1, 2]])), "a dictionary of nested values"),
        (pa.DictionaryArray.from_arrays([0], pa.array([{"x": 1}])), "a dictionary of nested values"),
        (
            pa.DictionaryArray.from_arrays([0], pa.array([[1, 2]], pa.list_(pa.int8(), 2))),
            "a dictionary of nested values",
        ),
        (pa.array([["a"]]), "lists of varying length of strings"),
        (pa.array([[[1]]]), "lists that vary in length"),
        (pa.array([[{"a": 1}]]), "structs"),
    ],
)
def test_what_no_leaf_can_hold_is_refused_by_name(column, what):
    with pytest.raises(TypeError, match=rf"from_arrow: column 's\.bad' .*{what}"):
        tdi.Dataset.from_arrow(pa.table({"s": pa.StructArray.from_arrays([column], names=["bad"])}))


def test_frames_of_other_packages():
    days = [datetime.date(2020, 1, day) for day in (1, 2)]
    rows = {"i": [1, 2], "s": ["a", "a long string of many bytes"], "d": days}
    want = [{"i": 1, "s": "a", "d": 18262}, {"i": 2, "s": "a long string of many bytes", "d": 18263}]
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(rows)
    assert [plain(row) for row in tdi.Dataset.from_arrow(frame)] == want
    category = polars.DataFrame({"c": polars.Series(["x", "y", "x"], dtype=polars.Categorical)})
    assert [row["c"] for row in tdi.Dataset.from_arrow(category)] == ["x", "y", "x"]
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.sql("select i, s, d from frame")
    assert [plain(row) for row in tdi.Dataset.from_arrow(relation)] == want
    pandas = pytest.importorskip("pandas")
    assert [plain(row) for row in tdi.Dataset.from_arrow(pandas.DataFrame(rows))] == want
    assert [int(number) for number in tdi.Dataset.from_arrow(pa.array([5, 6]))] == [5, 6]


def damaged(array, change):
    """`array` as a foreign producer would hand it out that got something wrong."""

    class Producer:
        def __len__(self):
            return 1

        def __arrow_c_stream__(self, requested_schema=None):
            return pa.chunked_array([array]).__arrow_c_stream__()

    change(array)
    return Producer()


def overwrite(buffer, offset, number):
    ctypes.c_int32.from_address(buffer.address + 4 * offset).value = number


@pytest.mark.parametrize(
    ("array", "change", "message"),
    [
        (pa.array(["ab", "c", "d"]), lambda a: overwrite(a.buffers()[1], 2, 1), "offsets out of order in row 1"),
        (pa.array(["ab", "c"]), lambda a: overwrite(a.buffers()[1], 0, -1), "offsets out of order in row 0"),
        (pa.array([[1], [2]], pa.list_(pa.int8())), lambda a: overwrite(a.buffers()[1], 2, 9), "end at item 9 of 2"),
        (
            pa.array(["x", "y"]).dictionary_encode(),
            lambda a: overwrite(a.indices.buffers()[1], 1, 7),
            "index out of range of its dictionary of 2 in row 1",
        ),
        (
            pa.array(["a long string of many bytes"], pa.string_view()),
            lambda a: overwrite(a.buffers()[1], 3, 10**6),
            "a string out of range in row 0",
        ),
    ],
)
def test_arrays_that_contradict_themselves_are_refused(array, change, message):
    with pytest.raises(tdi.InvalidArgumentError, match=message):
        tdi.Dataset.from_arrow(damaged(array, change))


def test_what_has_no_arrow_data_is_refused():
    with pytest.raises(TypeError, match="from_arrow: the data must have `__arrow_c_stream__`"):
        tdi.Dataset.from_arrow([1, 2])
