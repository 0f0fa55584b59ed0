# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""InputOptions(balance=...): parts of equal cost, laws, restarts on other worlds, against a model in plain Python."""

import itertools

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from ranks import returned, run_ranks

import torch_distinput as tdi
from torch_distinput import _C

COSTS = st.lists(st.integers(0, 30), min_size=1, max_size=60)
BATCHES = st.integers(1, 12)
WORLDS = st.integers(1, 7)
WINDOWS = st.integers(1, 4)
TAILS = st.sampled_from(["zero_rows", "padded", "repeat", "drop", "until_first", "merge"])


def swap(dear: list[int], cheap: list[int], costs: list[int], gap: int) -> bool:
    """Lets the two rows change places that bring the parts closest together."""
    found, left = None, gap * 0.998
    for part in (dear, cheap):
        part.sort(key=lambda row: (-costs[row], row))
    for one, other in itertools.product(dear, cheap):
        remaining = abs(gap - 2 * (costs[one] - costs[other]))
        if remaining < left:
            found, left = (one, other), remaining
    if found is None:
        return False
    dear[dear.index(found[0])], cheap[cheap.index(found[1])] = found[1], found[0]
    return True


def spread(costs: list[int], parts: list[list[int]]) -> int:
    sums = [sum(costs[row] for row in part) for part in parts]
    return max(sums) - min(sums)


def deal(costs: list[int], sizes: list[int]) -> list[list[int]]:
    """The dearest row that is left goes to the cheapest part with room; then rows of the extremes change places."""
    parts: list[list[int]] = [[] for _ in sizes]
    for row in sorted(range(len(costs)), key=lambda row: (-costs[row], row)):
        room = [part for part, size in enumerate(sizes) if len(parts[part]) < size]
        parts[min(room, key=lambda part: (sum(costs[one] for one in parts[part]), part))].append(row)
    for _ in range(2 * len(sizes)):
        sums = [sum(costs[row] for row in part) for part in parts]
        gap = max(sums) - min(sums)
        if gap <= max(sums) * 1e-3 or not swap(parts[sums.index(max(sums))], parts[sums.index(min(sums))], costs, gap):
            break
    return parts


def rows_of(costs: list[int], batch: int, shuffled: bool) -> tdi.Dataset:
    rows = tdi.Dataset.range(len(costs))
    return (rows.shuffle(seed=3) if shuffled else rows).batch(batch)


def columns_of(costs: list[int], batch: int) -> tdi.Dataset:
    data = {"row": torch.arange(len(costs)), "cost": torch.tensor(costs)}
    return tdi.Dataset.from_tensor_slices(data).batch(batch)


def options_of(costs, window: int, tail: str = "zero_rows") -> tdi.InputOptions:
    return tdi.InputOptions(split="balanced", balance=costs, balance_window=window, tail=tail)


def steps_of(iterator) -> list[list[list[int]]]:
    """The rows of each part of each step."""
    return [[part.tolist() for part in parts_of(step)] for step in iterator]


class Native:
    """The steps of a native iterator: the parts, and which of their rows count."""

    def __init__(self, native):
        self.native = native

    def __iter__(self):
        while (step := self.native.next(None)) is not None:
            values, info = step
            yield (values if isinstance(values, tuple) else (values,)), (info.valid, info.loss_scale, info.row_start)


def parts_of(step) -> tuple:
    return step.values if hasattr(step, "values") and not isinstance(step, torch.Tensor) else (step,)


def distributed(dataset: tdi.Dataset, world: int, options: tdi.InputOptions):
    return tdi.MirroredStrategy(["cpu"] * world).distribute_dataset(dataset, options)


def flat(step: list[list[int]]) -> list[int]:
    return [row for part in step for row in part]


@given(COSTS, BATCHES, WORLDS, WINDOWS, st.booleans())
def test_steps_hold_the_same_rows_whatever_the_world_and_parts_keep_their_sizes(costs, batch, world, window, shuffled):
    dataset = rows_of(costs, batch, shuffled)
    alone = steps_of(distributed(dataset, 1, options_of(costs, window)))
    steps = steps_of(distributed(dataset, world, options_of(costs, window)))
    plain = steps_of(distributed(dataset, world, tdi.InputOptions(split="balanced")))
    assert [[len(part) for part in step] for step in steps] == [[len(part) for part in step] for step in plain]
    assert [sorted(flat(step)) for step in steps] == [sorted(flat(step)) for step in alone]
    for begin in range(0, len(plain), window):
        end = begin + window
        rows = [sorted(row for step in found[begin:end] for row in flat(step)) for found in (plain, steps)]
        assert rows[0] == rows[1]


@given(COSTS, BATCHES, WORLDS, WINDOWS)
def test_parts_are_as_equal_as_those_of_the_model(costs, batch, world, window):
    steps = steps_of(distributed(rows_of(costs, batch, False), world, options_of(costs, window)))
    for begin in range(0, len(costs), batch * window):
        here = list(range(begin, min(begin + batch * window, len(costs))))
        sizes = [min(batch, len(here) - at) for at in range(0, len(here), batch)]
        dealt = deal([costs[row] for row in here], sizes)
        found = steps[begin // batch : begin // batch + len(sizes)]
        assert spread(costs, [flat(step) for step in found]) == spread([costs[row] for row in here], dealt)
        for step in found:
            rows = sorted(flat(step))
            model = deal([costs[row] for row in rows], [len(part) for part in step])
            assert spread(costs, step) == spread([costs[row] for row in rows], model)
            assert all(part == sorted(part) for part in step)


def assert_resumes(dataset, world, other, options, steps) -> list[list[int]]:
    """After each step of `world` replicas, `other` replicas take the rows that are left, in the same steps. `steps`
    lists the parts of the steps that an iterator has left. Returns the rows of each step."""
    expected = [sorted(flat(step)) for step in steps(distributed(dataset, world, options))]
    for number in range(len(expected) + 1):
        iterator = iter(distributed(dataset, world, options))
        for _ in range(number):
            next(iterator)
        again = iter(distributed(dataset, other, options))
        again.load_state_dict(iterator.state_dict())
        assert [sorted(flat(step)) for step in steps(again)] == expected[number:]
    return expected


@given(COSTS, BATCHES, WORLDS, WORLDS, WINDOWS, st.booleans())
def test_any_world_resumes_after_every_step(costs, batch, world, other, window, shuffled):
    assert_resumes(rows_of(costs, batch, shuffled), world, other, options_of(costs, window), steps_of)


@given(COSTS, BATCHES, WORLDS, WINDOWS, TAILS)
def test_both_paths_and_all_ways_to_give_costs_agree(costs, batch, world, window, tail):
    dataset = columns_of(costs, batch)
    strategy = tdi.MirroredStrategy(["cpu"] * world)
    found = []
    for cost in (torch.tensor(costs), "cost", lambda row: row["cost"]):
        assigned = strategy.distribute_dataset(dataset, options_of(cost, window, tail))
        for stream_only in (False, True):
            steps = Native(assigned._native.iterate(epoch=0, stream_only=stream_only))
            found.append([([part["row"].tolist() for part in parts], info) for parts, info in steps])
    assert all(one == found[0] for one in found)


@given(COSTS, BATCHES, WORLDS, WORLDS, WINDOWS)
def test_streams_resume_within_a_window(costs, batch, world, other, window):
    dataset = columns_of(costs, batch)
    by_column, by_row = options_of("cost", window), options_of(torch.tensor(costs), window)
    expected = assert_resumes(dataset, world, other, by_column, rows_in)
    assert [sorted(flat(step)) for step in rows_in(distributed(dataset, other, by_row))] == expected


def rows_in(iterator) -> list[list[list[int]]]:
    return steps_of(step["row"] for step in iterator)


@given(COSTS, BATCHES, WORLDS, WINDOWS, TAILS)
def test_tails_and_weights_of_losses_are_those_without_balance(costs, batch, world, window, tail):
    dataset = rows_of(costs, batch, False)
    infos = []
    for options in (options_of(costs, window, tail), tdi.InputOptions(split="balanced", tail=tail)):
        iterator = iter(distributed(dataset, world, options))
        infos.append([])
        for _ in iterator:
            info = iterator.step_info
            infos[-1].append((info.valid, info.global_valid, info.loss_scale, info.row_start, info.is_last))
    assert infos[0] == infos[1]


@given(COSTS, BATCHES, WORLDS, WINDOWS, st.sampled_from(["zero_rows", "padded", "merge"]))
def test_restore_order_gives_rows_in_the_order_of_the_data(costs, batch, world, window, tail):
    iterator = iter(distributed(rows_of(costs, batch, False), world, options_of(costs, window, tail)))
    seen = []
    for step in iterator:
        rows = tdi.restore_order(torch.cat(parts_of(step)), iterator.step_info).tolist()
        assert rows == sorted(rows)
        seen += rows
    assert sorted(seen) == list(range(len(costs)))


@given(COSTS, BATCHES, WORLDS, WINDOWS, TAILS)
def test_step_rows_are_the_rows_that_are_delivered(costs, batch, world, window, tail):
    dataset, options = rows_of(costs, batch, False), options_of(costs, window, tail)
    native = _C.InputOptions(split="balanced", balance=torch.tensor(costs), balance_window=window, tail=tail)
    assume(world > 1)
    rows = _C.StepRows(dataset._native, world, native)
    steps = steps_of(distributed(dataset, world, options))
    assert rows.num_steps == len(steps)
    assert [[rows.rows(step, part) for part in range(world)] for step in range(len(steps))] == steps


def test_long_rows_meet_short_ones():
    costs = [100, 1, 1, 1, 50, 50, 1, 1]
    (step,) = steps_of(distributed(rows_of(costs, 8, False), 2, options_of(costs, 1)))
    assert [sum(costs[row] for row in part) for part in step] == [103, 102]
    assert [len(part) for part in step] == [4, 4]


def refusal(make) -> str:
    with pytest.raises((ValueError, TypeError)) as error:
        make()
    return str(error.value)


def test_what_does_not_go_together_is_refused():
    dataset, costs = tdi.Dataset.range(6).batch(3), [1, 2, 3, 4, 5, 6]
    two = tdi.MirroredStrategy(["cpu"] * 2)
    assert "`balance` needs `split` 'balanced'" in refusal(lambda: tdi.InputOptions(balance=costs))
    balanced = {"split": "balanced", "balance": costs}
    assert "`weights`" in refusal(lambda: two.distribute_dataset(dataset, tdi.InputOptions(**balanced, weights=[1, 2])))
    assert "`balance_window` must be at least 1" in refusal(lambda: tdi.InputOptions(**balanced, balance_window=0))
    assert "but `balance` is unset" in refusal(
        lambda: two.distribute_dataset(dataset, tdi.InputOptions(split="balanced", balance_window=2))
    )
    assert "one entry for each of the 6 rows" in refusal(lambda: two.distribute_dataset(dataset, options_of([1, 2], 1)))
    assert "needs a known number of rows" in refusal(
        lambda: two.distribute_dataset(dataset.unbatch().batch(2), options_of(costs, 1))
    )
    assert "must be the key of one leaf" in refusal(
        lambda: next(iter(two.distribute_dataset(dataset, options_of("cost", 1))))
    )


def test_a_state_within_a_window_goes_on_with_the_same_exchange_only():
    costs = [9, 1, 1, 5, 3, 2, 7, 8]
    iterator = iter(distributed(rows_of(costs, 2, False), 2, options_of(costs, 3)))
    next(iterator)
    state = iterator.state_dict()
    for dataset, options in (
        (rows_of(costs, 2, False), options_of(costs, 2)),
        (rows_of(costs, 1, False), options_of(costs, 3)),
        (rows_of(costs, 2, False), options_of(costs[::-1], 3)),
        (rows_of(costs, 2, False), tdi.InputOptions(split="balanced")),
    ):
        message = refusal(lambda: iter(distributed(dataset, 2, options)).load_state_dict(state))
        assert "only the same exchange can go on" in message
    for _ in range(2):
        next(iterator)
    plain = iter(distributed(rows_of(costs, 2, False), 2, tdi.InputOptions(split="balanced")))
    plain.load_state_dict(iterator.state_dict())  # between two windows
    assert steps_of(plain) == [[[6], [7]]]


def test_options_are_compared_by_their_costs():
    one, same, other = (options_of(torch.tensor(costs), 1) for costs in ([1, 2], [1, 2], [2, 1]))
    assert one == same and hash(one) == hash(same)
    assert one != other and one != tdi.InputOptions(split="balanced")


def over_ranks(rank, costs, batch, window, state, steps):
    strategy = tdi.MultiWorkerMirroredStrategy()
    dataset = tdi.Dataset.range(len(costs)).shuffle(seed=1).batch(batch)
    iterator = iter(strategy.distribute_dataset(dataset, options_of(costs, window)))
    if state is not None:
        iterator.load_state_dict(state)
    found = [step.values[0].tolist() for step in itertools.islice(iterator, steps)]
    return found, iterator.state_dict()


def test_ranks_share_the_steps_of_one_process_and_another_number_goes_on():
    costs = [9, 1, 1, 5, 3, 2, 7, 8, 4, 4, 6]
    expected = steps_of(distributed(rows_of_seed(costs, 3), 1, options_of(costs, 2)))
    first = returned(run_ranks(over_ranks, 2, costs, 3, 2, None, 1))
    rest = returned(run_ranks(over_ranks, 3, costs, 3, 2, first[0][1], 100))
    found = [sorted(first[0][0][0] + first[1][0][0])]
    found += [sorted(sum(parts, [])) for parts in zip(*(steps for steps, _ in rest), strict=True)]
    assert found == [sorted(flat(step)) for step in expected]


def rows_of_seed(costs: list[int], batch: int) -> tdi.Dataset:
    return tdi.Dataset.range(len(costs)).shuffle(seed=1).batch(batch)
