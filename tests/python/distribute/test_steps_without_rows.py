# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Native steps without rows: infos and positions are those of an iterator that reads."""

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from ranks import returned, run_ranks

import torch_distinput as tdi
from torch_distinput.distribute._distributed import native_of

TAILS = ["zero_rows", "padded", "repeat", "drop", "until_first", "merge"]
FIELDS = ("epoch", "step", "row_start", "valid", "global_valid", "num_replicas", "loss_scale", "is_last", "has_value")


def pipeline(kind, size, batch):
    rows = tdi.Dataset.range(size)
    if kind == "shuffle":
        rows = rows.shuffle(5, seed=3)
    if kind == "mixture":
        rows = tdi.Dataset.sample_from_datasets([rows, tdi.Dataset.range(2 * size)], [1, 3], seed=2)
    if kind == "repeat":
        rows = rows.repeat(2)
    return rows.batch(batch).map(lambda part: part, row_wise=True) if kind == "map" else rows.batch(batch)


def taken(iterator):
    """Info and position of the next step; None at the end. The value of a step without rows is None on each replica."""
    step = iterator.next(tuple)
    if step is None:
        return None
    return [getattr(step[1], name) for name in FIELDS], iterator.state_dict(), step[0]


@given(
    st.sampled_from(["plain", "shuffle", "mixture", "repeat", "map"]),
    st.integers(1, 40),
    st.integers(1, 9),
    st.integers(1, 4),
    st.sampled_from(["tf", "balanced"]),
    st.sampled_from(TAILS),
    st.booleans(),
    st.lists(st.integers(0, 39), max_size=5),
    st.integers(0, 5),
)
def test_infos_and_positions_are_those_of_a_reader(kind, size, batch, replicas, split, tail, balance, excluded, at):
    options = {"split": split, "tail": tail}
    if balance and kind == "plain":
        options |= {"split": "balanced", "balance": torch.arange(size) % 7 + 1.0, "balance_window": 1}
    strategy = tdi.MirroredStrategy(["cpu"] * replicas)
    try:
        assigned = native_of(strategy.distribute_dataset(pipeline(kind, size, batch), tdi.InputOptions(**options)))
        reader = assigned.iterate(epoch=1, seed=4)
        rowless = assigned.iterate(epoch=1, seed=4, with_rows=False)
    except ValueError:
        return  # what does not go together is refused either way
    for step in range(200):
        if step == at and kind == "plain":
            rows = sorted({row for row in excluded if row < size})
            reader.exclude(rows)
            rowless.exclude(rows)
        read, counted = taken(reader), taken(rowless)
        assert (read is None) == (counted is None)
        if read is None:
            break
        assert counted[:2] == read[:2] and set(counted[2]) == {None}
        if step % 3 == 0:  # each goes on where the other one is
            reader.load_state_dict(counted[1])
            rowless.load_state_dict(read[1])


@pytest.mark.parametrize(
    ("dataset", "why"),
    [
        (tdi.Dataset.range(9).filter(lambda row: True).batch(3), "`filter` has none, so that only reading tells"),
        (tdi.Dataset.range(9).batch(3).map(lambda part: part), "map rows before they are batched"),
    ],
)
def test_data_known_by_reading_only_is_refused(dataset, why):
    assigned = native_of(tdi.MirroredStrategy(["cpu", "cpu"]).distribute_dataset(dataset))
    with pytest.raises(ValueError, match=r"steps without rows \(`with_rows`\) need") as error:
        assigned.iterate(with_rows=False)
    assert why in str(error.value)


def of_other_content(rank, folder, with_rows):
    """Two ranks whose files differ in content only."""
    strategy = tdi.MultiWorkerMirroredStrategy()
    rows = tdi.FixedLengthRecordDataset(f"{folder}/{rank}/rows", 4).batch(8)
    one_stream = rows.with_options(tdi.Options(auto_shard_policy=tdi.AutoShardPolicy.DATA))
    iterator = native_of(strategy.distribute_dataset(one_stream)).iterate(with_rows=with_rows)
    return sum(1 for _ in iter(lambda: iterator.next(None), None)), dist.get_rank()


@pytest.mark.parametrize("with_rows", [True, False])
def test_no_row_is_looked_at(with_rows, tmp_path):
    for rank in range(2):
        (tmp_path / str(rank)).mkdir()
        (tmp_path / str(rank) / "rows").write_bytes(b"%04d" % rank * 40)
    ranks = run_ranks(of_other_content, 2, str(tmp_path), with_rows)
    if with_rows:
        assert all(isinstance(error, tdi.DistributedDatasetError) and "on content" in str(error) for error in ranks)
    else:
        assert returned(ranks) == [(5, 0), (5, 1)]
