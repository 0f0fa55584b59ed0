# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Datasets of records in files: values, laws, arguments; named pipes, whose waits Ctrl-C, leaving or `close` end."""

import contextlib
import fcntl
import gzip
import os
import random
import signal
import struct
import termios
import threading
import time
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


LIMIT = 20

DATASETS = {
    "plain": lambda pipe: tdi.TextLineDataset(pipe),
    "prefetch": lambda pipe: tdi.TextLineDataset(pipe).prefetch(1),
    "batched": lambda pipe: tdi.TextLineDataset(pipe).batch(1).prefetch(2).unbatch(),
    "parallel interleave": lambda pipe: tdi.Dataset.from_tensor_slices([pipe]).interleave(
        tdi.TextLineDataset, num_parallel_calls=1
    ),
    "skipping": lambda pipe: tdi.TextLineDataset(pipe).with_options(tdi.Options(on_error="skip")),
    "distributed": lambda pipe: tdi.OneDeviceStrategy("cpu").distribute_dataset(tdi.TextLineDataset(pipe).batch(1)),
}
AHEAD = ["prefetch", "batched", "parallel interleave", "distributed"]


@pytest.fixture
def pipe(tmp_path):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    return path


def eventually(condition):
    deadline = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def opened_by_us(pipe):
    def target(descriptor):
        with contextlib.suppress(OSError):
            return os.readlink(f"/proc/self/fd/{descriptor}")

    return pipe in map(target, os.listdir("/proc/self/fd"))


def unread(descriptor):
    return struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4))[0]


@contextlib.contextmanager
def writer_of(pipe, text):
    """A writer that has written `text` and keeps the pipe open without writing more, until the block ends."""
    descriptor = os.open(pipe, os.O_RDWR)
    try:
        os.write(descriptor, text)
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def ctrl_c(pipe, when):
    """Interrupts this thread as soon as `when` holds; if that has no effect, ends its wait by closing the pipe."""
    main, done = threading.get_ident(), threading.Event()

    def interrupt():
        eventually(when)
        signal.pthread_kill(main, signal.SIGINT)
        if not done.wait(LIMIT):
            os.close(os.open(pipe, os.O_RDWR))  # which no side waits for

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


READERS = DATASETS | {
    "records": lambda pipe: tdi.TFRecordDataset(pipe).decode_raw(torch.uint8),
    "archive": lambda pipe: tdi.TarDataset(pipe).decode_members(),
}


@pytest.mark.parametrize("name", READERS)
def test_ctrl_c_ends_the_wait_for_somebody_who_writes(pipe, name):
    with pytest.raises(KeyboardInterrupt), ctrl_c(pipe, lambda: opened_by_us(pipe)):
        list(READERS[name](pipe))


def test_ctrl_c_ends_the_wait_for_somebody_who_reads(pipe):
    main = threading.get_native_id()

    def waits():
        with open(f"/proc/self/task/{main}/wchan") as place:
            return "futex" not in place.read()

    with pytest.raises(KeyboardInterrupt) as caught, ctrl_c(pipe, waits):
        tdi.TFRecordWriter(pipe)
    assert caught.value.__context__ is None  # no error of the system call besides


# Formats that need random access; pyarrow would wait for a writer, deaf to Ctrl-C.
REFUSING = {
    "csv": lambda pipe: tdi.CsvDataset(pipe),
    "several csv": lambda pipe: tdi.CsvDataset([pipe, pipe + "2"]),
    "csv one after the other": lambda pipe: tdi.CsvDataset(pipe, index=False),
    "json lines": lambda pipe: tdi.JsonLinesDataset(pipe),
    "parquet": lambda pipe: tdi.ParquetDataset(pipe),
    "npy": lambda pipe: tdi.NumpyDataset(pipe),
    "safetensors": lambda pipe: tdi.SafetensorsDataset(pipe),
    "tokens": lambda pipe: tdi.TokenDataset(pipe, torch.int16, 4),
}


@pytest.mark.parametrize("name", REFUSING)
def test_tables_and_arrays_refuse_a_pipe_at_once(pipe, name):
    if name in ("csv", "several csv", "csv one after the other", "json lines", "parquet"):
        pytest.importorskip("pyarrow")
    os.mkfifo(pipe + "2")
    errors = []

    def read():
        try:
            list(REFUSING[name](pipe))
        except OSError as error:
            errors.append(str(error))

    ended = within_limit(read)
    for path in (pipe, pipe + "2"):
        os.close(os.open(path, os.O_RDWR))
    assert ended
    assert "need random access, but this is not a regular file" in errors[0]
    assert pipe in errors[0]


@pytest.mark.parametrize("name", DATASETS)
def test_ctrl_c_ends_the_wait_for_a_silent_writer(pipe, name):
    lines = []
    with writer_of(pipe, b"one\n") as writer, pytest.raises(KeyboardInterrupt):
        # Where nothing reads ahead, the consumer finds the pipe empty at its second call.
        with ctrl_c(pipe, lambda: unread(writer) == 0 and (lines or name in AHEAD)):
            lines.extend(DATASETS[name](pipe))


def within_limit(call):
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(LIMIT)
    return not thread.is_alive()


@pytest.mark.parametrize("name", AHEAD)
def test_close_does_not_wait_for_a_silent_writer(pipe, name):
    with writer_of(pipe, b"one\ntwo\nthree\n"):
        iterator = iter(DATASETS[name](pipe))
        assert next(iterator) in ("one", ["one"])
        assert within_limit(iterator.close)


@pytest.mark.parametrize("name", AHEAD)
def test_leaving_a_loop_does_not_wait_for_a_silent_writer(pipe, name):
    def leave():
        for _ in DATASETS[name](pipe):
            break

    with writer_of(pipe, b"one\ntwo\nthree\n"):
        assert within_limit(leave)


@pytest.mark.parametrize("name", ["plain", "prefetch"])
def test_a_pipe_is_read_as_far_as_its_writer_writes(pipe, name):
    def write():
        with open(pipe, "w") as out:
            for number in range(20_000):
                out.write(f"{number}\n")
                if number == 5:
                    out.flush()

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    assert [int(line) for line in DATASETS[name](pipe)] == list(range(20_000))
    writer.join(LIMIT)
