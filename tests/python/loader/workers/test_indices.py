# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The indices that workers get, which travel as memory where torch's own samplers make them."""

import pytest
import torch
from torch.utils import data

import torch_distinput as tdi

SIZE = 40_000


class Indices(data.Dataset):
    """Its rows are the indices that it is asked for; refuses those that torch would not pass."""

    def __len__(self):
        return SIZE

    def __getitems__(self, rows):
        if type(rows) is not list or any(type(row) is not int for row in rows):
            raise TypeError(f"rows are no list of ints but {rows!r}")
        return rows


def batches(cls, workers, options, first=0):
    """The batches of an epoch from batch `first` on."""
    torch.manual_seed(3)
    loader = cls(Indices(), collate_fn=list, num_workers=workers, **options)
    if first:
        before = iter(loader)
        for _ in range(first):
            next(before)
        state = loader.state_dict()
        del before
        loader = cls(Indices(), collate_fn=list, num_workers=workers, **options)
        loader.load_state_dict(state)
    return list(loader)


@pytest.mark.parametrize("batch_size", [700, SIZE // 2 + 3, SIZE + 1])
@pytest.mark.parametrize(
    "options",
    [{}, {"shuffle": True}, {"shuffle": True, "seed": 5}, {"drop_last": True}],
    ids=["in order", "shuffled", "shuffled by the loader's seed", "without a short batch"],
)
def test_workers_get_the_lists_that_the_process_itself_would(options, batch_size):
    options = options | {"batch_size": batch_size}
    found = batches(tdi.DataLoader, 2, options)
    assert found == batches(tdi.DataLoader, 0, options)
    if "seed" not in options:
        assert found == batches(data.DataLoader, 0, options)


@pytest.mark.parametrize("shuffle", [False, True])
def test_workers_go_on_with_the_rest_of_the_lists(shuffle):
    options = {"batch_size": 700, "shuffle": shuffle}
    assert batches(tdi.DataLoader, 2, options, first=30) == batches(tdi.DataLoader, 0, options)[30:]
