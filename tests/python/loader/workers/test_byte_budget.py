# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`prefetch_bytes` with worker processes: how many batches they make ahead."""

import pytest
import torch
from torch.utils import data
from torch_datasets import Made

import torch_distinput as tdi

ROW = 1000  # bytes


def row(index: int) -> torch.Tensor:
    return torch.full((ROW,), index % 256, dtype=torch.uint8)


class Stream(data.IterableDataset):
    def __iter__(self):
        info = data.get_worker_info()
        return map(row, range(info.id, 41, info.num_workers))


def most_under_way(loader, at_first=2) -> tuple[list[int], int]:
    """The rows of an epoch, and the most batches that were under way; before the first one, `at_first`."""
    iterator, rows, most = iter(loader), [], 0
    assert iterator._tasks_outstanding == at_first
    for batch in iterator:
        rows += batch[:, 0].tolist()
        most = max(most, iterator._tasks_outstanding)
    return rows, most


@pytest.mark.parametrize("batches, expected", [(0, 2), (1, 2), (3, 3), (5, 5), (8, 8), (100, 8)])
@pytest.mark.parametrize("in_order", [True, False])
def test_batches_ahead_fit_the_bytes(batches, expected, in_order):
    loader = tdi.DataLoader(
        Made(41, row), 2, num_workers=2, prefetch_factor=4, prefetch_bytes=batches * 2 * ROW, in_order=in_order
    )
    rows, most = most_under_way(loader)
    assert sorted(rows) == list(range(41)) and most == expected


def test_streams_end_with_all_rows():
    loader = tdi.DataLoader(Stream(), 2, num_workers=2, prefetch_factor=4, prefetch_bytes=6 * ROW)
    rows, most = most_under_way(loader)
    assert sorted(rows) == list(range(41)) and most == 3


def test_persistent_workers_and_states_keep_the_bound():
    loader = tdi.DataLoader(
        Made(41, row), 2, num_workers=2, prefetch_factor=4, prefetch_bytes=6 * ROW, persistent_workers=True
    )
    first = iter(loader)
    seen = [next(first)[:, 0].tolist() for _ in range(5)]
    state = loader.state_dict()
    loader.close()
    loader.load_state_dict(state)
    rows, most = most_under_way(loader)
    assert [row for batch in seen for row in batch] + rows == list(range(41)) and most == 3
    assert most_under_way(loader, at_first=3) == (list(range(41)), 3)
