# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`sample_from_datasets` over unequal and repeated datasets: exact counts, resume, and the shares that it reports."""

from collections import Counter

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_distinput as tdi


def source(number: int, rows: int) -> tdi.Dataset:
    return tdi.Dataset.from_tensor_slices(torch.arange(rows) + 1000 * number).shuffle(seed=number)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 3), st.floats(0.1, 5)), min_size=1, max_size=3),
    st.integers(0, 40),
)
def test_each_dataset_is_drawn_to_its_end_and_counted(sources, taken):
    def make() -> tdi.Dataset:
        datasets = [source(number, rows).repeat(times) for number, (rows, times, _) in enumerate(sources)]
        return tdi.Dataset.sample_from_datasets(datasets, [weight for _, _, weight in sources], seed=9)

    dataset = make()
    whole = [int(row) for row in dataset]
    times = {1000 * n + row: times for n, (rows, times, _) in enumerate(sources) for row in range(rows)}
    assert Counter(whole) == Counter(times)
    dataset.set_epoch(0)
    iterator = iter(dataset)
    seen = [int(next(iterator)) for _ in range(min(taken, len(whole)))]
    counts = [sum(row // 1000 == number for row in seen) for number in range(len(sources))]
    assert iterator.stats().sampled == tuple(counts)
    resumed = iter(make())
    resumed.load_state_dict(iterator.state_dict())
    assert resumed.stats().sampled == tuple(counts)
    assert seen + [int(row) for row in resumed] == whole
    assert resumed.stats().sampled == tuple(rows * times for rows, times, _ in sources)


def test_an_endless_mixture_keeps_to_its_weights_and_read_ahead_does_not_count():
    endless = tdi.Dataset.sample_from_datasets([source(0, 3).repeat(), source(1, 400).repeat()], [3, 1], seed=2)
    iterator = iter(endless.batch(10).prefetch(4))
    rows = torch.cat([next(iterator) for _ in range(400)])
    counts = [int((rows < 1000).sum()), int((rows >= 1000).sum())]
    assert iterator.stats().sampled == tuple(counts)
    assert abs(counts[0] / 4000 - 0.75) < 0.03  # four standard deviations
    assert iter(tdi.Dataset.range(3)).stats().sampled == ()


def test_replicas_report_what_was_delivered():
    mixed = tdi.Dataset.sample_from_datasets([source(0, 30), source(1, 10)], [3, 1], seed=2).batch(8)
    steps = iter(tdi.MirroredStrategy(["cpu", "cpu"]).distribute_dataset(mixed))
    rows = torch.cat([part for _ in range(3) for part in next(steps).values])
    assert steps.stats().sampled == (int((rows < 1000).sum()), int((rows >= 1000).sum()))


def test_a_position_without_counts_begins_them_at_zero():
    dataset = tdi.Dataset.sample_from_datasets([source(0, 30), source(1, 10)], seed=2)
    iterator = iter(dataset)
    rest = [int(row) for row in iterator][5:]
    dataset.set_epoch(0)
    iterator = iter(dataset)
    for _ in range(5):
        next(iterator)
    state = iterator.state_dict()
    del state["position"]["sampled"]
    resumed = iter(dataset)
    resumed.load_state_dict(state)
    assert [int(row) for row in resumed] == rest
    assert sum(resumed.stats().sampled) == 35
