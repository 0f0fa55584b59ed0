# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Ranks that read objects in whole blocks: each downloads the blocks of its rows, and no others to compare data."""

import io

import numpy as np
import pytest
from ranks import returned, run_ranks

import torch_distinput as tdi

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

GROUPS, GROUP, BYTES = 24, 10, 10_000


def table(groups=GROUPS, group=GROUP):
    rows = groups * group
    file = io.BytesIO()
    data = pa.table({"row": range(rows), "bytes": [np.random.default_rng(i).bytes(BYTES) for i in range(rows)]})
    parquet.write_table(data, file, row_group_size=group, compression="none", use_dictionary=False)
    return file.getvalue()


def batches(url, blocks):
    return tdi.ParquetDataset(url).shuffle(seed=1, **blocks).batch(24)


def read(rank, url, blocks, split):
    loader = tdi.DataLoader(batches(url, blocks), batch_size=None, distributed=True, split=split)
    return [row for batch in loader for row in batch["row"].tolist()]


@pytest.mark.parametrize(("blocks", "split"), [({"blocks": 1}, "lanes"), ({}, "balanced")])
def test_each_rank_downloads_the_blocks_of_its_rows(http_store, blocks, split):
    url = http_store.put("rows.parquet", table())
    of_ranks = returned(run_ranks(read, 2, url, blocks, split, store="agent"))
    assert sorted(of_ranks[0] + of_ranks[1]) == list(range(GROUPS * GROUP))
    wanted = sum(len({row // GROUP for row in rows}) for rows in of_ranks)
    sent = sum(entry.sent for entry in http_store.server.requests(operation="read"))
    assert wanted <= sent / (GROUP * BYTES) < wanted + 2  # with two footers


def other(rank, urls):
    loader = tdi.DataLoader(batches(urls[rank], {}), batch_size=None, distributed=True)
    with pytest.raises(tdi.DistributedDatasetError) as raised:
        next(iter(loader))
    return str(raised.value)


@pytest.mark.parametrize(
    ("name", "group", "fact"), [("a/other.parquet", GROUP, "pipeline"), ("b/rows.parquet", GROUP // 2, "content")]
)
def test_ranks_with_other_objects_are_told(http_store, name, group, fact):
    urls = [
        http_store.put("a/rows.parquet", table()),
        http_store.put(name, table(GROUPS * GROUP // group, group)),
    ]
    for error in returned(run_ranks(other, 2, urls, store="agent")):
        assert f"on {fact}, but " in error


def test_ranks_may_read_from_other_places(http_store):
    urls = [http_store.put(f"{place}/rows.parquet", table()) for place in "ab"]
    of_ranks = returned(run_ranks(from_places, 2, urls, store="agent"))
    assert sorted(of_ranks[0] + of_ranks[1]) == list(range(GROUPS * GROUP))


def from_places(rank, urls):
    return read(rank, f"{urls[rank]}?of={rank}", {}, "balanced")


def test_files_of_equal_rows_in_other_blocks_are_told(tmp_path):
    """`shuffle(blocks=...)` gives them another order."""
    paths = [tmp_path / place / "rows.parquet" for place in "ab"]
    for path, group in zip(paths, (GROUP, GROUP // 2), strict=True):
        path.parent.mkdir()
        path.write_bytes(table(GROUPS * GROUP // group, group))
    for error in returned(run_ranks(other, 2, paths, store="agent")):
        assert "on content, but " in error
