# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Workers that wait for their next batch give the memory of batches back that nobody has any more."""

from pathlib import Path

import torch
from processes import wait_until
from torch.utils.data._utils import worker as torchs_worker
from torch_datasets import Made

import torch_distinput as tdi

ROW = 1 << 20  # bytes


def ask_often(worker: int) -> None:
    """Lets torch's loop ask for a task anew twenty times a second, instead of every five seconds."""
    torchs_worker.MP_STATUS_CHECK_INTERVAL = 0.05


def row(index: int) -> torch.Tensor:
    return torch.full((ROW,), index, dtype=torch.uint8)


def resident() -> int:
    """The bytes of batches that lie in memory of worker pools."""
    total, here = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name = line.split()[0]
        if "-" in name:
            here = "memfd:torch_distinput" in line
        elif here and name == "Rss:":
            total += int(line.split()[1]) << 10
    return total


def test_idle_workers_give_memory_back_and_go_on():
    loader = tdi.DataLoader(
        Made(24, row), batch_size=4, num_workers=2, persistent_workers=True, worker_init_fn=ask_often
    )
    for _ in range(2):
        kept, most = None, 0
        for number, batch in enumerate(loader):
            rows = torch.arange(4 * number, 4 * number + 4, dtype=torch.uint8)
            assert batch.eq(rows[:, None]).all()  # reads all pages
            kept, most = batch if number == 3 else kept, max(most, resident())
        del batch
        assert most >= 8 * ROW
        wait_until(lambda: resident() < 6 * ROW)  # what is kept, and pages of heads and rings
        assert resident() >= 4 * ROW and kept.eq(torch.arange(12, 16, dtype=torch.uint8)[:, None]).all()
    loader.close()
