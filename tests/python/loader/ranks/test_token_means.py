# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Means over the tokens of all ranks, where rows differ in length: as docs/how_to.md shows them."""

import pytest
import torch
import torch.distributed as dist
from ranks import returned, run_ranks
from torch.nn.parallel import DistributedDataParallel

import torch_distinput as tdi

LENGTHS = [1 + 7 * row % 13 for row in range(23)]


def document(row):
    """LENGTHS[row] tokens."""
    return torch.arange(LENGTHS[row], dtype=torch.float32) + 100 * row


class Documents(torch.utils.data.Dataset):
    def __len__(self):
        return len(LENGTHS)

    def __getitem__(self, row):
        return document(row)


def padded(rows):
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1) if rows else torch.zeros(0, 0)


def train(rank, balance):
    model = DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
    loader = tdi.DataLoader(
        Documents(), batch_size=3, shuffle=True, seed=1, collate_fn=padded, distributed=True, balance=balance
    )
    steps = []
    for tokens in loader:
        counted = tokens >= 0
        loss_sum = model(tokens.unsqueeze(-1)).squeeze(-1)[counted].sum()
        total = counted.sum()
        dist.all_reduce(total)
        model.zero_grad()
        (loss_sum * loader.last_info.num_replicas / total).backward()
        steps.append((tokens[counted].tolist(), model.module.weight.grad.item()))
    return steps


@pytest.mark.parametrize("balance", [None, LENGTHS], ids=["rows as they come", "balance"])
@pytest.mark.parametrize("world", [2, 3, 5])
def test_the_gradient_is_that_of_the_mean_over_the_tokens_of_all_ranks(world, balance):
    results = returned(run_ranks(train, world, balance))
    seen = []
    for of_ranks in zip(*results, strict=True):
        tokens = [token for own, _ in of_ranks for token in own]
        for _, gradient in of_ranks:
            assert gradient == pytest.approx(sum(tokens) / len(tokens), rel=1e-5)
        seen += tokens
    assert sorted(seen) == sorted(token for row in range(len(LENGTHS)) for token in document(row).tolist())
