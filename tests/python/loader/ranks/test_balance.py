# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""DataLoader(balance=...): ranks get rows of equal cost, natively and by index, and go on on another number."""

import itertools

import pytest
import torch
from ranks import returned, run_ranks
from torch.utils.data import Subset, TensorDataset

import torch_distinput as tdi

COSTS = [90, 1, 2, 3, 40, 30, 20, 7, 8, 9, 33, 5, 60, 1, 2, 3]


class Rows(torch.utils.data.Dataset):
    """Rows that Python makes."""

    def __len__(self) -> int:
        return len(COSTS)

    def __getitem__(self, row: int) -> torch.Tensor:
        return torch.tensor(row)


def dataset_of(kind: str):
    rows = torch.arange(len(COSTS))
    return {"native": TensorDataset(rows), "tensor": rows, "python": Rows(), "subset": Subset(rows, range(16)[::-1])}[
        kind
    ]


def take(rank, kind, balance, window, state, steps):
    loader = tdi.DataLoader(
        dataset_of(kind),
        global_batch_size=8,
        shuffle=True,
        seed=3,
        distributed=True,
        balance=balance,
        balance_window=window,
    )
    if state is not None:
        loader.load_state_dict(state)
    found = []
    for batch in itertools.islice(loader, steps):
        found.append((batch[0] if isinstance(batch, list) else batch).tolist())
    return found, loader.state_dict(), len(loader), repr(loader)


def steps_over(world: int, *args) -> tuple[list[list[list[int]]], list]:
    results = returned(run_ranks(take, world, *args))
    return [list(parts) for parts in zip(*(found for found, *_ in results), strict=True)], results


@pytest.mark.parametrize("kind", ["native", "tensor", "python", "subset"])
def test_ranks_get_rows_of_equal_cost(kind):
    costs = torch.tensor(COSTS)
    by_row = costs.flip(0) if kind == "subset" else costs
    plain, _ = steps_over(2, kind, None, 1, None, 9)
    steps, results = steps_over(2, kind, by_row, 1, None, 9)
    assert [sorted(sum(step, [])) for step in steps] == [sorted(sum(step, [])) for step in plain]
    assert [[len(part) for part in step] for step in steps] == [[4, 4], [4, 4]]
    assert sum(map(spread, steps)) < sum(map(spread, plain)) / 2
    assert results[0][2] == 2 and "balance=" in results[0][3]


def spread(step: list[list[int]]) -> int:
    """By how much the costs of the parts differ."""
    sums = [sum(COSTS[row] for row in part) for part in step]
    return max(sums) - min(sums)


def test_another_number_of_ranks_goes_on_within_a_window():
    balance = torch.tensor(COSTS)
    expected, _ = steps_over(1, "native", balance, 2, None, 9)
    first, results = steps_over(2, "native", balance, 2, None, 1)
    rest, _ = steps_over(3, "native", balance, 2, results[0][1], 9)
    assert [sorted(sum(step, [])) for step in first + rest] == [sorted(sum(step, [])) for step in expected]


def test_what_does_not_fit_is_refused():
    rows = torch.arange(4)
    with pytest.raises(ValueError, match="`balance` needs `distributed=True`"):
        tdi.DataLoader(rows, balance=[1, 2, 3, 4])
    with pytest.raises(ValueError, match="`balance_window` needs `distributed=True`"):
        tdi.DataLoader(rows, balance_window=2)
    with pytest.raises(ValueError, match="`balance` needs `split` 'balanced'"):
        tdi.DataLoader(rows, distributed=True, split="tf", balance=[1, 2, 3, 4])
    with pytest.raises(ValueError, match="must have one entry for each of the 4 rows"):
        next(iter(tdi.DataLoader(rows, distributed=True, balance=[1, 2])))
    with pytest.raises(ValueError, match="must be a tensor with the cost of each row"):
        next(iter(tdi.DataLoader(Rows(), distributed=True, balance=int)))
    with pytest.raises(ValueError, match="has no meaning where each rank reads a stream"):
        tdi.DataLoader(rows, distributed=True, balance=[1, 2, 3, 4], sampler=[0, 1])
    with pytest.raises(ValueError, match="the sampler cannot list"):
        list(tdi.DataLoader(rows, distributed=True, balance=[1, 2, 3, 4]).sampler)
