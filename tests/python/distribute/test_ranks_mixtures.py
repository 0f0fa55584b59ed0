# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A mixture over real processes: each reads the rows that it gets and no others, and a run goes on on other numbers."""

import itertools
from collections import Counter

import pytest
import torch
from ranks import returned, run_ranks

import torch_distinput as tdi

SIZES = (40, 9, 100)
ROWS = [1000 * i + row for i, size in enumerate(SIZES) for row in range(size)]


class Noted(torch.utils.data.Dataset):
    """Rows that note that they are read."""

    def __init__(self, first: int, size: int, reads: list[int]):
        self.first, self.size, self.reads = first, size, reads

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, row: int) -> torch.Tensor:
        self.reads.append(self.first + row)
        return torch.tensor(self.first + row)


def mixture(reads: list[int], stop_on: str = "all", repeat: int = 1) -> tdi.Dataset:
    datasets = [
        tdi.Dataset.from_torch(Noted(1000 * i, size, reads)).shuffle(seed=i).repeat(repeat if i else 1)
        for i, size in enumerate(SIZES)
    ]
    return tdi.Dataset.sample_from_datasets(datasets, [3, 1, 2], seed=4, stop_on=stop_on)


def train(rank, shuffles, state, steps):
    reads: list[int] = []
    mixed = mixture(reads)
    mixed.element_spec  # noqa: B018  reads a row of each dataset
    reads.clear()
    loader = tdi.DataLoader(mixed.shuffle(seed=9) if shuffles else mixed, batch_size=3, distributed=True)
    if state is not None:
        loader.load_state_dict(state)
    rows = []
    for batch in itertools.islice(loader, steps):
        rows += batch[: loader.last_info.valid[0]].tolist()
    return rows, reads, loader.state_dict(), loader.stats().sampled


@pytest.mark.parametrize("shuffles", [False, True])
def test_each_rank_reads_its_own_rows_and_no_others(shuffles):
    results = returned(run_ranks(train, 3, shuffles, None, 10_000))
    assert sorted(row for rows, *_ in results for row in rows) == ROWS
    for rows, reads, *_ in results:
        # A rank without rows in the last step reads one for its shape.
        extra = Counter(reads) - Counter(rows)
        assert sum(extra.values()) <= 1 and not Counter(rows) - Counter(reads)
    if not shuffles:
        assert {sampled for *_, sampled in results} == {SIZES}


@pytest.mark.parametrize("shuffles", [False, True])
def test_a_mixture_goes_on_exactly_once_on_other_numbers_of_processes(shuffles):
    state, seen = None, []
    for world, steps in ((3, 4), (2, 5), (1, 3), (4, 10_000)):
        results = returned(run_ranks(train, world, shuffles, state, steps))
        seen += [row for rows, *_ in results for row in rows]
        state = results[-1][2]
    assert sorted(seen) == ROWS


def upsampled(rank):
    mixed = mixture([], "first", repeat=100)
    loader = tdi.DataLoader(mixed, batch_size=3, distributed=True)
    rows = [row for batch in loader for row in batch[: loader.last_info.valid[0]].tolist()]
    return rows, len(mixed)


def test_a_mixture_that_stops_first_has_all_rows_of_the_dataset_that_ends():
    results = returned(run_ranks(upsampled, 3))
    rows = [row for rows, _ in results for row in rows]
    assert {length for _, length in results} == {len(rows)}
    shares = Counter(row // 1000 for row in rows)
    assert shares[0] == pytest.approx(40, abs=2) and shares[1] == pytest.approx(40 / 3, abs=3)


def changing(rank, state, steps, change_at, differs):
    datasets = [tdi.Dataset.range(1000 * i, 1000 * (i + 1)).shuffle(seed=i) for i in range(2)]
    loader = tdi.DataLoader(
        tdi.Dataset.sample_from_datasets(datasets, [1, 0], seed=4).take(120), batch_size=2, distributed=True
    )
    if state is not None:
        loader.load_state_dict(state)
    rows = []
    for step, batch in enumerate(itertools.islice(loader, steps)):
        rows += batch[: loader.last_info.valid[0]].tolist()
        if step + 1 == change_at:
            loader.set_weights([0, 1] if not differs else [rank, 1])
    return rows, loader.state_dict(), loader.last_info.row_start + loader.last_info.global_valid


def test_weights_change_at_one_step_on_all_ranks_and_on_other_numbers_of_them():
    results = returned(run_ranks(changing, 3, None, 5, 4, False))
    seen = [row for rows, *_ in results for row in rows]
    state = results[0][1]
    results = returned(run_ranks(changing, 2, state, 10_000, 0, False))
    seen += [row for rows, *_ in results for row in rows]
    assert len(seen) == len(set(seen)) == 120
    assert sum(row < 1000 for row in seen) == 4 * 3 * 2  # those of the first four steps


def test_ranks_that_set_other_weights_are_told():
    for result in run_ranks(changing, 2, None, 5, 3, True):
        assert isinstance(result, tdi.DistributedDatasetError) and "weights of the mixture" in str(result)
