# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Random pipelines whose elements are the numbers of their source rows."""

import torch
from hypothesis import strategies as st

import torch_distinput as tdi


class Sources:
    """Datasets of numbers, each after all those before it, as the inputs of ops are numbered."""

    def __init__(self) -> None:
        self.rows = 0

    def next(self, count: int) -> tdi.Dataset:
        first, self.rows = self.rows, self.rows + count
        return tdi.Dataset.from_tensor_slices(torch.arange(first, self.rows))


def shuffled(dataset: tdi.Dataset, seed: int | None = None) -> tdi.Dataset:
    """A full shuffle; a windowed one where the number of elements is not known."""
    return dataset.shuffle(6 if dataset.cardinality() == tdi.UNKNOWN else None, seed=seed)


def mixed(dataset: tdi.Dataset, sources: Sources, k: int) -> tdi.Dataset:
    return tdi.Dataset.sample_from_datasets([dataset, sources.next(k)], [1, 2], stop_on="all")


def chosen(dataset: tdi.Dataset, sources: Sources, k: int) -> tdi.Dataset:
    return tdi.Dataset.choose_from_datasets([dataset, sources.next(1 + k)], tdi.Dataset.range(2).repeat(4))


def drawn(dataset: tdi.Dataset, _: Sources, k: int) -> tdi.Dataset:
    size = dataset.cardinality()
    return dataset.sample(torch.arange(1, 1 + size), 3 + k) if size > 0 else dataset


ROW_OPS = {
    "shuffle": lambda ds, new, k: shuffled(ds, k),
    "unseeded": lambda ds, new, k: shuffled(ds),
    "window": lambda ds, new, k: ds.shuffle(2 + k),
    "take": lambda ds, new, k: ds.take(4 * k),
    "skip": lambda ds, new, k: ds.skip(k),
    "shard": lambda ds, new, k: ds.shard(2, k % 2),
    "repeat": lambda ds, new, k: ds.repeat(1 + k % 3),
    "cache": lambda ds, new, k: ds.cache(),
    "prefetch": lambda ds, new, k: ds.prefetch(k),
    "map": lambda ds, new, k: ds.map(lambda row: row.clone()),
    "enumerate": lambda ds, new, k: ds.enumerate().map(lambda number, row: row.clone()),
    "draw": drawn,
    "concatenate": lambda ds, new, k: ds.concatenate(new.next(k)),
    "mixture": mixed,
    "choose": chosen,
}
BATCH_OPS = {
    "none": lambda ds, k: ds,
    "map": lambda ds, k: ds.map(lambda rows: rows.clone(), row_wise=bool(k % 2)),
    "take": lambda ds, k: ds.take(1 + k),
    "skip": lambda ds, k: ds.skip(k),
    "repeat": lambda ds, k: ds.repeat(2),
    "shuffle": lambda ds, k: shuffled(ds, k),
    "prefetch": lambda ds, k: ds.prefetch(1 + k),
}
# After these, element i is still batch i.
PLACED_OPS = ("none", "map", "take", "prefetch")

Chain = tuple[int, list[tuple[str, int]]]
NUMBER = st.integers(0, 4)
CHAINS = st.tuples(st.integers(0, 13), st.lists(st.tuples(st.sampled_from(sorted(ROW_OPS)), NUMBER), max_size=3))


def rows(chain: Chain, sources: Sources | None = None) -> tdi.Dataset:
    """Single rows of `sources`."""
    sources = sources or Sources()
    dataset = sources.next(chain[0])
    for name, k in chain[1]:
        dataset = ROW_OPS[name](dataset, sources, k)
    return dataset


def has_random_access(dataset: tdi.Dataset) -> bool:
    """Whether the pipeline runs as a plan: an unknown number of elements (`choose`) stops some ops."""
    return dataset._native.ops()[-1].path == "plan"
