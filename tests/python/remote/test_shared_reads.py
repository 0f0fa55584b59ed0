# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Peers of a mesh that share what one of them reads: each byte comes over the network once a data coordinate."""

import pytest
import torch.distributed as dist
from ranks import returned, run_ranks

import torch_distinput as tdi

ROWS, BYTES = 64, 50_000


def read(rank, url, share):
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    rows = tdi.FixedLengthRecordDataset(url, BYTES).shuffle(seed=1).batch(8)
    loader = tdi.DataLoader(rows, batch_size=None, distributed=mesh, share=share)
    return [[bytes(row)[:8] for row in batch] for _ in range(2) for batch in loader]


@pytest.mark.parametrize(("share", "copies"), [(None, 2), ("node", 1), ("broadcast", 1)])
def test_bytes_over_all_ranks(http_store, share, copies):
    url = http_store.put("rows", b"".join(b"%08d" % row + bytes(BYTES - 8) for row in range(ROWS)))
    of_ranks = returned(run_ranks(read, 4, url, share, store="agent", limit=60))
    assert of_ranks[0] == of_ranks[1] and of_ranks[2] == of_ranks[3]
    seen = sorted(row for rank in (0, 2) for batch in of_ranks[rank] for row in batch)
    assert seen == sorted(b"%08d" % row for row in [*range(ROWS)] * 2)
    sent = sum(entry.sent for entry in http_store.server.requests(operation="read"))
    whole = 2 * ROWS * BYTES
    # Each process compares a few rows of the data with the others', and requests may join rows across gaps. Those that
    # read for themselves have begun a third epoch.
    begun = 0 if share else copies * whole // 2
    assert copies * whole <= sent < (copies + 0.6) * whole + begun
