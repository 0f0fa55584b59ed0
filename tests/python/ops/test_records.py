# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Records become tensors: decode_raw, to_number, parse_example, and the writer of TFRecord files."""

import gzip
import struct
import zlib

import example_wire
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pipelines import check_laws
from sample_files import tf_records

import torch_distinput as tdi
from torch_distinput.ops._records import Feature


def strings(records):
    return tdi.Dataset.from_tensor_slices(records)


@pytest.fixture
def numbers(tmp_path):
    """20 records of 6 bytes, and the file that holds them."""
    path = tmp_path / "numbers.tfrecord"
    records = [struct.pack("<3h", i, -i, i * i) for i in range(20)]
    path.write_bytes(tf_records(records))
    return path, torch.tensor([[i, -i, i * i] for i in range(20)], dtype=torch.int16)


@pytest.mark.parametrize("decode_first", [True, False])
def test_records_of_files_become_rows_of_numbers(numbers, decode_first):
    path, rows = numbers
    files = tdi.TFRecordDataset(path)
    if decode_first:
        dataset = files.decode_raw(torch.int16, (3,)).batch(8)
    else:
        dataset = files.batch(8).decode_raw(torch.int16, (3,))
    assert dataset.element_spec == tdi.TensorSpec([None, 3], torch.int16)
    assert torch.equal(torch.cat(list(dataset)), rows)
    check_laws(dataset)
    check_laws(files.shuffle(seed=3).decode_raw(torch.int16, (3,)).batch(4))
    parts = tdi.MirroredStrategy(["cpu", "cpu"]).distribute_dataset(dataset)
    assert torch.equal(torch.cat([part for step in parts for part in step.values]).sort(0)[0], rows.sort(0)[0])


def test_a_batch_of_records_is_read_into_its_memory_without_a_copy(numbers):
    path, rows = numbers
    batch = next(iter(tdi.TFRecordDataset(path).decode_raw(torch.uint8, (6,)).batch(20)))
    assert batch.untyped_storage().nbytes() == batch.nbytes == 120
    batch.zero_()
    again = next(iter(tdi.TFRecordDataset(path).decode_raw(torch.int16, (3,)).batch(20)))
    assert torch.equal(again, rows)


@pytest.mark.parametrize("keep", [lambda ds: ds, lambda ds: ds.cache(), lambda ds: ds.batch(2)])
def test_what_others_hold_is_copied(keep):
    dataset = keep(strings([b"ab", b"cd"])).decode_raw(torch.uint8, (2,))
    for _ in range(2):
        found = list(dataset)
        assert torch.cat([rows.reshape(-1) for rows in found]).tolist() == [97, 98, 99, 100]
        for rows in found:
            rows.zero_()


def test_shapes_and_dtypes_of_decoded_bytes():
    (row,) = strings([b"\x00\x01\x02\x00"]).decode_raw(torch.bool, (2, 2))
    assert row.tolist() == [[False, True], [True, False]]
    (row,) = strings([struct.pack("<d", 2.5)]).decode_raw(torch.float64)
    assert row.shape == () and row.item() == 2.5
    (row,) = strings([bytes(range(6))]).decode_raw(torch.uint8, (None, 2))
    assert row.tolist() == [[0, 1], [2, 3], [4, 5]]
    (batch,) = strings([b"ab", b"cd"]).batch(2).decode_raw(torch.uint8, (None,))
    assert batch.tolist() == [[97, 98], [99, 100]]
    assert strings([b""]).decode_raw(torch.uint8, (None,)).element_spec == tdi.TensorSpec([None], torch.uint8)
    assert [row.shape for row in strings([b""]).decode_raw(torch.int32, (None,))] == [(0,)]


def test_records_of_another_length_are_named():
    short = strings([b"ab", b"c"])
    with pytest.raises(tdi.InvalidArgumentError, match=r"decode_raw: element 1 has 1 bytes, but torch.uint8 of shape"):
        list(short.decode_raw(torch.uint8, (2,)))
    with pytest.raises(tdi.InvalidArgumentError, match="row 1 of element 0 has 1 bytes, but row 0"):
        list(short.batch(2).decode_raw(torch.uint8, (None,)))
    with pytest.raises(
        tdi.InvalidArgumentError, match="2 bytes, which is not a multiple of the 4 bytes of torch.int32"
    ):
        list(short.decode_raw(torch.int32, (None,)))
    skipping = short.decode_raw(torch.uint8, (2,)).with_options(tdi.Options(on_error="skip"))
    iterator = iter(skipping)
    assert len(list(iterator)) == 1 and iterator.stats()["skipped"] == 1


def test_the_leaf_is_named_by_key():
    rows = strings({"a": [b"xy"], "b": [b"z!"], "n": torch.tensor([5])})
    (row,) = rows.decode_raw(torch.uint8, (2,), key="b")
    assert list(row) == ["a", "b", "n"] and row["a"] == b"xy" and row["b"].tolist() == [122, 33]
    (pair,) = strings((["7"], ["8"])).to_number(torch.int32, key=1)
    assert pair[0] == "7" and pair[1].item() == 8
    with pytest.raises(ValueError, match=r"leaf \['a'\] and leaf \['b'\] are strings; say with `key`"):
        rows.decode_raw(torch.uint8)
    with pytest.raises(ValueError, match="`key` must name a part of the element, but is 'c'"):
        rows.decode_raw(torch.uint8, key="c")
    with pytest.raises(TypeError, match=r"leaf \['n'\] must be strings"):
        rows.to_number(key="n")
    with pytest.raises(TypeError, match="no leaf of"):
        tdi.Dataset.range(3).to_number()
    with pytest.raises(ValueError, match="`dtype` must be float32"):
        rows.to_number(torch.int8, key="a")
    with pytest.raises(ValueError, match="`shape` must be sizes"):
        rows.decode_raw(torch.uint8, (2, None), key="a")


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5), st.sampled_from(["{}", " {}\n", "{:+}"]))
@settings(max_examples=25)
def test_integers_in_strings(values, form):
    texts = [form.format(value) for value in values]
    assert list(strings(texts).batch(9).to_number(torch.int64))[0].tolist() == values


@given(st.lists(st.floats(), min_size=1, max_size=5))
@settings(max_examples=25)
def test_floats_in_strings(values):
    (found,) = strings([repr(value) for value in values]).batch(9).to_number(torch.float64)
    np.testing.assert_array_equal(found.numpy(), values)


def test_what_is_no_number_is_named():
    for text in ["", "1x", "+-1", "1 2", "0x10"]:
        with pytest.raises(tdi.InvalidArgumentError, match="to_number: element 0 must be a number of type torch.int64"):
            list(strings([text]).to_number(torch.int64))
    with pytest.raises(tdi.InvalidArgumentError, match='"3000000000"'):
        list(strings(["3000000000"]).to_number(torch.int32))
    assert list(strings(["1e999"]).to_number()) == [float("inf")]


# The model of parse_example: a dict of lists for each record.

KINDS = {
    "i": st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4),
    "f": st.lists(st.floats(width=32, allow_nan=False), max_size=4),
    "b": st.lists(st.binary(max_size=5), max_size=4),
}
RECORDS = st.lists(st.fixed_dictionaries({}, optional=KINDS), min_size=1, max_size=5)
TYPES = {"i": torch.int64, "f": torch.float32, "b": bytes}


@given(RECORDS, st.booleans())
@settings(max_examples=40)
def test_values_of_any_number_agree_with_the_model(records, packed):
    dataset = strings([example_wire.example(record, packed) for record in records])
    ragged: dict[str, Feature] = {key: tdi.RaggedFeature(dtype) for key, dtype in TYPES.items()}
    for element, record in zip(dataset.parse_example(ragged), records):
        assert {key: list(element[key]) for key in "ifb"} == {key: record.get(key, []) for key in "ifb"}
    sparse = dataset.parse_example({key: tdi.VarLenFeature(TYPES[key]) for key in "if"})
    for element, record in zip(sparse, records):
        assert {key: element[key].to_dense().tolist() for key in "if"} == {key: record.get(key, []) for key in "if"}
    del ragged["b"]
    (rows,) = dataset.batch(9).parse_example(ragged)
    assert [row.tolist() for row in rows["i"].unbind()] == [record.get("i", []) for record in records]
    (rows,) = dataset.batch(9).parse_example({"i": tdi.VarLenFeature(torch.int64)})
    most = max(len(record.get("i", [])) for record in records)
    assert rows["i"].shape == (len(records), most) and rows["i"].is_coalesced()
    values = [[row, column] for row, record in enumerate(records) for column in range(len(record.get("i", [])))]
    assert rows["i"].indices().t().tolist() == values
    assert rows["i"].values().tolist() == [value for record in records for value in record.get("i", [])]


@given(RECORDS)
@settings(max_examples=40)
def test_fixed_values_agree_with_the_model(records):
    dataset = strings([example_wire.example(record) for record in records])
    defaults = {"i": [7, 8], "f": [0.5, 1.5], "b": [b"x", b"y"]}
    features = {key: tdi.FixedLenFeature([2], TYPES[key], defaults[key]) for key in "ifb"}
    wanted = [{key: record.get(key) or defaults[key] for key in "ifb"} for record in records]
    batched = dataset.parse_example(features).batch(9)
    parsed = dataset.batch(9).parse_example(features)
    if all(len(values) == 2 for record in wanted for values in record.values()):
        for rows in (*batched, *parsed):
            assert [{key: list(rows[key][i]) for key in "ifb"} for i in range(len(records))] == wanted
    else:
        for dataset in (batched, parsed):
            with pytest.raises(tdi.InvalidArgumentError, match=r"must have 2 values \(shape=\(2,\)\), but has"):
                list(dataset)


@pytest.fixture
def examples(tmp_path):
    """A file of 30 examples with two features that each record has, and one of 0 to 2 values."""
    path = tmp_path / "examples.tfrecord"
    with tdi.TFRecordWriter(path) as writer:
        for i in range(30):
            writer.write_example({"x": [i, i + 0.5], "name": f"row {i}", "tags": list(range(i % 3))})
    return path


def test_examples_of_files_obey_the_laws(examples):
    files = tdi.TFRecordDataset(examples)
    dense = {"x": tdi.FixedLenFeature([2], torch.float32), "name": tdi.FixedLenFeature([], str)}
    ragged = dense | {"tags": tdi.RaggedFeature(torch.int64)}
    sparse = {"tags": tdi.VarLenFeature(torch.int64), "x": tdi.FixedLenFeature([2, 1], torch.float32)}
    check_laws(files.shuffle(seed=1).parse_example(dense).batch(7))
    for dataset in (files.batch(7).parse_example(ragged), files.batch(7).parse_example(sparse)):
        check_laws(dataset)
        spec = dataset.element_spec
        for rows in dataset:
            assert list(rows) == list(spec)
    found = list(files.parse_example(ragged).ragged_batch(30))[0]
    assert found["name"][29] == "row 29" and found["x"][29].tolist() == [29, 29.5]
    assert [len(row) for row in found["tags"].unbind()] == [i % 3 for i in range(30)]
    assert spec["tags"] == tdi.SparseTensorSpec([None, None], torch.int64)
    parts = tdi.MirroredStrategy(["cpu", "cpu"]).distribute_dataset(files.batch(8).parse_example(ragged))
    assert sorted(name for step in parts for part in step["name"].values for name in part) == sorted(found["name"])


def test_places_and_values_become_a_sparse_tensor():
    records = [{"at": [3, 0], "v": [1.0, 2.0]}, {}, {"at": [1, 1], "v": [3.0, 4.0]}]
    dataset = strings([example_wire.example(record) for record in records])
    feature = {"s": tdi.SparseFeature("at", "v", torch.float32, 4)}
    for rows in (*dataset.batch(3).parse_example(feature), *dataset.parse_example(feature).batch(3)):
        assert rows["s"]._indices().tolist() == [[0, 0, 2, 2], [0, 3, 1, 1]]
        assert rows["s"]._values().tolist() == [2, 1, 3, 4] and not rows["s"].is_coalesced()
    for bad, message in (([4], r"'at' must be in \[0, 4\), but one is 4"), ([0, 1], "'at' must have as many values")):
        with pytest.raises(tdi.InvalidArgumentError, match=message):
            list(strings([example_wire.example({"at": bad, "v": [1.0]})]).parse_example(feature))


@pytest.mark.parametrize(
    "record, message",
    [
        (b"\x0a\x05ab", "element 1 is not a tf.train.Example: its 4 bytes are malformed"),
        (example_wire.example({}), "feature 'x' is required, but is missing; give it a `default_value`"),
        (example_wire.example({"x": [1.0]}), "feature 'x' must be int64, but holds float32"),
        (example_wire.example({"x": [1, 2]}), r"feature 'x' must have 1 values \(shape=\(\)\), but has 2"),
        (example_wire.field(1, example_wire.field(1, b"\x0a\x01x\x12\x06\x1a\x04\x0a\x02\xff\xff")), "is malformed"),
    ],
)
def test_bad_examples_are_named_or_skipped(record, message):
    dataset = strings([example_wire.example({"x": [1]}), record])
    features = {"x": tdi.FixedLenFeature([], torch.int64)}
    with pytest.raises(tdi.InvalidArgumentError, match=message):
        list(dataset.parse_example(features))
    skipping = iter(dataset.parse_example(features).with_options(tdi.Options(on_error="skip")))
    assert [int(row["x"]) for row in skipping] == [1] and skipping.stats()["skipped"] == 1


def test_wrong_features_are_refused_at_once():
    records = strings([b""])
    for features, error, message in (
        ({}, ValueError, "at least one feature"),
        (
            {"x": 3},
            TypeError,
            "feature 'x' must be one of FixedLenFeature, VarLenFeature, RaggedFeature, SparseFeature",
        ),
        ({"x": tdi.VarLenFeature(bytes)}, ValueError, "torch has no sparse tensors of strings"),
        ({"x": tdi.FixedLenFeature([2], torch.int64, [1])}, ValueError, "must have 2 values .*, but has 1"),
        ({"x": tdi.FixedLenFeature([], torch.int32)}, TypeError, "must be torch.float32, torch.int64, bytes or str"),
        ({"x": tdi.SparseFeature(["a"], "b", torch.int64, [2, 3])}, ValueError, "as many entries in `index_key`"),
    ):
        with pytest.raises(error, match=message):
            records.parse_example(features)
    with pytest.raises(ValueError, match="any number of strings, which a batch cannot hold"):
        records.batch(2).parse_example({"x": tdi.RaggedFeature(str)})


@pytest.mark.parametrize("compression, opened", [(None, bytes), ("GZIP", gzip.decompress), ("ZLIB", zlib.decompress)])
def test_written_files_are_what_others_write(tmp_path, compression, opened):
    path = tmp_path / "written"
    records = [b"", b"one", bytes(range(256)) * 4000]
    with tdi.TFRecordWriter(path, compression) as writer:
        for record in records:
            writer.write(record)
    assert opened(path.read_bytes()) == tf_records(records)
    assert list(tdi.TFRecordDataset(path, compression)) == records
    with pytest.raises(tdi.FailedPreconditionError, match="`write` was called after `close`"):
        writer.write(b"late")


def test_writer_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match="TFRecordWriter: .*no such file"):
        tdi.TFRecordWriter(tmp_path / "no" / "file")
    with pytest.raises(ValueError, match="`compression` must be None"):
        tdi.TFRecordWriter(tmp_path / "x", "LZ4")
    full = tdi.TFRecordWriter("/dev/full")
    with pytest.raises(OSError, match="cannot write"):
        full.write(b"x" * 1_000_000)
    with pytest.raises(OSError, match="cannot write"):
        full.close()


def test_the_examples_that_are_built_are_what_others_build():
    values = {"i": [1, -2], "f": [0.5, 3.0], "b": [b"x", b""], "e": []}
    assert tdi.example(values) == example_wire.example(values)
    scalars = {"i": True, "f": np.float64(2.5), "s": "é", "m": torch.ones(2, 2)}
    lists = {"i": [1], "f": [2.5], "s": ["é".encode()], "m": [1.0] * 4}
    assert tdi.example(scalars) == example_wire.example(lists)
    with pytest.raises(ValueError, match="must be a dict of numbers or strings"):
        tdi.example({"x": {"y": 1}})
    with pytest.raises(ValueError, match="must fit in int64"):
        tdi.example({"x": np.array([2**63], np.uint64)})
    with pytest.raises(TypeError, match="must be integers, real numbers or strings"):
        tdi.example({"x": torch.tensor(1j)})


def test_sequences_become_leaves_with_steps():
    data = {"x": [[1.0, 2.0], [3.0, 4.0]], "w": [[b"a"], [b"b"], [b"c"]], "n": [[1], [], [2, 3]]}
    records = strings(
        [example_wire.sequence_example({"id": [7]}, data), example_wire.sequence_example({"id": [8]}, {})]
    )
    features = {
        "x": tdi.FixedLenSequenceFeature([2], torch.float32, allow_missing=True),
        "w": tdi.FixedLenSequenceFeature([], str, allow_missing=True),
        "n": tdi.RaggedFeature(torch.int64),
    }
    context = {"id": tdi.FixedLenFeature([], torch.int64)}
    dataset = records.parse_sequence_example(context, features)
    (first, steps), (second, none) = dataset
    assert first["id"] == 7 and second["id"] == 8
    assert steps["x"].tolist() == data["x"] and steps["w"] == ["a", "b", "c"]
    assert [row.tolist() for row in steps["n"].unbind()] == data["n"]
    assert none["x"].shape == (0, 2) and none["w"] == [] and none["n"].shape[0] == 0
    assert dataset.element_spec[1]["x"] == tdi.TensorSpec([None, 2], torch.float32)
    check_laws(dataset)
    ((_, sparse), _) = records.parse_sequence_example({}, {"n": tdi.VarLenFeature(torch.int64)})
    assert sparse["n"].to_dense().tolist() == [[1, 0], [0, 0], [2, 3]]
    with pytest.raises(tdi.InvalidArgumentError, match="element 1: the list of features 'x' is required"):
        list(records.parse_sequence_example({}, {"x": tdi.FixedLenSequenceFeature([2], torch.float32)}))
    with pytest.raises(tdi.InvalidArgumentError, match="element 0, step 1: feature 'n' is required, but is missing"):
        list(records.parse_sequence_example({}, {"n": tdi.FixedLenSequenceFeature([], torch.int64, True)}))
    with pytest.raises(ValueError, match="parse single records"):
        records.batch(2).parse_sequence_example(context, features)
    with pytest.raises(tdi.InvalidArgumentError, match="is not a tf.train.SequenceExample"):
        list(strings([b"\x12\x05"]).parse_sequence_example(context, features))


@pytest.mark.parametrize(
    "number, dtype, field, pack",
    [
        (1, "float32", 5, "<f"),
        (2, "float64", 6, "<d"),
        (3, "int32", 7, None),
        (9, "int64", 10, None),
        (10, "bool", 11, None),
    ],
)
def test_tensor_messages_become_tensors(number, dtype, field, pack):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    values = [struct.pack(pack, item) if pack else example_wire.varint(int(item)) for item in array.flat]
    messages = [
        example_wire.tensor(number, (2, 3), array.tobytes()),
        example_wire.tensor(number, (2, 3), values=example_wire.field(field, b"".join(values))),
    ]
    torch_dtype = getattr(torch, dtype)
    dataset = strings(messages).parse_tensor(torch_dtype, [2, None])
    assert dataset.element_spec == tdi.TensorSpec([2, None], torch_dtype)
    for found in (*dataset, *next(iter(strings(messages).batch(2).parse_tensor(torch_dtype)))):
        np.testing.assert_array_equal(found.numpy(), array)
    check_laws(dataset.batch(2))
    (repeated,) = strings(
        [example_wire.tensor(number, (4,), values=example_wire.field(field, values[1]))]
    ).parse_tensor(torch_dtype)
    assert repeated.tolist() == [array.flat[1]] * 4
    (zeros,) = strings([example_wire.tensor(number, (2,))]).parse_tensor(torch_dtype)
    assert zeros.tolist() == [0, 0]


@pytest.mark.parametrize(
    "message, error",
    [
        (example_wire.tensor(3, (1,), b"1234"), "must be torch.float32, but is torch.int32"),
        (example_wire.tensor(7, (1,)), "of the TensorFlow type number 7"),
        (example_wire.tensor(1, (2,), b"1234"), r"needs 8 bytes for its shape \(2,\), but has 4"),
        (example_wire.tensor(1, (2, 2), b"1234" * 4), r"must have the shape \(None,\), but has \(2, 2\)"),
        (example_wire.tensor(1, (2**62,), b"1234"), "has an impossible shape"),
        (example_wire.tensor(1, (2**37,)), "needs 549755813888 bytes"),
        (b"\x0a\xff", "is not a TensorProto"),
    ],
)
def test_bad_tensor_messages_are_named(message, error):
    with pytest.raises(tdi.InvalidArgumentError, match=f"parse_tensor: element 0 .*{error}"):
        list(strings([message]).parse_tensor(torch.float32, [None]))
