# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Lance tables: the rows of the package's own scan in any order, one version, errors."""

import pickle
import tempfile

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import in_child
from quiet_lance import lance_or_skip

import torch_distinput as tdi

pa = pytest.importorskip("pyarrow")
lance = lance_or_skip()

ROWS = 30


def table(rows=ROWS, first=0):
    numbers = np.arange(first, first + rows)
    lists = pa.array([[float(n)] * 2 for n in numbers], pa.list_(pa.float32(), 2))
    return pa.table({"i": pa.array(numbers, pa.int32()), "x": lists, "s": [f"r{n}" for n in numbers]})


@pytest.fixture
def folder(tmp_path):
    lance.write_dataset(table(), tmp_path / "t.lance", max_rows_per_file=8).delete("i % 3 = 0")
    return str(tmp_path / "t.lance")


def numbers(dataset):
    return [number for batch in dataset for number in batch["i"].tolist()]


@settings(max_examples=8, deadline=None)
@given(
    rows=st.integers(1, 40),
    seed=st.integers(0, 99),
    world=st.integers(1, 7),
    ops=st.sampled_from([lambda ds: ds, lambda ds: ds.shuffle(seed=3), lambda ds: ds.shuffle(seed=3, blocks=2)]),
)
def test_rows_are_those_of_the_scan_on_any_number_of_ranks(rows, seed, world, ops):
    with tempfile.TemporaryDirectory() as path:
        made = lance.write_dataset(table(rows), f"{path}/t", max_rows_per_file=7)
        made.delete(f"i % 5 = {seed % 5}")
        expected = lance.dataset(f"{path}/t").to_table().to_pydict()
        dataset = tdi.LanceDataset(f"{path}/t")
        assert len(dataset) == len(expected["i"])
        assert [(int(row["i"]), row["x"].tolist(), row["s"]) for row in dataset] == list(zip(*expected.values()))
        if expected["i"]:
            assert dataset.element_spec["i"].dtype == torch.int32
            batches = ops(dataset).batch(5)
            policy = tdi.AutoShardPolicy.DATA
            shares = [tdi.testing.worker_stream(batches, world, 1, rank, policy) for rank in range(world)]
            assert sorted(number for share in shares for number in numbers(share)) == expected["i"]


@pytest.mark.parametrize("ops", [lambda ds: ds, lambda ds: ds.shuffle(seed=1), lambda ds: ds.shuffle(seed=1, blocks=2)])
def test_laws_of_lance_tables(folder, ops):
    dataset = ops(tdi.LanceDataset(folder, columns=["s", "i"])).batch(4)
    assert list(dataset.element_spec) == ["s", "i"]
    tdi.testing.assert_resumable(dataset)
    tdi.testing.assert_paths_agree(dataset)


def test_a_dataset_and_a_state_stay_at_their_version(folder):
    before = tdi.LanceDataset(folder)
    rows, pickled = numbers(before.batch(9)), pickle.dumps(before)
    iterator = iter(before.batch(9))
    next(iterator)
    state = iterator.state_dict()
    lance.write_dataset(table(5, 1000), folder, mode="append")
    assert numbers(before.batch(9)) == rows == numbers(pickle.loads(pickled).batch(9))
    assert len(tdi.LanceDataset(folder)) == len(rows) + 5
    assert numbers(tdi.LanceDataset(folder, version=2).batch(9)) == rows
    assert numbers(tdi.LanceDataset(lance.dataset(folder, version=2)).batch(9)) == rows
    with pytest.raises(ValueError, match=r"LanceDataset\(version=2\).*, but here it is .*LanceDataset\(version=3\)"):
        iter(tdi.LanceDataset(folder).batch(9)).load_state_dict(state)
    resumed = iter(tdi.LanceDataset(folder, version=2).batch(9))
    resumed.load_state_dict(state)
    assert numbers(resumed) == rows[9:]


def test_errors_name_the_table(folder, tmp_path):
    with pytest.raises(tdi.NotFoundError, match="LanceDataset: .*nothing"):
        tdi.LanceDataset(tmp_path / "nothing")
    with pytest.raises(tdi.NotFoundError, match="LanceDataset: .*99"):
        tdi.LanceDataset(folder, version=99)
    with pytest.raises(ValueError, match=r"`columns` has 'q', but the columns of the table are \['i', 'x', 's'\]"):
        tdi.LanceDataset(folder, columns=["q"])
    lance.write_dataset(pa.table({"i": [1, None]}), tmp_path / "nulls")
    with pytest.raises(tdi.InvalidArgumentError, match=r"column 'i' is null(.|\n)*LanceDataset\(version=1\)"):
        list(tdi.LanceDataset(tmp_path / "nulls"))
    assert [int(row["i"]) for row in tdi.LanceDataset(tmp_path / "nulls", nulls=0)] == [1, 0]


def test_a_forked_process_is_refused_and_does_not_hang(folder):
    dataset = tdi.LanceDataset(folder).batch(4).with_options(tdi.Options(num_threads=0, prefetch=0))
    next(iter(dataset))

    def refused():
        with pytest.raises(tdi.FailedPreconditionError, match="lance cannot be used in a forked process"):
            next(iter(dataset))

    in_child(refused)
