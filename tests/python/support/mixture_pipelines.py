# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Random mixtures: their datasets, weights and the ops after them, and the laws of their positions."""

import torch
from hypothesis import strategies as st

import torch_distinput as tdi

BORDER = 1000
Source = tuple[int, str, int, float]  # rows, an op, its number, the weight


def source(index: int, given: Source, batch: int, streams: bool) -> tdi.Dataset:
    rows, op, number, _ = given
    dataset = tdi.Dataset.from_tensor_slices(torch.arange(BORDER * index, BORDER * index + rows))
    if streams:
        dataset = dataset.filter(lambda row: row >= 0)
    if op == "shuffle":
        dataset = dataset.shuffle(1 + number, seed=number)
    elif op == "repeat":
        dataset = dataset.shuffle(3).repeat(number)
    elif op == "skip":
        dataset = dataset.skip(number)
    return dataset.batch(batch) if batch else dataset


AFTER = {
    "none": lambda ds, k: ds,
    "shuffle": lambda ds, k: ds.shuffle(seed=k),
    "window": lambda ds, k: ds.shuffle(1 + k),
    "repeat": lambda ds, k: ds.repeat(k),
    "shard": lambda ds, k: ds.shard(2, k % 2),
    "take": lambda ds, k: ds.take(3 * k),
    "skip": lambda ds, k: ds.skip(k),
    "cache": lambda ds, k: ds.cache(),
    "batch": lambda ds, k: ds.batch(1 + k),
    "map": lambda ds, k: ds.map(lambda row: row + k),
    "zip": lambda ds, k: tdi.Dataset.zip((ds, tdi.Dataset.range(9 * k))).map(lambda row, _: row),
    "concatenate": lambda ds, k: ds.concatenate(ds),
    "mixture": lambda ds, k: tdi.Dataset.sample_from_datasets([ds, ds.take(k)], [2, 1]),
}
NUMBER = st.integers(0, 4)
WEIGHT = st.one_of(st.sampled_from([0.0, 1.0, 1.0]), st.floats(1e-3, 50))

ENTRIES = st.lists(st.lists(WEIGHT, min_size=5, max_size=5), min_size=1, max_size=4)
STEPS = st.lists(st.integers(1, 12), min_size=4, max_size=4)
SCHEDULED_SOURCES = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from(["none", "shuffle", "repeat", "skip"]), NUMBER, st.just(1.0)),
    min_size=1,
    max_size=5,
)


def scheduled(sources, entries, steps, stop_on, seed, streams=False, per_step=None) -> tdi.Dataset:
    datasets = [source(i, given, 0, streams) for i, given in enumerate(sources)]
    schedule, step = [], 0
    for weights, length in zip(entries, steps, strict=False):
        weights = weights[: len(datasets)]
        schedule.append((step, weights if any(weights) else [1.0] * len(datasets)))
        step += length
    return tdi.Dataset.sample_from_datasets(datasets, schedule, seed, stop_on, elements_per_step=per_step)


def letters(count: int = 2) -> list[tdi.Dataset]:
    return [tdi.Dataset.from_tensors(torch.tensor(i)).repeat() for i in range(count)]


def numbered(lengths: list[int], first: int) -> tdi.Dataset:
    """Documents of these lengths; tokens are numbers from `first` on."""
    values = torch.arange(first, first + sum(lengths))
    return tdi.Dataset.from_tensor_slices(
        torch.nested.nested_tensor_from_jagged(values, torch.tensor([0, *lengths]).cumsum(0))
    )


def numbers(dataset: tdi.Dataset, **options) -> list:
    return [element.tolist() for element in dataset._native.iterate(epoch=1, **options)]


def assert_resumes(dataset: tdi.Dataset, **options) -> None:
    def opened():
        return dataset._native.iterate(epoch=1, **options)

    whole = [element.tolist() for element in opened()]
    iterator = opened()
    for position in range(len(whole) + 1):
        state = iterator.state_dict()
        resumed = opened()
        resumed.load_state_dict(state)
        assert [element.tolist() for element in resumed] == whole[position:]
        next(iterator, None)
