# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Random pipelines for the tests of laws, which pickle, and helpers for their elements."""

from collections.abc import Iterator
from typing import Any

import torch
from hypothesis import strategies as st
from torch_datasets import Made

import torch_distinput as tdi


def row(index: int) -> dict:
    return {"id": torch.tensor(index), "x": torch.tensor([index, -index], dtype=torch.float32)}


def slices(count: int) -> tdi.Dataset:
    ids = torch.arange(count)
    return tdi.Dataset.from_tensor_slices({"id": ids, "x": torch.stack([ids, -ids], 1).float()})


def rows(count: int) -> Iterator[dict]:
    return map(row, range(count))


def generated(count: int) -> tdi.Dataset:
    """The same rows from a generator, which has no random access and no length."""
    spec = {"id": tdi.TensorSpec([], torch.int64), "x": tdi.TensorSpec([2], torch.float32)}
    return tdi.Dataset.from_generator(rows, spec, [count])


SOURCES = {"slices": slices, "rows": lambda count: tdi.Dataset.from_torch(Made(count, row)), "generator": generated}


def add_one(element: dict) -> dict:
    return {"id": element["id"], "x": element["x"] + 1}


def shuffle(dataset: tdi.Dataset, seed: int) -> tdi.Dataset:
    """A full shuffle; without random access, which that needs, a windowed one."""
    return dataset.shuffle(6 if dataset.cardinality() == tdi.UNKNOWN else None, seed=seed)


def sample(dataset: tdi.Dataset, k: int) -> tdi.Dataset:
    """Draws by weight, with replacement or without; without random access or elements, the dataset as it is."""
    streams = dataset.cardinality() == tdi.UNKNOWN or "sample_from_datasets" in repr(dataset)
    count = max(dataset.cardinality(), 0)
    if streams or count == 0:
        return dataset
    return dataset.sample(torch.arange(1, 1 + count), 1 + k if k % 2 else count, k % 2 == 1 or count < 2, seed=k)


def jitter(element: dict) -> dict:
    return {"id": element["id"], "x": element["x"] + torch.rand(2, generator=tdi.random())}


def twice(element: dict) -> tdi.Dataset:
    return tdi.Dataset.from_tensors(element).repeat(2)


def some(element: dict) -> tdi.Dataset:
    return tdi.Dataset.from_tensors(element).repeat(int(element["id"]) % 3)


def zipped(window: dict) -> tdi.Dataset:
    return tdi.Dataset.zip({"id": window["id"], "x": window["x"]})


def flat_windows(dataset: tdi.Dataset, size: int) -> tdi.Dataset:
    return dataset.window(size).flat_map(zipped)


def add_number(number: torch.Tensor, element: dict) -> dict:
    return {"id": element["id"], "x": element["x"] + number}


def first(element: dict, other: torch.Tensor) -> dict:
    return element


def has_kept_id(element: dict) -> torch.Tensor:
    return element["id"] % 3 != 1


def length(element: dict) -> torch.Tensor:
    return element["id"] % 5


def asserted(dataset: tdi.Dataset) -> tdi.Dataset:
    """Asserts the cardinality of a dataset whose cardinality is known; else returns it as it is."""
    return dataset if dataset.cardinality() == tdi.UNKNOWN else dataset.assert_cardinality(dataset.cardinality())


def chosen(dataset: tdi.Dataset, number: int) -> tdi.Dataset:
    return tdi.Dataset.choose_from_datasets([dataset, slices(number)], tdi.Dataset.range(2).repeat(3))


def sample_first(dataset: tdi.Dataset, number: int) -> tdi.Dataset:
    return tdi.Dataset.sample_from_datasets([slices(1 + number).repeat(), dataset], [1, 2], stop_on="first")


# Ops on rows; each keeps {"id", "x"}.
ROW_OPS = {
    "shuffle": shuffle,
    "window": lambda ds, k: ds.shuffle(1 + k, seed=3),
    "draw": sample,
    "take": lambda ds, k: ds.take(5 * k),
    "skip": lambda ds, k: ds.skip(k),
    "shard": lambda ds, k: ds.shard(2, k % 2),
    "repeat": lambda ds, k: ds.repeat(1 + k % 3),
    "concatenate": lambda ds, k: ds.concatenate(slices(k)),
    "cache": lambda ds, k: ds.cache(),
    "prefetch": lambda ds, k: ds.prefetch(k),
    "map": lambda ds, k: ds.map(add_one),
    "enumerate": lambda ds, k: ds.enumerate(k).map(add_number),
    "zip": lambda ds, k: tdi.Dataset.zip((ds, tdi.Dataset.range(4 * k))).map(first),
    "random": lambda ds, k: ds.map(jitter),
    "assert_cardinality": lambda ds, k: asserted(ds),
    "parallel_map": lambda ds, k: ds.map(add_one, num_parallel_calls=1 + k % 3),
    "sample": lambda ds, k: tdi.Dataset.sample_from_datasets([ds, slices(k)], [1, 2], seed=k),
    "sample_first": sample_first,
    "choose": chosen,
}
# These leave the random-access path.
STREAM_OPS = {
    "filter": lambda ds, k: ds.filter(has_kept_id),
    "batch_unbatch": lambda ds, k: ds.batch(1 + k).unbatch(),
    "schedule_unbatch": lambda ds, k: ds.batch([(0, 1 + k), (2, 3), (3, 1)]).unbatch(),
    "padded_unbatch": lambda ds, k: ds.padded_batch(1 + k).unbatch(),
    "flat_map": lambda ds, k: ds.flat_map(some),
    "interleave": lambda ds, k: ds.interleave(some, cycle_length=1 + k, block_length=1 + k % 2),
    "parallel_interleave": lambda ds, k: ds.interleave(twice, 2, num_parallel_calls=1 + k % 3),
    "window": lambda ds, k: flat_windows(ds, 1 + k),
    "unique": lambda ds, k: ds.unique(),
    "bucket": lambda ds, k: ds.bucket_by_length(length, [2, 4], [1, 2, 1 + k]).unbatch(),
    "cost": lambda ds, k: ds.batch_by_cost(length, 4 + k, window=3 + k).unbatch(),
    "batch_rebatch": lambda ds, k: ds.batch(2).rebatch([1 + k, 2]).unbatch(),
}
# Ops on batches of rows.
BATCH_OPS = {
    "none": lambda ds, k: ds,
    "map": lambda ds, k: ds.map(add_one, row_wise=bool(k % 2)),
    "take": lambda ds, k: ds.take(k),
    "skip": lambda ds, k: ds.skip(k),
    "repeat": lambda ds, k: ds.repeat(2),
    "shuffle": shuffle,
    "prefetch": lambda ds, k: ds.prefetch(1 + k),
    "rebatch": lambda ds, k: ds.rebatch(1 + k),
}

Chain = tuple[str, int, list[tuple[str, int]], int, bool, tuple[str, int]]


def chains(with_stream_ops: bool = True) -> st.SearchStrategy[Chain]:
    """Names and numbers from which `build` makes a batched pipeline."""
    row_ops = [*ROW_OPS, *(STREAM_OPS if with_stream_ops else {})]
    number = st.integers(0, 4)
    return st.tuples(
        st.sampled_from(sorted(SOURCES)),
        st.integers(0, 13),
        st.lists(st.tuples(st.sampled_from(row_ops), number), max_size=3),
        st.integers(1, 5),
        st.booleans(),
        st.tuples(st.sampled_from(sorted(BATCH_OPS)), number),
    )


def build(chain: Chain) -> tdi.Dataset:
    source, rows, ops, batch, drop, (batch_op, number) = chain
    dataset = SOURCES[source](rows)
    for name, k in ops:
        dataset = (ROW_OPS | STREAM_OPS)[name](dataset, k)
    return BATCH_OPS[batch_op](dataset.batch(batch, drop_remainder=drop), number)


def plain(value: Any) -> Any:
    """A value as nested Python data, shapes and dtypes included."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), value.tolist()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (tuple, list)):
        parts = [plain(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def elements(dataset: tdi.Dataset, **options) -> list:
    """One epoch of a dataset as plain data; options as in `_C.Dataset.iterate`."""
    return [plain(element) for element in dataset._native.iterate(**options)]


def check_laws(dataset: tdi.Dataset) -> None:
    tdi.testing.assert_resumable(dataset)
    tdi.testing.assert_paths_agree(dataset)
