# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Under policy STREAMS, each byte of the files is read once a job, as the kernel counts them."""

import json
import os
import random

import pytest
import torch
from host_ranks import bytes_read
from ranks import returned, run_ranks
from sample_files import tf_record

import torch_distinput as tdi

BYTES = 4 << 20
RECORD = 2000
LENGTH = tdi.TensorSpec([], torch.int64)  # declared, since each rank would read the first block of a file to find it


def record_of(kind):
    text = "".join(random.Random(kind).choices("abcdefgh ", k=RECORD))
    if kind == "tfrecord":
        return tf_record(text.encode())
    return ((json.dumps({"text": text}) if kind == "jsonl" else text) + "\n").encode()


def lines(names, index=False):
    return tdi.TextLineDataset(names, index=index)


def parsed(line):
    return len(json.loads(line)["text"])


def mixture(names):
    return tdi.Dataset.sample_from_datasets([lines(names[:4]), lines(names[4:])], [0.7, 0.3], seed=2)


def by_function(names):
    return tdi.Dataset.from_tensor_slices(names).flat_map(lambda name: lines([name], "auto"))


# The kind of the files, their number, the ranks, and what reads them.
PIPELINES = {
    "text": ("txt", 8, 2, lambda names: lines(names).shuffle(64, seed=1)),
    "text by a function": ("txt", 8, 3, by_function),
    "JSON lines": ("jsonl", 8, 4, lambda names: lines(names).map(parsed, element_spec=LENGTH)),
    "TFRecord": ("tfrecord", 8, 5, lambda names: tdi.TFRecordDataset(names, index=False).shuffle(64, seed=1)),
    "mixture": ("txt", 8, 3, mixture),
    "many files": ("txt", 64, 5, lambda names: lines(names, "auto").filter(lambda line: True)),
    "many files of records": ("tfrecord", 64, 4, lambda names: tdi.TFRecordDataset(names)),
}


def bytes_and_rows(rank, names, pipeline):
    before = bytes_read()
    rows = PIPELINES[pipeline][-1](names).batch(50)
    strategy = tdi.MultiWorkerMirroredStrategy()
    distributed = strategy.distribute_dataset(
        rows.with_options(tdi.Options(auto_shard_policy=tdi.AutoShardPolicy.STREAMS))
    )
    iterator = iter(distributed)
    valid = [sum(iterator.step_info.valid) for _ in iterator]
    read = bytes_read() - before
    assert "applied as STREAMS" in str(distributed.explain())
    return read, sum(valid)


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="the system does not count what a process reads")
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_each_byte_is_read_once(tmp_path, pipeline):
    kind, files, world, _ = PIPELINES[pipeline]
    record = record_of(kind)
    records = BYTES // files // len(record)
    for file in range(files):
        (tmp_path / f"{file:02}.{kind}").write_bytes(record * records)
    names = [str(path) for path in sorted(tmp_path.iterdir())]
    results = returned(run_ranks(bytes_and_rows, world, names, pipeline))
    assert sum(rows for _, rows in results) == files * records
    total = files * records * len(record)
    assert total <= sum(read for read, _ in results) <= 1.05 * total
