# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Every format: each row reaches one replica once, over restarts of any number of ranks at any step."""

import collections
import threading

import format_datasets as formats
import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_distinput as tdi
from torch_distinput import _C
from torch_distinput.distribute._input_options import native_options

# Rows of one number each; those that come as sequences of one token become scalars.
SOURCES = {
    "parquet": formats.parquet,
    "parquet one after the other": lambda: formats.parquet(index=False),
    "csv": formats.csv,
    "csv one after the other": lambda: formats.csv(index=False),
    "json lines": formats.json_lines,
    "npy": formats.npy,
    "npz": formats.npz,
    "safetensors": formats.safetensors,
    "tar": lambda: formats.tar().decode_members().map(lambda row: row["cls"]),
    "compressed tar": lambda: formats.tar("GZIP").decode_members().map(lambda row: row["cls"]),
    "decode_raw": lambda: formats.records(formats.number).decode_raw(torch.int64),
    "parse_example": formats.parsed,
    "parse_sequence_example": formats.sequences,
    "to_number": formats.spelled,
    "tokens": lambda: formats.tokens().map(lambda row: row.reshape(())),
    "packed": lambda: formats.packed(formats.documents(), length=1).map(lambda row: row.reshape(())),
}
# What a source needs besides this library, by the first word of its name.
PACKAGES = {"parquet": "pyarrow", "csv": "pyarrow", "json": "pyarrow", "safetensors": "safetensors"}
OPS = {
    "none": lambda dataset: dataset,
    "map": lambda dataset: dataset.map(lambda x: x + 0),
    "parallel map": lambda dataset: dataset.map(lambda x: x + 0, num_parallel_calls=2),
    "filter": lambda dataset: dataset.filter(lambda x: True),
    "shuffle": lambda dataset: dataset.shuffle(3, seed=1),
    "prefetch": lambda dataset: dataset.prefetch(2),
}


def run(world, devices, make, options, states, most):
    """Each rank in a thread: the rows that count, and the states after at most `most` steps."""
    store, results = dist.HashStore(), [None] * world

    def rank(number):
        try:
            strategy = _C.MultiWorkerMirroredStrategy(_C.ProcessGroup(store, number, world, "g"), ["cpu"] * devices)
            iterator = strategy.distribute_dataset(make()._native, native_options(options)).iterate()
            if states:
                iterator.load_state_dict(states)
            rows, steps = [], 0
            while steps < most and (step := iterator.next(tuple)) is not None:
                parts, info = step
                for part, valid in zip(parts if isinstance(parts, tuple) else (parts,), info.valid, strict=True):
                    rows += part[:valid].tolist()
                steps += 1
            results[number] = rows, iterator.state_dict()
        except Exception as error:  # noqa: BLE001 - raised in the caller's thread
            results[number] = error

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for result in results:
        if isinstance(result, Exception):
            raise result
    assert None not in results
    return [row for rows, _ in results for row in rows], [state for _, state in results]


@pytest.mark.parametrize("tail", ["merge", "zero_rows", "padded"])
@pytest.mark.parametrize("split", ["tf", "balanced"])
def test_each_row_once_after_a_last_step_that_one_rank_has_joined_from_two(split, tail):
    """Rank 0 has two short steps left where rank 1 has one, so that `merge` joins two of one and one of the other."""
    options = tdi.InputOptions(split=split, tail=tail, peer_timeout=20)

    def make():
        return formats.npy().batch(4).map(lambda x: x + 0)

    for most in range(5):
        for world in (1, 3):
            first, states = run(2, 1, make, options, None, most)
            rest, _ = run(world, 1, make, options, states, 10_000)
            assert sorted(first + rest) == list(range(formats.ROWS)), (most, world)


@pytest.mark.parametrize("source", SOURCES)
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_each_row_once_over_restarts_with_other_numbers_of_ranks(source, data):
    if package := PACKAGES.get(source.split()[0]):
        pytest.importorskip(package)
    before, after = (data.draw(st.sampled_from(sorted(OPS))) for _ in range(2))
    batch = data.draw(st.integers(1, 5))
    options = tdi.InputOptions(
        split=data.draw(st.sampled_from(["tf", "balanced"])),
        tail=data.draw(st.sampled_from(["zero_rows", "merge", "padded"])),
        per_replica_buffer_size=data.draw(st.integers(0, 2)),
        peer_timeout=20,
    )
    legs = data.draw(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(0, 3)), max_size=2))

    def make():
        return OPS[after](OPS[before](SOURCES[source]()).batch(batch))

    seen, states = [], None
    for world, devices, most in [*legs, (data.draw(st.integers(1, 3)), 1, 10_000)]:
        rows, states = run(world, devices, make, options, states, most)
        seen += rows
    expected = collections.Counter(int(row) for row in SOURCES[source]())
    assert collections.Counter(seen) == expected
