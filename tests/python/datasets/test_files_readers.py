# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Datasets of the records in files: values, laws and arguments."""

import gzip
import os
import random
import zlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pipelines import check_laws
from sample_files import tf_records

import torch_distinput as tdi

RECORDS = [b"one", b"", b"three \x00\xff", b"four" * 50]
LINES = ["one", "", "thr\u00e9e \u20ac", "four" * 50]


@pytest.fixture
def tf_file(tmp_path):
    path = tmp_path / "records"
    path.write_bytes(tf_records(RECORDS))
    return path


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / "lines"
    path.write_text("\n".join(LINES))
    return path


def test_records_are_bytes_and_lines_are_text(tf_file, text_file):
    assert list(tdi.TFRecordDataset(tf_file)) == RECORDS
    assert list(tdi.TextLineDataset(text_file)) == LINES
    assert tdi.TFRecordDataset(tf_file).element_spec == tdi.StringSpec([], encoding=None)
    assert tdi.TextLineDataset(text_file).element_spec == tdi.StringSpec([])


def test_batches_are_lists(tf_file, text_file):
    assert list(tdi.TFRecordDataset(tf_file).batch(3)) == [RECORDS[:3], RECORDS[3:]]
    assert list(tdi.TextLineDataset(text_file).shuffle(seed=1).batch(4))[0] != LINES


def test_fixed_records_stand_between_header_and_footer(tmp_path):
    path = tmp_path / "fixed"
    path.write_bytes(b"HHaabbccF")
    dataset = tdi.FixedLengthRecordDataset(path, 2, header_bytes=2, footer_bytes=1)
    assert list(dataset) == [b"aa", b"bb", b"cc"]
    assert len(dataset) == 3
    check_laws(dataset)


def test_lines_end_as_in_tf_data(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"a\r\nb\rc\n\r\n\nlast\r")
    for index in (True, False):
        assert list(tdi.TextLineDataset(path, index=index)) == ["a", "bc", "", "", "last"]


@pytest.mark.parametrize("index", [True, False])
def test_all_ways_to_name_files(tmp_path, index):
    paths = []
    for name in ("b", "a", "c"):
        paths.append(tmp_path / name)
        paths[-1].write_text(f"{name}1\n{name}2\n")
    in_order = ["b1", "b2", "a1", "a2", "c1", "c2"]
    assert list(tdi.TextLineDataset(paths, index=index)) == in_order
    assert list(tdi.TextLineDataset([str(path) for path in paths], index=index)) == in_order
    assert list(tdi.TextLineDataset([os.fsencode(path) for path in paths], index=index)) == in_order
    names = tdi.Dataset.list_files(str(tmp_path / "*"), shuffle=False)
    assert list(tdi.TextLineDataset(names, index=index)) == sorted(in_order)
    assert list(names.flat_map(lambda name: tdi.TextLineDataset(name, index=index))) == sorted(in_order)


def test_list_files_sorts_before_it_shuffles(tmp_path):
    names = [str(tmp_path / f"{i}.txt") for i in range(8)]
    for name in reversed(names):
        open(name, "w").close()
    pattern = str(tmp_path / "*.txt")
    assert list(tdi.Dataset.list_files(pattern, shuffle=False)) == names
    shuffled = tdi.Dataset.list_files(pattern, seed=6)
    first, second = list(shuffled), list(shuffled)
    assert sorted(first) == sorted(second) == names
    assert len({tuple(first), tuple(second), tuple(names)}) == 3
    assert list(tdi.Dataset.list_files(pattern, seed=6)) == first
    assert list(tdi.Dataset.list_files([names[3], pattern], shuffle=False)) == names
    check_laws(shuffled)


def test_list_files_names_the_pattern_without_a_match(tmp_path):
    with pytest.raises(tdi.NotFoundError, match=r"list_files: no file matches the pattern .*x\*"):
        tdi.Dataset.list_files([str(tmp_path / "x*")])
    with pytest.raises(TypeError, match="list_files: `patterns`"):
        tdi.Dataset.list_files(3)


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_compressed_files_stream(tmp_path, compression):
    pack = gzip.compress if compression == "GZIP" else zlib.compress
    path = tmp_path / "packed"
    path.write_bytes(pack(tf_records(RECORDS)))
    dataset = tdi.TFRecordDataset(path, compression_type=compression)
    assert list(dataset) == RECORDS
    assert dataset.cardinality() == tdi.UNKNOWN
    check_laws(dataset)


def test_indexed_files_have_a_length_and_random_access(tf_file, text_file):
    assert len(tdi.TFRecordDataset([tf_file, tf_file])) == 8
    assert tdi.TFRecordDataset(tf_file, index=False).cardinality() == tdi.UNKNOWN
    dataset = tdi.TextLineDataset([text_file, text_file])
    assert sorted(dataset.shuffle(seed=3)) == sorted(2 * LINES)
    shuffled = dataset.shuffle(seed=3)
    for pipeline in (dataset, shuffled.repeat(2), shuffled.batch(3), dataset.skip(2).shard(2, 1)):
        check_laws(pipeline)
    with pytest.raises(ValueError, match="known length"):
        tdi.TextLineDataset(text_file, index=False).shuffle()


def test_a_position_in_an_indexed_file_is_a_number(tf_file):
    iterator = iter(tdi.TFRecordDataset(tf_file))
    next(iterator)
    assert "offset" not in str(iterator.state_dict())
    streamed = iter(tdi.TFRecordDataset(tf_file, index=False))
    next(streamed)
    assert "'offset': 19" in str(streamed.state_dict())


def test_any_number_of_threads_gives_the_same_elements(tmp_path):
    rng = random.Random(1)
    lines = ["x" * rng.randrange(200) for _ in range(5000)]
    path = tmp_path / "lines"
    path.write_text("\n".join(lines))
    for threads in (0, 1, 4):
        options = tdi.Options(num_threads=threads)
        assert list(tdi.TextLineDataset(path).with_options(options).batch(32).unbatch()) == lines
        assert list(tdi.TextLineDataset(path, index=False).with_options(options)) == lines


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.binary(max_size=30), max_size=6), max_size=5), st.integers(1, 4), st.integers(0, 2**32))
def test_shards_of_random_files_hold_every_record_once(tmp_path_factory, files, shards, seed):
    folder = tmp_path_factory.mktemp("files")
    paths = []
    for number, records in enumerate(files):
        paths.append(folder / str(number))
        paths[-1].write_bytes(tf_records(records))
    everything = sorted(record for records in files for record in records)
    dataset = tdi.TFRecordDataset(paths)
    assert sorted(dataset.shuffle(seed=seed)) == everything
    parts = [list(dataset.shuffle(seed=seed).shard(shards, i)) for i in range(shards)]
    assert sorted(sum(parts, [])) == everything
    assigned = [list(tdi.testing.auto_shard(dataset, shards, i)) for i in range(shards)]
    assert sorted(sum(assigned, [])) == everything


def test_all_replicas_together_get_every_record_once(tmp_path):
    numbers = list(range(50))
    path = tmp_path / "lines"
    path.write_text("".join(f"{n}\n" for n in numbers))
    dataset = tdi.TextLineDataset(path).shuffle(seed=1).map(lambda line: torch.tensor(int(line))).batch(8)
    steps = tdi.MirroredStrategy(["cpu", "cpu"]).distribute_dataset(dataset)
    seen = [int(row) for step in steps for value in step.values for row in value]
    assert sorted(seen) == numbers


def test_wrong_arguments_are_named(tf_file):
    with pytest.raises(ValueError, match='TFRecordDataset: `index` must be True, False or "auto", but is 3'):
        tdi.TFRecordDataset(tf_file, index=3)
    with pytest.raises(ValueError, match="TextLineDataset: `compression_type` must be"):
        tdi.TextLineDataset(tf_file, compression_type="BZIP2")
    with pytest.raises(ValueError, match="TextLineDataset: `index=True` needs uncompressed files"):
        tdi.TextLineDataset(tf_file, compression_type="GZIP", index=True)
    with pytest.raises(TypeError, match="TextLineDataset: `files` must be a path or paths, but is 3"):
        tdi.TextLineDataset(3)
    with pytest.raises(TypeError, match="TextLineDataset: `files` must yield names of files"):
        tdi.TextLineDataset(tdi.Dataset.range(3))
    with pytest.raises(ValueError, match="FixedLengthRecordDataset: `record_bytes` must be at least 1"):
        tdi.FixedLengthRecordDataset(tf_file, 0)
    with pytest.raises(ValueError, match="`header_bytes` must be at least 0"):
        tdi.FixedLengthRecordDataset(tf_file, 1, -1)
    with pytest.raises(ValueError, match="`footer_bytes` must be at least 0"):
        tdi.FixedLengthRecordDataset(tf_file, 1, 0, -1)


def test_a_worker_whose_files_are_empty_gets_parts_of_the_type_of_the_others(tmp_path):
    (tmp_path / "full").write_text("one\ntwo\n")
    (tmp_path / "empty").write_text("")
    lines = tdi.TextLineDataset([tmp_path / "full", tmp_path / "empty"])
    dataset = lines.map(lambda line: torch.full((3,), len(line))).batch(1)
    assert tdi.testing.batch_sizes_for_worker(1, 2, 1, 1) == [0, 1]
    parts = list(tdi.testing.worker_stream(dataset, 2, 1, 1, tdi.AutoShardPolicy.FILE))
    assert [(tuple(part.shape), part.dtype) for part in parts] == [((0, 3), torch.int64)]
