# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Several real processes that read Parquet files of uneven sizes as streams of their own, and resume as others."""

import pytest
from ranks import returned, run_ranks

import torch_distinput as tdi

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

SIZES = [11, 0, 3, 8, 1, 5]


def go_on(rank, files, states, most):
    strategy = tdi.MultiWorkerMirroredStrategy()
    options = tdi.Options(auto_shard_policy=tdi.AutoShardPolicy.FILE)
    dataset = tdi.ParquetDataset(files).shuffle(4, seed=1).batch(6).with_options(options)
    iterator = iter(strategy.distribute_dataset(dataset))
    if states:
        iterator.load_state_dict(states)
    rows, steps = [], 0
    while steps < most and (step := next(iterator, None)) is not None:
        rows += zip(*(strategy.local_results(step[key])[0] for key in ("i", "s")), strict=True)
        steps += 1
    return [(int(number), text) for number, text in rows], steps, iterator.state_dict()


def test_each_row_is_read_once_by_two_and_then_three_processes(tmp_path):
    files, first = [], 0
    for number, size in enumerate(SIZES):
        files.append(str(tmp_path / f"{number}.parquet"))
        numbers = list(range(first, first + size))
        table = pa.table(
            {"i": pa.array(numbers, pa.int64()), "s": pa.array([f"row {i}" for i in numbers], pa.string())}
        )
        parquet.write_table(table, files[-1], row_group_size=3)
        first += size
    seen, states = [], None
    for world, most in ((2, 2), (3, 100)):
        results = returned(run_ranks(go_on, world, files, states, most))
        assert len({steps for _, steps, _ in results}) == 1
        seen += [row for rows, _, _ in results for row in rows]
        states = [state for _, _, state in results]
    assert sorted(seen) == [(number, f"row {number}") for number in range(sum(SIZES))]
