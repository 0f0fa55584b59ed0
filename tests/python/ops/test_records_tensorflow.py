# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Records that TensorFlow writes, and what it reads of ours. Needs tensorflow beside torch, which few environments
have."""

import pytest
import torch

import torch_distinput as tdi

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.slow

ROWS = [{"x": [0.5 * i, -i], "n": [i, i + 1, i + 2][: i % 4], "name": [b"row %d" % i]} for i in range(50)]


def example(row):
    return tf.train.Example(
        features=tf.train.Features(
            feature={
                "x": tf.train.Feature(float_list=tf.train.FloatList(value=row["x"])),
                "n": tf.train.Feature(int64_list=tf.train.Int64List(value=row["n"])),
                "name": tf.train.Feature(bytes_list=tf.train.BytesList(value=row["name"])),
            }
        )
    ).SerializeToString()


def write(path, compression, records):
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for record in records:
            writer.write(record)


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_examples_of_tensorflow_are_parsed_as_by_tensorflow(tmp_path, compression):
    path = tmp_path / "rows"
    write(path, compression, map(example, ROWS))
    ours = tdi.TFRecordDataset(path, compression_type=compression).batch(16)
    ours = ours.parse_example(
        {
            "x": tdi.FixedLenFeature([2], torch.float32),
            "n": tdi.VarLenFeature(torch.int64),
            "name": tdi.FixedLenFeature([], bytes),
        }
    )
    theirs = tf.data.TFRecordDataset(str(path), compression).batch(16)
    features = {
        "x": tf.io.FixedLenFeature([2], tf.float32),
        "n": tf.io.VarLenFeature(tf.int64),
        "name": tf.io.FixedLenFeature([], tf.string),
    }
    count = 0
    for mine, other in zip(ours, theirs.map(lambda rows: tf.io.parse_example(rows, features)), strict=True):
        assert mine["x"].numpy().tolist() == other["x"].numpy().tolist()
        assert mine["n"].to_dense().tolist() == tf.sparse.to_dense(other["n"]).numpy().tolist()
        assert list(mine["name"]) == other["name"].numpy().tolist()
        count += len(mine["x"])
    assert count == len(ROWS)


def test_tensors_and_raw_numbers_of_tensorflow(tmp_path):
    values = [tf.reshape(tf.range(i, i + 6), [2, 3]) for i in range(5)]
    write(tmp_path / "tensors", "", [tf.io.serialize_tensor(value).numpy() for value in values])
    write(tmp_path / "raw", "", [value.numpy().tobytes() for value in values])
    expected = [value.numpy().tolist() for value in values]
    tensors = tdi.TFRecordDataset(tmp_path / "tensors").parse_tensor(torch.int32, (2, 3))
    assert [tensor.tolist() for tensor in tensors] == expected
    raw = tdi.TFRecordDataset(tmp_path / "raw").decode_raw(torch.int32, (2, 3))
    assert [tensor.tolist() for tensor in raw] == expected


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_tensorflow_reads_what_is_written_here(tmp_path, compression):
    path = tmp_path / "rows"
    with tdi.TFRecordWriter(path, compression=compression) as writer:
        for row in ROWS:
            writer.write_example(row)
    found = [tf.train.Example.FromString(record.numpy()) for record in tf.data.TFRecordDataset(str(path), compression)]
    assert len(found) == len(ROWS)
    for message, row in zip(found, ROWS, strict=True):
        feature = message.features.feature
        assert list(feature["x"].float_list.value) == row["x"]
        assert list(feature["n"].int64_list.value) == row["n"]
        assert list(feature["name"].bytes_list.value) == row["name"]
