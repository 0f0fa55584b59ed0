# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Named pipes: readers wait for data, and Ctrl-C, leaving the loop and `close` end the wait."""

import contextlib
import fcntl
import os
import signal
import struct
import termios
import threading
import time

import pytest
import torch

import torch_distinput as tdi

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
