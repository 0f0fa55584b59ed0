# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Each process lists its files; the handshake compares the lists by their number and a digest of their names."""

import pytest
from ranks import run_ranks

import torch_distinput as tdi


def read_listed(rank, folder, policy):
    """Reads the files of the folder; rank 1 sees one by another name, as where a copy is under way."""
    files = sorted(str(path) for path in folder.glob("*.txt"))
    if rank == 1:
        files[2] = str(folder / "late.part")
    options = tdi.Options(auto_shard_policy=policy)
    dataset = tdi.TextLineDataset(files).with_options(options).batch(4)
    return len(list(tdi.MultiWorkerMirroredStrategy().distribute_dataset(dataset)))


@pytest.mark.parametrize("policy", [tdi.AutoShardPolicy.DATA, tdi.AutoShardPolicy.FILE])
def test_lists_of_equal_length_and_other_names_are_the_same_error_on_all(tmp_path, policy):
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text("row\n" * 8)
    (tmp_path / "late.part").write_text("row\n" * 8)
    here, there = run_ranks(read_listed, 2, tmp_path, policy)
    assert isinstance(here, tdi.DistributedDatasetError), here
    assert str(here) == str(there)
    assert "the ranks must agree on pipeline" in str(here)
    assert "files(4, " in str(here)
