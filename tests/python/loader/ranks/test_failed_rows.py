# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""DataLoader(distributed=True, on_error="skip"): equal steps on all ranks, exactly the bad rows left out, right
weights, and states that go on on another number of ranks."""

import itertools
import random

import pytest
import torch
from ranks import returned, run_ranks

import torch_distinput as tdi


class Broken(torch.utils.data.Dataset):
    def __init__(self, size, bad):
        self.size, self.bad = size, bad

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if index in self.bad:
            raise OSError(f"broken {index}")
        return torch.tensor(index)


def take(rank, size, bad, arguments, state, steps):
    loader = tdi.DataLoader(
        Broken(size, bad), shuffle=True, seed=3, distributed=True, with_info=True, on_error="skip", **arguments
    )
    if state is not None:
        loader.load_state_dict(state)
    found = []
    for rows, info in itertools.islice(loader, steps):
        found.append((rows.tolist(), info.valid[0], info.global_valid, info.loss_scale[0], info.step))
    return found, loader.skipped, loader.state_dict(), len(loader)


def checked(results):
    """The rows of the steps of all ranks, whose infos must fit them."""
    rows = []
    for parts in zip(*(found for found, *_ in results), strict=True):
        total = sum(len(part[0]) for part in parts)
        for own, valid, global_valid, scale, step in parts:
            assert (valid, global_valid, step) == (len(own), total, parts[0][4])
            assert scale == pytest.approx(len(parts) * len(own) / total if total else 0.0)
        rows += [row for part in parts for row in part[0]]
    return rows


@pytest.mark.parametrize("world", [1, 2, 3, 5])
@pytest.mark.parametrize("workers", [0, 2])
def test_ranks_take_equal_steps_and_leave_out_exactly_the_bad_rows(world, workers):
    draw = random.Random(world)
    for tail in ("zero_rows", "drop", "merge"):
        size = draw.randrange(1, 40)
        bad = frozenset(row for row in range(size) if draw.random() < 0.3)
        arguments = {"global_batch_size": draw.randrange(world, 9), "tail": tail, "num_workers": workers}
        results = returned(run_ranks(take, world, size, bad, arguments, None, 99, may_fork=workers > 0))
        kept = checked(results)
        skipped = [row for _, skipped, *_ in results for row in skipped]
        assert len(kept + skipped) == len(set(kept + skipped))
        assert set(kept).isdisjoint(bad) and set(skipped) <= bad
        if tail != "drop":
            assert sorted(kept + skipped) == list(range(size))
        assert all(len(found) == steps for found, *_, steps in results)


def test_another_number_of_ranks_goes_on():
    bad, arguments = frozenset({2, 3, 11, 17, 18}), {"global_batch_size": 6}
    first = returned(run_ranks(take, 3, 40, bad, arguments, None, 3))
    second = returned(run_ranks(take, 2, 40, bad, arguments, first[0][2], 99))
    assert sorted(checked(first) + checked(second)) == sorted(set(range(40)) - bad)


def test_the_most_errors_count_over_all_ranks():
    results = run_ranks(take, 3, 40, frozenset(range(0, 40, 4)), {"global_batch_size": 6, "max_errors": 5}, None, 99)
    assert all("`max_errors=5` allows no more" in str(result) for result in results), results


def test_a_rank_whose_rows_all_fail_gets_batches_without_rows():
    order = [
        row
        for found, *_ in returned(run_ranks(take, 1, 12, frozenset(), {"global_batch_size": 6}, None, 99))
        for part in found
        for row in part[0]
    ]
    bad = frozenset(order[3:6] + order[9:12])  # the second rank's, with three rows of each step
    results = returned(run_ranks(take, 2, 12, bad, {"global_batch_size": 6}, None, 99))
    assert [len(part[0]) for part in results[1][0]] == [0, 0]
    assert sorted(checked(results)) == sorted(set(range(12)) - bad)


def leave_out(rank, bad, excluded, skips):
    on_error = "skip" if skips else "raise"
    loader = tdi.DataLoader(
        Broken(40, bad if skips else ()), global_batch_size=6, shuffle=True, seed=3, distributed=True, on_error=on_error
    )
    found = []
    for batch in loader:
        found.append(batch.tolist())
        if len(found) == 2:
            loader.exclude(excluded)
    return found


@pytest.mark.parametrize("world", [1, 2, 3])
def test_rows_that_are_excluded_meanwhile_are_left_out_too(world):
    bad, excluded = frozenset({2, 3, 11, 17, 18}), [1, 2, 14, 30, 31]
    whole = returned(run_ranks(leave_out, world, (), excluded, False))
    left = returned(run_ranks(leave_out, world, bad, excluded, True))
    assert left == [[[row for row in batch if row not in bad] for batch in steps] for steps in whole]
