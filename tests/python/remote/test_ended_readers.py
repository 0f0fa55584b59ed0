# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What an iterator has asked for in advance and nobody will read is not loaded once it ends."""

import gzip
import io
import time

import numpy as np
import pytest
from remote_sources import BUCKET
from remote_store import twice

import torch_distinput as tdi

ROW = 100_000
MANY = 1000
RATE = 20e6  # bytes a second of the link: what is asked for in advance, 64 MiB, takes seconds


def array():
    file = io.BytesIO()
    np.save(file, np.arange(MANY * ROW // 8, dtype=np.int64).reshape(MANY, -1))
    return file.getvalue()


def table():
    parquet, pyarrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    file = io.BytesIO()
    columns = pyarrow.table({"a": np.random.default_rng(1).random(MANY * ROW // 8)})
    parquet.write_table(columns, file, row_group_size=ROW, use_dictionary=False, compression=None)
    return file.getvalue()


def records():
    return b"".join(b"%08d" % number * (ROW // 8) for number in range(MANY))


def compressed():
    return gzip.compress(np.random.default_rng(1).bytes(MANY * ROW), compresslevel=0)


def open_array(url):
    return tdi.NumpyDataset(url)


def open_records(url):
    return tdi.FixedLengthRecordDataset(url, ROW)


READERS = {
    "shuffled rows": (array, lambda url: open_array(url).shuffle(seed=1).batch(8)),
    "rows in order": (array, lambda url: open_array(url).batch(8)),
    "a stream": (array, lambda url: open_array(url).filter(lambda row: True).batch(8)),
    "a loader": (array, lambda url: tdi.DataLoader(open_array(url).shuffle(seed=1).batch(8), batch_size=None)),
    "a replica": (
        array,
        lambda url: tdi.OneDeviceStrategy("cpu").distribute_dataset(open_array(url).shuffle(seed=1).batch(8)),
    ),
    "records of a stream": (records, lambda url: open_records(url).filter(lambda row: True)),
    "files in turn": (
        records,
        lambda url: tdi.Dataset.from_tensor_slices([url]).interleave(open_records, cycle_length=1),
    ),
    "compressed records": (
        compressed,
        lambda url: tdi.FixedLengthRecordDataset(url, ROW, compression_type="GZIP"),
    ),
    "a table": (table, lambda url: tdi.ParquetDataset(url).batch(8)),
}


@pytest.mark.parametrize("reader", READERS)
def test_nothing_more_is_loaded_for_an_iterator_that_is_dropped(object_server, relay, reader):
    make, open_rows = READERS[reader]
    object_server.put(f"{BUCKET}/rows", make())
    relay.shape(bandwidth=RATE, total_bandwidth=RATE)
    rows = open_rows(f"{relay.url}/{BUCKET}/rows")
    for _ in rows:
        break
    assert loaded(relay) < 25e6
    assert len(object_server.requests()) < 100


def loaded(relay):
    """Bytes that have come when no more come: those of a line that is busy do not stay the same for so long."""
    end = time.monotonic() + 30
    before = -1
    while (now := relay.counters()["down"]) != before:
        assert time.monotonic() < end
        before = now
        time.sleep(0.25)
    return now


def test_others_keep_what_they_asked_for(object_server, relay):
    object_server.put(f"{BUCKET}/rows", array())
    relay.shape(bandwidth=RATE, total_bandwidth=RATE)
    rows = open_array(f"{relay.url}/{BUCKET}/rows").take(100).batch(8)
    one, other = iter(rows), iter(rows)
    next(one), next(other)
    del one
    assert sum(len(batch) for batch in other) == 92
    ranges = [(entry.range[0], entry.range[1] + 1) for entry in object_server.requests(operation="read")]
    assert twice(ranges) < 20 * ROW
